"""Images within PDF pages: their data may be of another size than their dictionary says, or no image at all."""

from __future__ import annotations

import ctypes
import io
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types
from PIL import Image

from batchproc.ocr import memory, pdf_objects
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.image_headers import Size, jbig2_sizes, jpeg2000_size, jpeg_size
from batchproc.ocr.layout import Box
from batchproc.ocr.pdf_objects import PlacedImage
from batchproc.ocr.shown import Shown

LARGE_SHARE: Final = 0.25
"""Part of a page: images that cover as much are missed when they are not there."""

_MOST_STRIPS: Final = 64
"""Images that are looked at, to see whether they are missed together."""

END: Final = b"\xff\xd9"
END_WITHIN: Final = 1024
"""Bytes from the end of a JPEG within which its end is marked."""

PADDING: Final = b" " * 16
"""With these, which make up for a few of its smallest blocks, a JPEG that lacks but the mark of its end is whole."""

_MOST_FILTERS: Final = 8
_NAME_BYTES: Final = 32
_UNPACKED: Final = 1 << 20
"""Bytes: of data that are packed once more, so much is looked at."""

_MOST_UNPACKED: Final = 1 << 27
"""Bytes: no packed stream may be larger, see `batchproc.ocr.bounds`."""

_JPEG: Final = frozenset({"DCTDecode", "DCT"})
_OWN_SIZE: Final = _JPEG | {"JPXDecode", "JBIG2Decode"}
_FLATE: Final = frozenset({"FlateDecode", "Fl"})


def check_size(image: PlacedImage, bounds: Bounds) -> None:
    """Judges an image by its dictionary and by the header of its data, which are not decoded.

    Raises:
        OcrFailure: `too_large`.
    """
    bounds.check_pixels(image.width, image.height)
    name, data = _coded(image.item, _UNPACKED)
    for width, height in _sizes(name, data):
        bounds.check_pixels(width, height)


def lost_image(page: Any, bounds: Bounds, is_read: Callable[[Box], bool] = lambda _: False) -> OcrFailure | None:
    """What is wrong with an image of pypdfium2's page, if pdfium does not show a large part of the page for it.

    The images are decoded for it, the largest first: one, or several together, such as the strips of a scan.

    Args:
        is_read: whether what an image says at this place of the page, in points as it is shown, is known anyway.

    Returns:
        `too_large`; `unreadable_file` if it cannot be decoded, or is a JPEG that is cut off; None if little is lost.
    """
    shown = Shown.of(page)
    whole = Box(0, 0, shown.width, shown.height)
    least = LARGE_SHARE * whole.area
    placed = [(shown.box(*image.box), image) for image in pdf_objects.images(page.raw)]
    shares = [(box.shared(whole), box, image) for box, image in placed]
    large = sorted((one for one in shares if one[0] * _MOST_STRIPS >= least), key=lambda one: -one[0])[:_MOST_STRIPS]
    left, lost = sum(area for area, _, _ in large), 0.0
    for area, box, image in large:
        if lost + left < least:
            return None
        left -= area
        failure = None if is_read(box) else _failure_of(image, bounds)
        lost += area if failure is not None else 0.0
        if lost >= least:
            return failure
    return None


def _failure_of(image: PlacedImage, bounds: Bounds) -> OcrFailure | None:
    try:
        check_size(image, bounds)
        with memory.room(memory.PER_PIXEL * image.width * image.height):
            require_decodable([image.item])
            _require_whole(image.item)
    except OcrFailure as failure:
        return failure
    return None


def require_decodable(items: Iterable[Any]) -> None:
    """pdfium leaves out of a page what it cannot decode, and says nothing.

    Raises:
        OcrFailure: `unreadable_file`, one of these image objects cannot be decoded.
    """
    for item in items:
        bitmap = raw.FPDFImageObj_GetBitmap(item)
        if not bitmap:
            raise OcrFailure("unreadable_file", "pdfium cannot decode the image of the page")
        raw.FPDFBitmap_Destroy(bitmap)


def _require_whole(item: Any) -> None:
    name, data = _coded(item, _MOST_UNPACKED)
    if name not in _JPEG or END in data[-END_WITHIN:]:
        return
    stream = io.BytesIO(data + PADDING)
    try:
        with warnings.catch_warnings(), Image.open(stream, formats=["JPEG"]) as image:
            warnings.simplefilter("ignore")
            image.draft("L", (image.width // 8, image.height // 8))
            image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
        raise OcrFailure("unreadable_file", "an image of the page is cut off") from error


def _sizes(name: str, data: bytes) -> Iterator[Size]:
    if name == "JBIG2Decode":
        yield from jbig2_sizes(data)
    elif name in _OWN_SIZE:
        found = jpeg2000_size(data) if name == "JPXDecode" else jpeg_size(data)
        if found is not None:
            yield found


def _coded(item: Any, most: int) -> tuple[str, bytes]:
    """The filter of image data that have a header of their own, and these, packed ones up to `most` bytes."""
    filters = list(_filters(item))
    if not filters or filters[-1] not in _OWN_SIZE or not _FLATE.issuperset(filters[:-1]):
        return "", b""
    data = _data(item)
    for _ in filters[:-1]:
        data = _unpacked(data, most)
    return filters[-1], data


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


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error:
        return b""
