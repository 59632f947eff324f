"""The TIFFs that Pillow cannot read, or would read wrong, through the library that it is linked with.

These are deep grey in the byte order or the width that Pillow has no mode for, planes of 16 bits, and all big-endian
BigTIFFs. Whatever else they may hold, libtiff itself turns to colours of 8 bits.
"""

from __future__ import annotations

import array
import ctypes
import importlib.util
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from PIL import Image, ImageChops, ImageOps

from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pixels import to_grey
from batchproc.ocr.stated_resolution import Stated
from batchproc.ocr.stream import SourceStream

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES = 256, 257, 258, 262, 274, 277
_ROWS_PER_STRIP, _X_RESOLUTION, _Y_RESOLUTION, _UNIT, _TILE_WIDTH, _TILE_HEIGHT = 278, 282, 283, 296, 322, 323
_SAMPLE_FORMAT: Final = 339
_WHITE_IS_ZERO: Final = 0
_CENTIMETRES: Final = 3
_PER_INCH: Final = 2.54
_EXTRA_SAMPLES: Final = 338
_UNSPECIFIED: Final = 0
_UNSIGNED, _SIGNED, _FLOATING = 1, 2, 3
_DEEP: Final = {
    (12, _UNSIGNED): ("I;16", "I;12"),
    (16, _UNSIGNED): ("I;16", "I;16N"),
    (16, _SIGNED): ("I", "I;16NS"),
    (32, _UNSIGNED): ("I", "I;32N"),
    (32, _FLOATING): ("F", "F;32NF"),
    (64, _FLOATING): ("F", "F;32NF"),
}
"""Grey by bits and format of its samples: Pillow's mode, and its name for how libtiff hands them over."""

_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS: Final = (5, 6, 7, 8)


@cache
def library() -> ctypes.CDLL:
    """Pillow's extension module leads to the library that it is linked with."""
    extension = importlib.util.find_spec("PIL._imaging")
    return ctypes.CDLL(extension.origin if extension is not None else None)


@dataclass(frozen=True)
class Directory:
    """A page of a TIFF, by its header.

    Attributes:
        index: from 0.
        size: width and height in pixels, as they are stored.
        block: width and height of what is decoded at once, a strip or a tile.
        stated: the resolution, of the page as it is shown.
    """

    index: int
    size: tuple[int, int]
    block: tuple[int, int]
    stated: Stated


def directory(stream: io.BufferedReader[SourceStream], index: int) -> Directory:
    """
    Raises:
        OcrFailure: `unreadable_file`.
    """
    with _opened(stream, index) as tiff:
        size = tiff.whole(_WIDTH), tiff.whole(_HEIGHT)
        block = tiff.whole(_TILE_WIDTH), tiff.whole(_TILE_HEIGHT)
        if not all(block):
            block = size[0], min(size[1], tiff.whole(_ROWS_PER_STRIP) or size[1])
        return Directory(index, size, block, tiff.stated())


def grey(stream: io.BufferedReader[SourceStream], index: int) -> Image.Image:
    """A page, decoded, in mode "L", as it is shown.

    Raises:
        OcrFailure: `unreadable_file`.
    """
    with _opened(stream, index) as tiff:
        kind = (tiff.short(_BITS), tiff.short(_SAMPLE_FORMAT, _UNSIGNED))
        is_deep = tiff.short(_SAMPLES, 1) == 1 and kind in _DEEP and not tiff.whole(_TILE_WIDTH)
        if is_deep:
            found = to_grey(tiff.deep(kind), inverted=tiff.short(_PHOTOMETRIC, 1) == _WHITE_IS_ZERO)
        else:
            found = tiff.colours()
        turn = _TURNS.get(tiff.short(_ORIENTATION, 1))
    return found if turn is None else found.transpose(turn)


