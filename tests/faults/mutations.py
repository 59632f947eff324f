"""Broken documents, made from drawn ones by a seeded generator: the same seed gives the same bytes."""

from __future__ import annotations

import io
import random
import re
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image

from batchproc.ops import drawing
from tests.ocr import drawn

_DPI = 60
_TEXT_PAGES = (
    drawn.PdfPage(drawn.shown("The first page") + drawn.placed(72, 300, 90, 90), image=Image.new("L", (30, 30), 99)),
    drawn.PdfPage(drawn.shown("The second page", hidden=True) + "q /Fm1 Do Q", form="0 0 50 50 re f"),
    drawn.PdfPage("1 0 0 rg 0 0 99999 99999 re f", size=(300, 300), extra="/Rotate 90"),
)
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_PNG_HEAD = 8
_TIFF_SIZES = {256, 257, 258, 259, 262, 273, 277, 278, 279, 282, 317, 322, 323, 324, 325, 338, 339}
"""Tags of a TIFF that say how large things are and where they lie."""

Mutation = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Mutant:
    """A broken file. ``name`` says of what and how it was made; a seed in it makes it again."""

    name: str
    data: bytes


@cache
def seeds() -> dict[str, bytes]:
    """Small sound documents of every type, by name."""
    grey = drawing.letter(1, dpi=_DPI, paragraphs=1).image
    colour, bilevel = grey.convert("RGB"), grey.convert("1")
    palette = colour.quantize(8)
    return {
        "scan.pdf": _written(lambda path: drawing.pdf([grey, bilevel.convert("L")], path, _DPI)),
        "text.pdf": drawn.pdf(*_TEXT_PAGES, title="Drawn"),
        "grey.png": _saved(grey, "PNG", dpi=(_DPI, _DPI)),
        "palette.png": _saved(palette, "PNG", transparency=0),
        "deep.png": _saved(grey.convert("I;16"), "PNG"),
        "grey.jpg": _saved(grey, "JPEG", quality=40, dpi=(_DPI, _DPI)),
        "cmyk.jpg": _saved(colour.convert("CMYK"), "JPEG", quality=30),
        "progressive.jpg": _saved(colour, "JPEG", quality=30, progressive=True, exif=_turned()),
        "fax.tif": _saved(bilevel, "TIFF", compression="group4", save_all=True, append_images=[bilevel]),
        "lzw.tif": _saved(grey, "TIFF", compression="tiff_lzw"),
        "raw.tif": _saved(colour.resize((90, 120)), "TIFF", save_all=True, append_images=[colour.resize((40, 60))]),
        "jpeg.tif": _saved(colour, "TIFF", compression="jpeg"),
        "deflate.tif": _saved(palette, "TIFF", compression="tiff_adobe_deflate"),
        "pages.gif": _saved(palette, "GIF", save_all=True, append_images=[palette.rotate(180)]),
        "plain.bmp": _saved(bilevel, "BMP"),
        "plain.webp": _saved(colour, "WEBP"),
        "plain.jp2": _saved(grey, "JPEG2000"),
    }


def mutant(seed: int) -> Mutant:
    """The broken file of this number: one to three mutations of one of the drawn documents."""
    rng = random.Random(seed)
    names = sorted(seeds())
    name = names[seed % len(names)]
    data = seeds()[name]
    applied = rng.choices(_mutations_of(name), k=rng.choice((1, 1, 2, 3)))
    for mutation in applied:
        data = mutation(rng, data)
    if rng.random() < 0.7:  # most are to get past the look at the first bytes
        data = seeds()[name][:_PNG_HEAD] + data[_PNG_HEAD:]
    if name.endswith(".png") and rng.random() < 0.7:
        data = with_right_checksums(data)
    return Mutant(f"{seed}-{'-'.join(mutation.__name__ for mutation in applied)}-{name}", data)


