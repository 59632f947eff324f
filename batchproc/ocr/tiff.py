"""What Pillow's reader of TIFFs needs help with: found with files of each kind, byte by byte."""

from __future__ import annotations

import ctypes
import logging
import struct
from functools import cache
from typing import BinaryIO, Final

from PIL import Image, TiffImagePlugin

from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.libtiff import library

_BITS, _PHOTOMETRIC, _PLANAR = 258, 262, 284
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_SAMPLE_FORMAT: Final = 339
_UNSIGNED: Final = 1
_WHITE_IS_ZERO: Final = 0
_PLANES_APART: Final = 2
_BIG_ENDIAN_BIG_TIFF: Final = b"MM\x00+"
_BIG: Final = 43
_FIELD_TYPES: Final = frozenset({*range(1, 14), 16, 17, 18})
"""TIFF 6.0, the first technical note of Adobe's, and BigTIFF."""

_MOST_BYTES: Final = 1 << 63  # of a file, by the system's own offsets
_MOST_FIELDS: Final = 4096
"""Of a directory: libtiff believes no more either."""


@cache
def prepare() -> None:
    """Once in a process, before the first TIFF is read.

    Keeps Pillow and libtiff from writing what is wrong to the process's standard error: Pillow raises what matters of
    it. It has no switch for libtiff's, but its extension module leads to the library that it is linked with. And lets
    it read big-endian 16-bit grey that counts from white, as it does little-endian.
    """
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    functions = library()
    for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
        if hasattr(functions, name):
            setter = getattr(functions, name)
            setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
            setter(None)
    negative = (TiffImagePlugin.MM, _WHITE_IS_ZERO, (1,), 1, (16,), ())
    TiffImagePlugin.OPEN_INFO.setdefault(negative, ("I;16B", "I;16B"))


def require_little_endian(head: bytes) -> None:
    """Refuses big-endian BigTIFFs, whose number Pillow looks for at another place; `batchproc.ocr.libtiff` reads them.

    Raises:
        OcrFailure: `unreadable_file`.
    """
    if head.startswith(_BIG_ENDIAN_BIG_TIFF):
        raise OcrFailure("unreadable_file", "a big-endian BigTIFF, which Pillow cannot read")


class Chain:
    """The directories of a TIFF, by its own account.

    Pillow takes one that is cut short, or of which a field is, for the last, so that nobody would miss the pages behind
    it; and one with a damaged number of fields for whatever that gives.
    """

    def __init__(self, stream: BinaryIO) -> None:
        stream.seek(0)
        head = stream.read(16).ljust(16, b"\0")
        self._stream = stream
        self._order = ">" if head.startswith(TiffImagePlugin.MM) else "<"
        self._is_big = _BIG in (head[2], head[3])
        self._next = self._number("Q", head[8:16]) if self._is_big else self._number("I", head[4:8])
        self._seen: set[int] = set()

    @property
    def has_next(self) -> bool:
        """Whether there is a directory that was not followed yet."""
        return bool(self._next) and self._next not in self._seen

    def follow(self, has_frame: bool) -> None:
        """Judges the next directory, of which Pillow says that it is there, or that there is none.

        Raises:
            OcrFailure: `unreadable_file`, it is damaged, or Pillow has missed it.
        """
        if self.has_next:
            self._seen.add(self._next)
            if not has_frame:
                raise OcrFailure("unreadable_file", "a TIFF with a directory before this one that is cut short")
            self._next = self._link()

    def _link(self) -> int:
        """Where the directory is that follows; 0 after the last, also where there is nothing after its fields."""
        if self._next >= _MOST_BYTES:
            raise OcrFailure("unreadable_file", "a TIFF with a directory beyond the end of any file")
        self._stream.seek(self._next)
        code, entry = ("Q", 20) if self._is_big else ("H", 12)
        count = self._number(code, self._stream.read(struct.calcsize(f"={code}")))
        if not 0 < count <= _MOST_FIELDS:
            raise OcrFailure("unreadable_file", f"a TIFF with a directory of {count} fields")
        fields = self._stream.read(count * entry)
        kinds = [self._number("H", fields[at + 2 : at + 4]) for at in range(0, len(fields), entry)]
        known = sum(kind in _FIELD_TYPES for kind in kinds)
        if len(fields) < count * entry or 2 * known < count:
            raise OcrFailure(
                "unreadable_file", f"a TIFF with a damaged directory: of its {count} fields, {known} make sense"
            )
        code = "Q" if self._is_big else "I"
        return self._number(code, self._stream.read(struct.calcsize(f"={code}")))

    def _number(self, code: str, data: bytes) -> int:
        """0 for fewer bytes than it has."""
        return int(struct.unpack(self._order + code, data)[0]) if len(data) == struct.calcsize(f"={code}") else 0


def is_read_wrong(image: Image.Image) -> bool:
    """Whether Pillow would read it wrong: planes of more than eight bits apart, of which it takes every other byte."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS, (1,))
    return tags.get(_PLANAR) == _PLANES_APART and isinstance(bits, tuple) and len(bits) > 1 and max(bits) > 8


def block(image: Image.Image) -> tuple[int, int]:
    """Width and height of a tile, 0 without: libtiff allocates a whole one, however small the image is."""
    tags = getattr(image, "tag_v2", {})
    width, height = tags.get(_TILE_WIDTH, 0), tags.get(_TILE_LENGTH, 0)
    return (width, height) if isinstance(width, int) and isinstance(height, int) else (0, 0)


def counts_from_white(image: Image.Image) -> bool:
    """Whether grey deeper than 8 bits counts from white, which Pillow turns in shallower ones only."""
    return image.mode[0] in "IF" and getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO


def without_sign(image: Image.Image) -> Image.Image:
    """Grey of 32 bits that has no sign by its top eight bits: Pillow takes the upper half for negative numbers."""
    tags = getattr(image, "tag_v2", {})
    if image.mode != "I" or tags.get(_SAMPLE_FORMAT, (_UNSIGNED,))[0] != _UNSIGNED or tags.get(_BITS) != (32,):
        return image
    low = image.getextrema()[0]
    if isinstance(low, tuple) or low >= 0:
        return image
    return Image.frombytes("L", image.size, image.tobytes("raw", "I")[3::4])
