"""Opening a document by its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO

from batchproc.ocr import heif, memory
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.formats import HEAD_BYTES, READ, media_type
from batchproc.ocr.images import ImageSource
from batchproc.ocr.odd_tiffs import OddTiffSource
from batchproc.ocr.pages import PageImage, Source, SourcePage, TextLayer
from batchproc.ocr.pdf_document import PdfSource
from batchproc.ocr.stream import SourceReader, SourceStream

__all__ = ["HEAD_BYTES", "PageImage", "Source", "SourcePage", "TextLayer", "media_type", "open_source"]


def open_source(data: BinaryIO | int, *, bounds: Bounds, passwords: Callable[[], Sequence[str]] = tuple) -> Source:
    """Opens a document for reading its pages.

    Args:
        data: a stream or descriptor of a regular file that the caller has opened read-only and keeps open until the
            source is closed. It is read from its beginning whatever its position; nothing is opened by name.
        bounds: what is refused.
        passwords: what to try on a PDF that needs one, in this order; called only then. What it raises comes through.

    Raises:
        OcrFailure: `empty_file`, `too_large`, `unsupported_type`, `encrypted` or `unreadable_file`.
        OSError: the storage failed, not the file.
    """
    buffered = _reader(data)
    bounds.check_bytes(buffered.raw.size)
    kind = media_type(buffered.read(HEAD_BYTES))
    if kind is None:
        raise OcrFailure("unsupported_type", f"by its content no {READ}")
    if kind in ("image/heic", "image/heif"):
        heif.require()
    with memory.room():
        if kind == "application/pdf":
            return PdfSource(buffered, bounds=bounds, passwords=passwords)
        if kind == "image/tiff":
            return _opened_tiff(data, bounds)
        return ImageSource(buffered, kind, bounds=bounds)


def _opened_tiff(data: BinaryIO | int, bounds: Bounds) -> Source:
    """By Pillow if that knows all of its pages, which is quicker; else by libtiff."""
    try:
        source = ImageSource(_reader(data), "image/tiff", bounds=bounds)
        if not source.is_read_wrong:
            return source
        source.close()
    except OcrFailure as failure:
        if failure.code != "unreadable_file":
            raise
    return OddTiffSource(_reader(data), bounds=bounds)


def _reader(data: BinaryIO | int) -> SourceReader:
    return SourceReader(SourceStream(data), buffer_size=1 << 16)
