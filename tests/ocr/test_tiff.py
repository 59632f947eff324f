"""TIFFs of every depth, layout and byte order, made byte for byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from PIL import Image, ImageChops

from tests.ocr import drawn, odd_images
from tests.ocr.reading import alike, fails_as, image_of

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
@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), ("<", True)])
def test_tiffs_of_every_kind(kind: str, order: str, big: bool) -> None:
    fields, blocks = TIFFS[kind]
    data = odd_images.tiff(odd_images.tags(GREY.size, **fields), blocks(order), order=order, big=big)
    assert alike(image_of(data).pixels, GREY)


@pytest.mark.parametrize(
    ("fields", "blocks"),
    [
        ({"bits": 12}, [odd_images.packed(GREY, 12)]),
        ({"bits": 32}, [samples("I", lambda v: [v * 16843009], "<")]),
        ({"bits": 32}, [samples("I", lambda v: [v * 8000], "<")]),
    ],
    ids=["12 bits", "32 bits", "some of 32 bits"],
)
def test_tiffs_that_are_read_in_one_byte_order_only(fields: dict[str, Any], blocks: list[bytes]) -> None:
    assert alike(image_of(odd_images.tiff(odd_images.tags(GREY.size, **fields), blocks)).pixels, GREY)
    with fails_as("unreadable_file"):
        image_of(odd_images.tiff(odd_images.tags(GREY.size, **fields), blocks, order=">"))


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_pillow_would_read_wrong_is_refused(order: str) -> None:
    """Planes of 16 bits: every other byte of them would be taken for a pixel. Doubles, and the rarest of TIFFs."""
    planes = odd_images.tags(GREY.size, 16, samples=3, photometric=2, t284=2)
    with fails_as("unreadable_file"):
        image_of(odd_images.tiff(planes, [samples("H", lambda v: [v * 257], order)] * 3, order=order))
    doubles = odd_images.tags(GREY.size, 64, t339=3)
    with fails_as("unreadable_file"):
        image_of(odd_images.tiff(doubles, [samples("d", lambda v: [v / 255], order)], order=order))
    if order == ">":
        with fails_as("unreadable_file"):
            image_of(odd_images.tiff(odd_images.tags(GREY.size, 8), [GREY.tobytes()], order=">", big=True))