def flipped_bits(rng: random.Random, data: bytes) -> bytes:
    """Up to sixty-four bits are another way round."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 16, 64))):
        position = rng.randrange(len(changed)) if changed else 0
        changed[position : position + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in changed[position:][:1])
    return bytes(changed)


def cut_off(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def without_a_part(rng: random.Random, data: bytes) -> bytes:
    """A piece in the middle is missing."""
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[start + (end - start) // 4 :]


def doubled_part(rng: random.Random, data: bytes) -> bytes:
    """A piece is there twice."""
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] + data[end:]


def swapped_parts(rng: random.Random, data: bytes) -> bytes:
    """Two pieces have each other's place."""
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def blown_up_numbers(rng: random.Random, data: bytes) -> bytes:
    """A few binary numbers, of lengths and offsets perhaps, are the largest or oddest there are."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 8))):
        order, width = rng.choice("<>"), rng.choice("BHI")
        value = rng.choice(_INTERESTING) & ((1 << 8 * struct.calcsize(width)) - 1)
        packed = struct.pack(order + width, value)
        # Most of what says how long something is stands near the beginning.
        end = len(changed) if rng.random() < 0.5 else min(len(changed), 200)
        position = rng.randrange(end + 1)
        changed[position : position + len(packed)] = packed
    return bytes(changed)


def absurd_png_size(rng: random.Random, data: bytes) -> bytes:
    """The header promises a picture of other width, height, depth or colour."""
    header = struct.pack(
        ">IIBBBBB",
        rng.choice((*_INTERESTING, 300, 40_000)),
        rng.choice((*_INTERESTING, 300, 40_000)),
        rng.choice((1, 2, 4, 8, 16, 7)),
        rng.choice((0, 2, 3, 4, 6, 5)),
        0,
        0,
        rng.choice((0, 1, 2)),
    )
    return with_right_checksums(data[:16] + header + data[16 + len(header) :])


def shuffled_png_chunks(rng: random.Random, data: bytes) -> bytes:
    """Chunks in another order, some twice, some missing, one of a length that is not its own."""
    chunks = _png_chunks(data)
    chosen = rng.choices(chunks, k=len(chunks) + 1)
    if rng.random() < 0.5:
        chosen[:0] = chunks[:1]
    text = b"key\0\0" + zlib.compress(bytes(rng.choice((10, 10_000_000))))
    chosen.insert(rng.randrange(len(chosen) + 1), (rng.choice((b"zTXt", b"iCCP", b"tEXt", b"eXIf", b"acTL")), text))
    return data[:_PNG_HEAD] + b"".join(_png_chunk(*chunk) for chunk in chosen)


def odd_tiff_tags(rng: random.Random, data: bytes) -> bytes:
    """Sizes, offsets, types and counts in the first directory that no sound file has."""
    changed = bytearray(data)
    order = "<" if data[:2] == b"II" else ">"
    for position in _tiff_entries(data):
        tag, kind, count, value = struct.unpack_from(order + "HHII", changed, position)
        if tag in _TIFF_SIZES and rng.random() < 0.3:
            value = rng.choice((*_INTERESTING, 2, 300, 40_000, len(data)))
            count = rng.choice((count, count, 1, *_INTERESTING))
            kind = rng.choice((kind, kind, *range(14)))
            struct.pack_into(order + "HHII", changed, position, tag, kind, count, value)
    return bytes(changed)


def looping_tiff(rng: random.Random, data: bytes) -> bytes:
    """The last directory leads back to one before it, or to anywhere."""
    changed = bytearray(data)
    order = "<" if data[:2] == b"II" else ">"
    entries = _tiff_entries(data)
    if entries:
        (first,) = struct.unpack_from(order + "I", data, 4)
        following = rng.choice((first, first, rng.randrange(len(data)), 4, 0xFFFFFFF0))
        struct.pack_into(order + "I", changed, min(entries[-1] + 12, len(changed) - 4), following)
    return bytes(changed)


def absurd_jpeg_size(rng: random.Random, data: bytes) -> bytes:
    """The frame header promises another size, depth or number of components."""
    changed = bytearray(data)
    for marker in (b"\xff\xc0", b"\xff\xc2"):
        position = data.find(marker)
        if 0 <= position < len(data) - 10:
            height, width = rng.choice((0, 1, 300, 65_535)), rng.choice((0, 1, 300, 65_535))
            struct.pack_into(">BHHB", changed, position + 4, rng.choice((8, 12)), height, width, rng.choice((1, 3, 4)))
    return bytes(changed)


def shuffled_jpeg_segments(rng: random.Random, data: bytes) -> bytes:
    """Segments in another order, twice or of a length that is not their own."""
    parts = re.split(rb"(?=\xff[\xc0-\xfe])", data)
    chosen = parts[:1] + rng.choices(parts, k=len(parts))
    return b"".join(chosen)[: 2 * len(data)]


def absurd_gif_size(rng: random.Random, data: bytes) -> bytes:
    """The screen, or a picture on it, is as large as can be written."""
    changed = bytearray(data)
    position = rng.choice((6, max(6, data.find(b"\x2c", 13) + 1)))
    sizes = [rng.choice((0, 1, 40_000, 65_535)) for _ in range(4)]
    struct.pack_into("<HHHH", changed, min(position, len(changed) - 8), *sizes)
    return bytes(changed)


def odd_pdf_numbers(rng: random.Random, data: bytes) -> bytes:
    """Some of the numbers in the text of a PDF are enormous, negative, or no numbers."""
    odd = (
        b"0",
        b"-1",
        b"1e9",
        b"99999999999999999999",
        b"2147483648",
        b"4294967295",
        b"-2147483649",
        b"0.00001",
        b"/X",
    )
    return _replaced(rng, data, rb"(?<=[\s\[])\d{1,6}(?=[\s/\]>])", lambda _: rng.choice(odd))


def odd_pdf_references(rng: random.Random, data: bytes) -> bytes:
    """References lead elsewhere: to nothing, to another object, to the one that holds them."""
    found = re.findall(rb"\d+ 0 R", data) or [b"1 0 R"]
    return _replaced(rng, data, rb"\d+ 0 R", lambda _: rng.choice((*found, b"0 0 R", b"999999 0 R")))


def odd_pdf_names(rng: random.Random, data: bytes) -> bytes:
    """Keys and names stand for each other."""
    found = re.findall(rb"/[A-Za-z]+", data) or [b"/A"]
    return _replaced(rng, data, rb"/[A-Za-z]+", lambda _: rng.choice(found))


def with_right_checksums(data: bytes) -> bytes:
    """A PNG whose chunks are believed: what was changed in them goes past their checksums."""
    return data[:_PNG_HEAD] + b"".join(_png_chunk(*chunk) for chunk in _png_chunks(data))


_ANY: tuple[Mutation, ...] = (
    flipped_bits,
    cut_off,
    without_a_part,
    doubled_part,
    swapped_parts,
    blown_up_numbers,
)
_SPECIAL: dict[str, tuple[Mutation, ...]] = {
    "pdf": (odd_pdf_numbers, odd_pdf_references, odd_pdf_names),
    "png": (absurd_png_size, shuffled_png_chunks),
    "tif": (odd_tiff_tags, looping_tiff),
    "jpg": (absurd_jpeg_size, shuffled_jpeg_segments),
    "gif": (absurd_gif_size,),
}


def _mutations_of(name: str) -> tuple[Mutation, ...]:
    special = _SPECIAL.get(name.rpartition(".")[2], ())
    return (*_ANY, *special, *special)


def _replaced(rng: random.Random, data: bytes, pattern: bytes, new: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """A few of the places where ``pattern`` is found are changed, at least one."""
    places = list(re.finditer(pattern, data))
    for place in sorted(rng.sample(places, min(len(places), rng.choice((1, 2, 5)))), key=re.Match.start, reverse=True):
        data = data[: place.start()] + new(place) + data[place.end() :]
    return data


def _png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """(type, content) of the chunks, as far as their lengths make sense."""
    chunks = []
    position = _PNG_HEAD
    while position + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        chunks.append((data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += length + 12
    return chunks


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _tiff_entries(data: bytes) -> list[int]:
    """Where the entries of the first directory stand."""
    order = "<" if data[:2] == b"II" else ">"
    if len(data) < 8:
        return []
    (start,) = struct.unpack_from(order + "I", data, 4)
    if start + 2 > len(data):
        return []
    (count,) = struct.unpack_from(order + "H", data, start)
    return [start + 2 + 12 * index for index in range(count) if start + 14 + 12 * index <= len(data)]


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _written(write: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "drawn")
        write(path)
        return path.read_bytes()


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: lies on its side
    return exif
