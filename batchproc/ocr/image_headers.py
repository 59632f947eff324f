"""Sizes that the headers of image data state, read without a decoder.

For what a decoder would allocate before anybody could ask it: the canvas of a WebP, the pictures of a GIF, and the
images within a PDF, whose dictionary may state other sizes than their data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

Size = tuple[int, int]
"""Width and height in pixels."""

WEBP_HEAD: Final = 30

_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C
_SOF: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS: Final = frozenset({0x01, *range(0xD0, 0xDA)})
_JBIG2_REGIONS: Final = frozenset({4, 6, 7, 20, 22, 23, 36, 38, 39, 40, 42, 43})
_JBIG2_PAGE: Final = 48
_UNKNOWN_LENGTH: Final = 0xFFFFFFFF


def webp_canvas(head: bytes) -> Size | None:
    """The canvas that a WebP decoder allocates twice as it opens a file that begins with `head`; None: not stated.

    By the WebP container specification and RFC 6386, 9.1.
    """
    if len(head) < WEBP_HEAD:
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def gif_frames(stream: BinaryIO, most: int) -> int:
    """How many pictures a GIF holds, from its block structure (GIF89a, 12 to 27), but no more than `most` + 1.

    What is cut off within a picture counts as one; its page fails.
    """
    stream.seek(0)
    head = stream.read(13)
    if len(head) < 13:
        return 0
    stream.seek(_gif_colours(head[10]), 1)
    found = 0
    while found <= most:
        kind = stream.read(1)
        if kind and kind[0] == _GIF_EXTENSION:
            stream.seek(1, 1)
        elif kind and kind[0] == _GIF_IMAGE:
            found += 1
            descriptor = stream.read(9)
            if len(descriptor) < 9:
                break
            stream.seek(_gif_colours(descriptor[8]) + 1, 1)
        else:
            break
        while length := int.from_bytes(stream.read(1)):
            stream.seek(length, 1)
    return found


def jpeg_size(data: bytes) -> Size | None:
    """The size in the first frame header of a JPEG (ITU-T T.81, B.2.2); None when none is found."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            at += 1
            continue
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _BARE_MARKERS or marker == 0:
            at += 2
        elif marker in _SOF:
            if at + 9 > len(data):
                return None
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def jpeg2000_size(data: bytes) -> Size | None:
    """The size in the first SIZ segment of a JPEG 2000, bare or within its boxes (ISO 15444-1, A.5.1); None without.

    A decoder allocates each component apart: the height counts once more for every four beyond the first.
    """
    at = data.find(b"\xff\x4f\xff\x51")
    if at < 0 or len(data) < at + 42:
        return None
    right, bottom, left, top = struct.unpack_from(">IIII", data, at + 8)
    (components,) = struct.unpack_from(">H", data, at + 40)
    return max(0, right - left), max(0, bottom - top) * max(1, components // 4)


def jbig2_sizes(data: bytes) -> Iterator[Size]:
    """The sizes of the pages and regions of JBIG2 segments as they are embedded in a PDF (ISO 14492, 7.2 and 7.4.1)."""
    at = 0
    while at + 11 <= len(data):
        number, flags = struct.unpack_from(">IB", data, at)
        at += 5
        count = data[at] >> 5
        if count == 7:
            count = int.from_bytes(data[at : at + 4], "big") & 0x1FFFFFFF
            at += 4 + (count + 8) // 8
        else:
            at += 1
        at += count * (1 if number <= 256 else 2 if number <= 65536 else 4)
        at += 4 if flags & 0x40 else 1
        if at + 12 > len(data):
            return
        length, width, height = struct.unpack_from(">III", data, at)
        at += 4
        kind = flags & 0x3F
        if kind in _JBIG2_REGIONS or (kind == _JBIG2_PAGE and height != _UNKNOWN_LENGTH):
            yield width, height
        if length == _UNKNOWN_LENGTH:
            return
        at += length


def _gif_colours(flags: int) -> int:
    """Bytes of the table of colours that follows a descriptor with these flags."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