class _Tiff:
    """libtiff's handle, at one directory."""

    def __init__(self, handle: int) -> None:
        self._library = library()
        self._handle = ctypes.c_void_p(handle)

    def short(self, tag: int, default: int = 0) -> int:
        return int(self._field(tag, ctypes.c_uint16(default)))

    def whole(self, tag: int) -> int:
        return int(self._field(tag, ctypes.c_uint32()))

    def stated(self) -> Stated:
        across, down = (float(self._field(tag, ctypes.c_float())) for tag in (_X_RESOLUTION, _Y_RESOLUTION))
        factor = _PER_INCH if self.short(_UNIT) == _CENTIMETRES else 1.0
        found = Stated((across * factor, down * factor) if across and down else None)
        return found.turned() if self.short(_ORIENTATION, 1) in _SIDEWAYS else found

    def deep(self, kind: tuple[int, int]) -> Image.Image:
        """Grey of more than 8 bits; of whole numbers for which Pillow has too little room, their upper 8."""
        mode, raw_mode = _DEEP[kind]
        width, height = self.whole(_WIDTH), self.whole(_HEIGHT)
        rows = min(height, self.whole(_ROWS_PER_STRIP) or height)
        buffer = ctypes.create_string_buffer((width * kind[0] + 7) // 8 * rows)
        page = Image.new(mode, (width, height))
        for strip, top in enumerate(range(0, height, rows)):
            here = min(rows, height - top)
            wanted = (width * kind[0] + 7) // 8 * here
            read = self._call("TIFFReadEncodedStrip", ctypes.c_uint32(strip), buffer, ctypes.c_ssize_t(wanted))
            if read != wanted:
                raise OcrFailure("unreadable_file", "libtiff cannot decode the image")
            data = _narrowed(buffer.raw[:wanted], kind)
            page.paste(Image.frombytes(mode, (width, here), data, "raw", raw_mode), (0, top))
        if kind == (32, _UNSIGNED) and _extrema(page)[0] < 0:
            return Image.frombytes("L", page.size, page.tobytes("raw", "I")[3 if _LITTLE else 0 :: 4])
        return page

    def colours(self) -> Image.Image:
        """Of any other kind, in grey on white."""
        if self.short(_SAMPLE_FORMAT, _UNSIGNED) != _UNSIGNED:  # libtiff would take them for such
            raise OcrFailure("unreadable_file", "a TIFF of numbers with a sign or a point in a rare layout")
        width, height = self.whole(_WIDTH), self.whole(_HEIGHT)
        buffer = ctypes.create_string_buffer(4 * width * height)
        as_stored = ctypes.c_int(self.short(_ORIENTATION, 1))
        size = ctypes.c_uint32(width), ctypes.c_uint32(height)
        if self._call("TIFFReadRGBAImageOriented", *size, buffer, as_stored, ctypes.c_int(1)) != 1:
            raise OcrFailure("unreadable_file", "libtiff cannot decode the image")
        page = Image.frombytes("RGBA", (width, height), buffer.raw, "raw", "RGBA" if _LITTLE else "ABGR")
        found = page.convert("RGB").convert("L")
        if self._extra_sample() == _UNSPECIFIED:  # libtiff takes it for transparency
            return found
        return ImageChops.add(found, ImageOps.invert(page.getchannel("A")))  # libtiff has multiplied by it

    def _extra_sample(self) -> int | None:
        """What the first of the samples beyond the colours means."""
        count, meanings = ctypes.c_uint16(), ctypes.POINTER(ctypes.c_uint16)()
        self._call("TIFFGetField", ctypes.c_uint32(_EXTRA_SAMPLES), ctypes.byref(count), ctypes.byref(meanings))
        return int(meanings[0]) if count.value else None

    def _field(self, tag: int, value: Any) -> Any:
        """The value of a tag; what `value` holds where the tag is missing."""
        self._call("TIFFGetField", ctypes.c_uint32(tag), ctypes.byref(value))
        return value.value

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._library, name)
        function.restype = ctypes.c_ssize_t if name == "TIFFReadEncodedStrip" else ctypes.c_int
        return int(function(self._handle, *arguments))


_LITTLE: Final = sys.byteorder == "little"


def _narrowed(data: bytes, kind: tuple[int, int]) -> bytes:
    """Samples for which Pillow has no mode, as such for which it has."""
    if kind == (64, _FLOATING):
        return array.array("f", array.array("d", data)).tobytes()
    return data


def _extrema(image: Image.Image) -> tuple[float, float]:
    low, high = image.getextrema()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return low, high


@contextmanager
def _opened(stream: io.BufferedReader[SourceStream], index: int) -> Iterator[_Tiff]:
    functions = library()
    if not hasattr(functions, "TIFFFdOpen"):  # a Pillow that was built with the library in it
        raise OcrFailure("unreadable_file", "a TIFF that Pillow cannot read")
    descriptor = _descriptor(stream)
    os.lseek(descriptor, 0, os.SEEK_SET)  # it reads the header from wherever it is
    functions.TIFFFdOpen.restype = ctypes.c_void_p
    handle = functions.TIFFFdOpen(ctypes.c_int(descriptor), b"TIFF", b"rm")  # without mapping it to memory
    if not handle:
        os.close(descriptor)
        stream.raw.raise_storage_error()
        raise OcrFailure("unreadable_file", "neither Pillow nor libtiff can read the TIFF")
    try:
        if functions.TIFFSetDirectory(ctypes.c_void_p(handle), ctypes.c_uint32(index)) != 1:
            raise OcrFailure("unreadable_file", "libtiff cannot read the directory of the image")
        yield _Tiff(handle)
    finally:
        functions.TIFFClose(ctypes.c_void_p(handle))  # the descriptor, too


def _descriptor(stream: io.BufferedReader[SourceStream]) -> int:
    """One of its own for libtiff, which closes it."""
    try:
        return os.dup(stream.raw.fileno())
    except io.UnsupportedOperation:
        copy = os.memfd_create("tiff")
        stream.seek(0)
        with os.fdopen(copy, "wb", closefd=False) as file:
            while data := stream.read(1 << 20):
                file.write(data)
        return copy
