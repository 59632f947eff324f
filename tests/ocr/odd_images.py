"""Image files that Pillow does not write: TIFFs and PNGs of every depth and layout, made byte for byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from PIL import Image

SHORT, LONG, LONG8, RATIONAL = 3, 4, 16, 5
_CODES = {SHORT: "H", LONG: "I", LONG8: "Q", RATIONAL: "I"}

Tags = Mapping[int, tuple[int, Sequence[int]]]


def tags(
    size: tuple[int, int], bits: int, *, samples: int = 1, photometric: int = 1, **more: int | Sequence[int]
) -> Tags:
    """The usual tags of a TIFF at 300 dpi; `more` are single or several SHORTs, named `t` and their number."""
    usual: dict[int, tuple[int, Sequence[int]]] = {
        256: (LONG, [size[0]]),
        257: (LONG, [size[1]]),
        258: (SHORT, [bits] * samples),
        259: (SHORT, [1]),
        262: (SHORT, [photometric]),
        277: (SHORT, [samples]),
        278: (LONG, [size[1]]),
        282: (RATIONAL, [300, 1]),
        283: (RATIONAL, [300, 1]),
        296: (SHORT, [2]),
    }
    given = {int(name[1:]): value for name, value in more.items()}
    return usual | {tag: (SHORT, [value] if isinstance(value, int) else value) for tag, value in given.items()}


def tiff(tags: Tags, blocks: Iterable[bytes], *, order: str = "<", big: bool = False) -> bytes:
    """A TIFF of one page. `blocks` are its strips, or its tiles if it has a tile's width; `big`: a BigTIFF."""
    room, count_code, offset_code = (8, "Q", "Q") if big else (4, "I", "I")
    out = bytearray(16 if big else 8)
    offsets, lengths = [], []
    for block in blocks:
        offsets.append(len(out))
        lengths.append(len(block))
        out += block + bytes(len(block) % 2)
    kind = LONG8 if big else LONG
    tiled = 322 in tags
    placed = {324: (kind, offsets), 325: (kind, lengths)} if tiled else {273: (kind, offsets), 279: (kind, lengths)}
    entries = b""
    for tag, (kind, values) in sorted({**placed, **tags}.items()):
        data = struct.pack(order + _CODES[kind] * len(values), *values)
        count = len(values) // 2 if kind == RATIONAL else len(values)
        if len(data) > room:
            at, data = len(out), data
            out += data
            data = struct.pack(order + offset_code, at)
        entries += struct.pack(order + "HH" + count_code, tag, kind, count) + data.ljust(room, b"\0")
    directory = len(out)
    number = len(entries) // (20 if big else 12)
    out += struct.pack(order + ("Q" if big else "H"), number) + entries + bytes(room)
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(order + "HHHQ", 43, 8, 0, directory) if big else struct.pack(order + "HI", 42, directory)
    out[: 2 + len(head)] = mark + head
    return bytes(out)


def tiles(image: Image.Image, side: int) -> list[bytes]:
    """The tiles of a grey picture, those at the edges filled up."""
    width, height = image.size
    return [
        image.crop((x, y, x + side, y + side)).tobytes() for y in range(0, height, side) for x in range(0, width, side)
    ]


def packed(image: Image.Image, bits: int) -> bytes:
    """Grey of 4 or 12 bits, rows without gaps (of an even width)."""
    out = bytearray()
    pixels = image.tobytes()
    for left, right in zip(pixels[::2], pixels[1::2], strict=True):
        if bits == 4:
            out.append(left & 0xF0 | right >> 4)
        else:
            out += (left << 16 | right << 4 | (left & 0xF) << 12).to_bytes(3, "big")
    return bytes(out)


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(size: tuple[int, int], depth: int, colour: int, rows: bytes, *extra: bytes, interlaced: bool = False) -> bytes:
    """A PNG at 300 dpi of these rows, each with its filter byte; `extra` chunks come before the pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlaced))
    metres = chunk(b"pHYs", struct.pack(">IIB", 11811, 11811, 1))
    pixels = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + metres + b"".join(extra) + pixels


def palette_in_alpha() -> tuple[bytes, bytes]:
    """Chunks of a palette that is all black, and shows white paper through as much as the grey level says."""
    return chunk(b"PLTE", bytes(3 * 256)), chunk(b"tRNS", bytes(range(255, -1, -1)))


def rows(image: Image.Image, sample: Callable[[int], bytes]) -> bytes:
    """The rows of a PNG, each grey level written by `sample`."""
    written = [sample(level) for level in range(256)]
    width, pixels = image.width, image.tobytes()
    return b"".join(
        b"\0" + b"".join(written[level] for level in pixels[start : start + width])
        for start in range(0, len(pixels), width)
    )


def interlaced_rows(image: Image.Image) -> bytes:
    """Grey pixels in the seven passes of Adam7."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    (width, height), pixels = image.size, image.tobytes()
    return b"".join(
        b"\0" + pixels[y * width + left : (y + 1) * width : across]
        for left, top, across, down in passes
        for y in range(top, height, down)
    )
