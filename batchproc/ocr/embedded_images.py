"""Images within PDF pages: their data may be of another size than their dictionary says, or no image at all."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.image_headers import Size, jbig2_sizes, jpeg2000_size, jpeg_size

_MOST_FILTERS: Final = 8
_NAME_BYTES: Final = 32
_UNPACKED: Final = 1 << 20
"""Bytes: of data that are packed once more, so much is looked at."""

_OWN_SIZE: Final = frozenset({"DCTDecode", "DCT", "JPXDecode", "JBIG2Decode"})
_FLATE: Final = frozenset({"FlateDecode", "Fl"})


def check_data(item: Any, bounds: Bounds) -> None:
    """Judges an image object of pdfium by the header of its data, which are not decoded.

    Raises:
        OcrFailure: `too_large`.
    """
    filters = list(_filters(item))
    if not filters or filters[-1] not in _OWN_SIZE:
        return
    data = _data(item)
    for name in filters[:-1]:
        if name not in _FLATE:
            return
        data = _unpacked(data)
    for width, height in _sizes(filters[-1], data):
        bounds.check_pixels(width, height)


def require_decodable(items: Iterable[Any]) -> None:
    """For a page on which nothing is seen: pdfium leaves out what it cannot decode, and says nothing.

    Raises:
        OcrFailure: `unreadable_file`, one of these image objects cannot be decoded.
    """
    for item in items:
        bitmap = raw.FPDFImageObj_GetBitmap(item)
        if not bitmap:
            raise OcrFailure("unreadable_file", "pdfium cannot decode the image of the page")
        raw.FPDFBitmap_Destroy(bitmap)


def _sizes(name: str, data: bytes) -> Iterator[Size]:
    if name == "JBIG2Decode":
        yield from jbig2_sizes(data)
        return
    found = jpeg2000_size(data) if name == "JPXDecode" else jpeg_size(data)
    if found is not None:
        yield found


def _filters(item: Any) -> Iterator[str]:
    for index in range(min(_MOST_FILTERS, raw.FPDFImageObj_GetImageFilterCount(item))):
        name = ctypes.create_string_buffer(_NAME_BYTES)
        raw.FPDFImageObj_GetImageFilter(item, index, name, _NAME_BYTES)
        yield name.value.decode("ascii", "replace")


def _data(item: Any) -> bytes:
    length = raw.FPDFImageObj_GetImageDataRaw(item, None, 0)
    buffer = ctypes.create_string_buffer(length)
    raw.FPDFImageObj_GetImageDataRaw(item, buffer, length)
    return buffer.raw


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _UNPACKED)
    except zlib.error:
        return b""
