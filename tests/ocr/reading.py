"""Opening what the tests drew."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from PIL import Image, ImageChops, ImageStat

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pages import PageImage, Source, TextLayer
from batchproc.ocr.source import open_source


@contextmanager
def opened(data: bytes, *, bounds: Bounds | None = None) -> Iterator[Source]:
    with closing(open_source(io.BytesIO(data), bounds=bounds or Bounds())) as source:
        yield source


def image_of(data: bytes, index: int = 0, *, dpi: int = 300, bounds: Bounds | None = None) -> PageImage:
    with opened(data, bounds=bounds) as source:
        return source.page(index).image(dpi)


def layer_of(data: bytes, index: int = 0) -> TextLayer | None:
    with opened(data) as source:
        return source.page(index).text_layer()


@contextmanager
def fails_as(code: str) -> Iterator[None]:
    with pytest.raises(OcrFailure) as caught:
        yield
    assert caught.value.code == code
    assert caught.value.detail
    assert "/tmp" not in caught.value.detail, "a detail names no path"


def alike(left: Image.Image, right: Image.Image, tolerance: float = 2.0) -> bool:
    """Whether two grey pictures of one size differ by no more grey levels in the mean."""
    return left.size == right.size and ImageStat.Stat(ImageChops.difference(left, right)).mean[0] <= tolerance
