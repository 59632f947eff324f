from __future__ import annotations

import random

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageOps

from batchproc.ocr.blank import is_blank
from batchproc.ops import drawing
from tests.drawing import faded, shadowed
from tests.ocr import drawn

DPI = 300
WIDTH, HEIGHT = 2480, 3508
LETTER = drawing.letter(1).image


def paper(level: int = 250) -> Image.Image:
    return Image.new("L", (WIDTH, HEIGHT), level)


def grainy(sigma: float, level: int = 235) -> Image.Image:
    return ImageChops.add(paper(level), Image.effect_noise((WIDTH, HEIGHT), sigma), 1, -128)


def with_holes(image: Image.Image) -> Image.Image:
    """Two of 5.5 mm, 12 mm from the left, 80 mm apart, as filed (ISO 838)."""
    draw = ImageDraw.Draw(image)
    for y in (HEIGHT // 2 - 472, HEIGHT // 2 + 472):
        draw.ellipse((142 - 33, y - 33, 142 + 33, y + 33), fill=20)
    return image


def with_edges(image: Image.Image) -> Image.Image:
    image.paste(10, (0, 0, 90, HEIGHT))
    image.paste(10, (0, HEIGHT - 200, WIDTH, HEIGHT))
    return image


def with_number(
    image: Image.Image, *, ink: int = 0, height: int = 42, at: tuple[int, int] = (1200, 3100)
) -> Image.Image:
    image.paste(ink, at, ImageChops.invert(drawn.page(["7"], size=(200, 200), height=height)))
    return image


def dusty(specks: int) -> Image.Image:
    image, rng = paper(), random.Random(1)
    draw = ImageDraw.Draw(image)
    for _ in range(specks):
        x, y, size = rng.randrange(WIDTH), rng.randrange(HEIGHT), rng.randrange(1, 4)
        draw.rectangle((x, y, x + size, y + size), fill=60)
    return image


BLANK = {
    "white": paper(255),
    "black": paper(0),
    "coloured": paper(180),
    "grain": grainy(10),
    "coarse grain": grainy(25),
    "dark grain": grainy(10, 40),
    "uneven light": shadowed(paper(), 0.4),
    "uneven light, grain": drawing.scanned(shadowed(paper(), 0.4), 1, 0.5, DPI),
    "dust": dusty(50),
    "holes": with_holes(paper()),
    "holes, grain": drawing.scanned(with_holes(paper()), 1, 0.5, DPI),
    "edges": with_edges(paper()),
    "holes, edges": with_edges(with_holes(paper())),
}

WRITTEN = {
    "number": with_number(paper()),
    "small number": with_number(paper(), ink=60, height=33),
    "grey number in grain": with_number(grainy(5), ink=190),
    "number at the bottom": with_number(paper(), at=(1200, 3200)),
    "number, holes, edges": with_edges(with_number(with_holes(paper()))),
    "number between holes": with_number(with_holes(paper()), at=(180, 1700)),
    "faint pencil": faded(LETTER, ink=240, paper=250),
    "pencil, grain": drawing.scanned(faded(LETTER, ink=200, paper=240), 1, 1.0, DPI),
    "dark page": faded(LETTER, ink=20, paper=50),
    "white on black": ImageOps.invert(with_number(paper())),
    "one line": drawn.page(["one line"], size=(300, 150)),
    "address only": drawing.letter(2, paragraphs=0).image,
    "shows through": faded(ImageOps.mirror(LETTER), ink=236, paper=250),  # in doubt it is read
}


@pytest.mark.parametrize("kind", BLANK)
def test_nothing_but_paper_is_blank(kind: str) -> None:
    assert is_blank(BLANK[kind], DPI)


@pytest.mark.parametrize("kind", WRITTEN)
def test_whatever_is_written_is_not_blank(kind: str) -> None:
    assert not is_blank(WRITTEN[kind], DPI)


def test_a_huge_letter_is_not_taken_for_holes() -> None:
    image = paper()
    image.paste(0, (600, 600, 760, 1800))
    image.paste(0, (1200, 600, 1360, 1800))
    assert not is_blank(image, DPI)


def test_a_fax_header_at_the_upper_edge_is_not_blank() -> None:
    image = paper()
    header = drawn.page(["FAX 0049 89 123456 PAGE 2"], size=(1100, 130), height=30)
    image.paste(header.crop((0, 60, 1100, 110)), (900, 0))
    assert not is_blank(image, DPI)
