"""TIFFs of every depth, layout and byte order, made byte for byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from PIL import Image, ImageChops

from tests.ocr import drawn, odd_images
from tests.ocr.reading import alike, fails_as, image_of, opened

GREY = drawn.page()


def samples(code: str, convert: Callable[[int], Sequence[float]], order: str) -> bytes:
    """The samples of all pixels, of each grey level those that `convert` gives."""
    written = [b"".join(struct.pack(order + code, value) for value in convert(level)) for level in range(256)]
    return b"".join(written[level] for level in GREY.tobytes())


Kind = tuple[dict[str, Any], Callable[[str], list[bytes]]]

TIFFS: dict[str, Kind] = {
    "grey": ({"bits": 8}, lambda order: [GREY.tobytes()]),
    "grey from white": ({"bits": 8, "photometric": 0}, lambda order: [ImageChops.invert(GREY).tobytes()]),
    "grey in strips": (
        {"bits": 8, "t278": 100},
        lambda order: [GREY.crop((0, top, 900, top + 100)).tobytes() for top in range(0, 400, 100)],
    ),
    "16 bits": ({"bits": 16}, lambda order: [samples("H", lambda v: [v * 257], order)]),
    "16 bits from white": (
        {"bits": 16, "photometric": 0},
        lambda order: [samples("H", lambda v: [65535 - v * 257], order)],
    ),
    "16 bits deflated": (
        {"bits": 16, "t259": 8},
        lambda order: [zlib.compress(samples("H", lambda v: [v * 257], order))],
    ),
    "12 in 16 bits": ({"bits": 16}, lambda order: [samples("H", lambda v: [v * 16 + 8], order)]),
    "16 bits with a sign": ({"bits": 16, "t339": 2}, lambda order: [samples("h", lambda v: [v * 257 - 32768], order)]),
    "colour of 16 bits": (
        {"bits": 16, "samples": 3, "photometric": 2},
        lambda order: [samples("H", lambda v: [v * 257] * 3, order)],
    ),
    "planes": ({"bits": 8, "samples": 3, "photometric": 2, "t284": 2}, lambda order: [GREY.tobytes()] * 3),
    "planes deflated": (
        {"bits": 8, "samples": 3, "photometric": 2, "t284": 2, "t259": 8},
        lambda order: [zlib.compress(GREY.tobytes())] * 3,
    ),
    "ink": (
        {"bits": 8, "samples": 4, "photometric": 5, "t332": 1},
        lambda order: [samples("B", lambda v: [0, 0, 0, 255 - v], order)],
    ),
    "ink of 16 bits": (
        {"bits": 16, "samples": 4, "photometric": 5},
        lambda order: [samples("H", lambda v: [0, 0, 0, 65535 - v * 257], order)],
    ),
    "ink in planes": (
        {"bits": 8, "samples": 4, "photometric": 5, "t284": 2},
        lambda order: [bytes(900 * 400)] * 3 + [ImageChops.invert(GREY).tobytes()],
    ),
    "floating point": ({"bits": 32, "t339": 3}, lambda order: [samples("f", lambda v: [v / 255], order)]),
    "floating point from white": (
        {"bits": 32, "photometric": 0, "t339": 3},
        lambda order: [samples("f", lambda v: [1 - v / 255], order)],
    ),
    "grey and alpha": (
        {"bits": 8, "samples": 2, "t338": 2},
        lambda order: [samples("B", lambda v: [0, 255 - v], order)],
    ),
    "alpha apart": (
        {"bits": 8, "samples": 4, "photometric": 2, "t338": 2},
        lambda order: [samples("B", lambda v: [0, 0, 0, 255 - v], order)],
    ),
    "alpha multiplied": (
        {"bits": 8, "samples": 4, "photometric": 2, "t338": 1},
        lambda order: [samples("B", lambda v: [0, 0, 0, 255 - v], order)],
    ),
    "alpha of 16 bits": (
        {"bits": 16, "samples": 4, "photometric": 2, "t338": 2},
        lambda order: [samples("H", lambda v: [0, 0, 0, 65535 - v * 257], order)],
    ),
    "a sample that means nothing": (
        {"bits": 8, "samples": 4, "photometric": 2, "t338": 0},
        lambda order: [samples("B", lambda v: [v, v, v, 0], order)],
    ),
    "4 bits": ({"bits": 4}, lambda order: [odd_images.packed(GREY, 4)]),
    "palette": (
        {"bits": 8, "photometric": 3, "t320": [v * 257 for v in range(256)] * 3},
        lambda order: [GREY.tobytes()],
    ),
    "palette of 16": (
        {"bits": 4, "photometric": 3, "t320": [v * 4369 for v in range(16)] * 3},
        lambda order: [odd_images.packed(GREY, 4)],
    ),
    "one bit": ({"bits": 1}, lambda order: [GREY.convert("1", dither=Image.Dither.NONE).tobytes()]),
    "tiles": ({"bits": 8, "t322": 128, "t323": 128}, lambda order: odd_images.tiles(GREY, 128)),
    "tiles deflated": (
        {"bits": 8, "t259": 8, "t322": 128, "t323": 128},
        lambda order: [zlib.compress(tile) for tile in odd_images.tiles(GREY, 128)],
    ),
}


@pytest.mark.parametrize("kind", TIFFS)
@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), ("<", True), (">", True)])
def test_tiffs_of_every_kind(kind: str, order: str, big: bool) -> None:
    fields, blocks = TIFFS[kind]
    data = odd_images.tiff(odd_images.tags(GREY.size, **fields), blocks(order), order=order, big=big)
    if kind == "ink of 16 bits" and big and order == ">":  # which libtiff cannot turn to colours
        with fails_as("unreadable_file"):
            image_of(data)
    else:
        found = image_of(data)
        assert alike(found.pixels, GREY)
        assert (found.dpi, found.dpi_estimated) == (300, False)


ODD: dict[str, Kind] = {
    "12 bits": ({"bits": 12}, lambda order: [odd_images.packed(GREY, 12)]),
    "12 bits deflated": ({"bits": 12, "t259": 8}, lambda order: [zlib.compress(odd_images.packed(GREY, 12))]),
    "32 bits": ({"bits": 32}, lambda order: [samples("I", lambda v: [v * 16843009], order)]),
    "some of 32 bits": ({"bits": 32}, lambda order: [samples("I", lambda v: [v * 8000], order)]),
    "32 bits from white": (
        {"bits": 32, "photometric": 0},
        lambda order: [samples("I", lambda v: [(255 - v) * 16843009], order)],
    ),
    "planes of 16 bits": (
        {"bits": 16, "samples": 3, "photometric": 2, "t284": 2},
        lambda order: [samples("H", lambda v: [v * 257], order)] * 3,
    ),
    "planes of 16 bits deflated": (
        {"bits": 16, "samples": 3, "photometric": 2, "t284": 2, "t259": 8},
        lambda order: [zlib.compress(samples("H", lambda v: [v * 257], order))] * 3,
    ),
    "double precision": ({"bits": 64, "t339": 3}, lambda order: [samples("d", lambda v: [v / 255], order)]),
    "double precision in strips": (
        {"bits": 64, "t339": 3, "t278": 150},
        lambda order: [
            samples("d", lambda v: [v / 255], order)[8 * 900 * top : 8 * 900 * (top + 150)] for top in (0, 150, 300)
        ],
    ),
}
"""What Pillow cannot read, or not in both byte orders, or would read wrong."""


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), ("<", True), (">", True)])
def test_tiffs_that_pillow_does_not_know(kind: str, order: str, big: bool) -> None:
    fields, blocks = ODD[kind]
    data = odd_images.tiff(odd_images.tags(GREY.size, **fields), blocks(order), order=order, big=big)
    found = image_of(data)
    assert alike(found.pixels, GREY)
    assert (found.dpi, found.dpi_estimated) == (300, False)


ORIENTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("bits", [8, 64])
def test_those_are_turned_as_they_say(orientation: int, bits: int) -> None:
    stored = GREY.transpose(ORIENTATIONS[orientation])
    doubles = b"".join(struct.pack(">d", level / 255) for level in stored.tobytes())
    fields = odd_images.tags(stored.size, bits, t274=orientation, t339=1 if bits == 8 else 3)
    data = odd_images.tiff(fields, [stored.tobytes() if bits == 8 else doubles], order=">", big=True)
    assert alike(image_of(data).pixels, GREY)


def test_a_page_that_pillow_does_not_know_costs_those_behind_it_nothing() -> None:
    doubles = b"".join(struct.pack("<d", level / 255) for level in GREY.tobytes())
    pages = [(8, GREY.tobytes(), 1), (64, doubles, 3), (8, GREY.tobytes(), 1)]
    data = b""
    for bits, pixels, sample_format in reversed(pages):
        data = before(odd_images.tiff(odd_images.tags(GREY.size, bits, t339=sample_format), [pixels]), data)
    with opened(data) as source:
        assert source.page_count == 3
        assert all(alike(source.page(index).image(300).pixels, GREY) for index in range(3))


def before(first: bytes, others: bytes) -> bytes:
    """A little-endian TIFF of one page with others behind it."""
    if not others:
        return first
    moved = bytearray(others)
    (directory,) = struct.unpack_from("<I", moved, 4)
    at = directory
    while at:
        (count,) = struct.unpack_from("<H", moved, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind, number, value = struct.unpack_from("<HHII", moved, entry)
            size = {3: 2, 4: 4, 5: 8}[kind] * number
            if size > 4 or tag in (273, 324):
                struct.pack_into("<I", moved, entry + 8, value + len(first))
        (following,) = struct.unpack_from("<I", moved, at + 2 + 12 * count)
        if following:
            struct.pack_into("<I", moved, at + 2 + 12 * count, following + len(first))
        at = following
    return first[:-4] + struct.pack("<I", directory + len(first)) + bytes(moved)


@pytest.mark.parametrize("order", ["<", ">"])
def test_damaged_ones_fail_by_name(order: str) -> None:
    doubles = odd_images.tags(GREY.size, 64, t339=3)
    whole = odd_images.tiff(doubles, [samples("d", lambda v: [v / 255], order)], order=order)
    lacking = odd_images.tiff(doubles, [samples("d", lambda v: [v / 255], order)[:5000]], order=order)
    for data in (whole[:-20], whole[:1000], lacking):
        with fails_as("unreadable_file"):
            image_of(data)


def test_their_bounds_are_checked_before_they_are_decoded() -> None:
    for size, tile in (((40_000, 40_000), {}), ((900, 400), {"t322": 65_520, "t323": 65_520})):
        data = odd_images.tiff(odd_images.tags(size, 64, t339=3, **tile), [bytes(1000)], order=">", big=True)
        with fails_as("too_large"):
            image_of(data)
