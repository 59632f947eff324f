"""How high the smallest letters of a page are: found within two pixels, or not at all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from PIL import Image, ImageDraw

from batchproc.ocr.letter_height import least_letters
from batchproc.ops import drawing
from batchproc.ops.drawing.page import A4, Line, Typesetter, typesetter
from batchproc.ops.drawing.text import letter_text
from tests.drawing import table

DPI = 300
MARGIN = 70.0
X_HEIGHTS = {"Times-Roman": 0.45, "Helvetica": 0.523, "Courier": 0.426}
"""Of the standard fonts, as parts of their size (the files that Adobe published with them)."""


def rows(setter: Typesetter, font: str, size: float, leading: float, lines: int | None = None) -> Iterable[Line]:
    """A page of prose, or its first lines."""
    text = " ".join(letter_text(1, "eng", 8).body * 6)
    wrapped = setter.wrapped(text, font, size, A4[0] - 2 * MARGIN)
    fit = int((A4[1] - 2 * MARGIN) / (size * leading))
    for number, row in enumerate(wrapped[: fit if lines is None else lines]):
        yield Line(MARGIN, A4[1] - MARGIN - number * size * leading, row, font, size)


def page(
    font: str, size: float, *, leading: float = 1.3, skew: float = 0.0, dpi: int = DPI, lines: int | None = None
) -> Image.Image:
    with typesetter() as setter:
        return setter.image(setter.page(list(rows(setter, font, size, leading, lines)), skew), dpi)


def with_footnote(font: str, size: float, footnote: str, small: float) -> Image.Image:
    with typesetter() as setter:
        lines = [*rows(setter, font, size, 1.3), Line(MARGIN, MARGIN / 2, footnote, font, small)]
        return setter.image(setter.page(lines), DPI)


def x_height(font: str, size: float, dpi: int = DPI) -> float:
    return X_HEIGHTS[font] * size * dpi / 72


@pytest.mark.parametrize("font", X_HEIGHTS)
@pytest.mark.parametrize("size", [7.0, 9.0, 11.0, 14.0])
def test_prose_of_any_size(font: str, size: float) -> None:
    found = least_letters(page(font, size), DPI)
    assert found is not None
    least = x_height(font, size) - 3 if size <= 11 else x_height(font, 7)
    assert least <= found <= x_height(font, size) + 2


@pytest.mark.parametrize("leading", [1.0, 1.15])
@pytest.mark.parametrize("skew", [-0.95, 0.0, 0.95])
def test_lines_that_nearly_touch_and_are_a_little_askew_are_not_taken_for_larger_print(
    leading: float, skew: float
) -> None:
    for font in ("Times-Roman", "Helvetica"):
        found = least_letters(page(font, 7, leading=leading, skew=skew), DPI)
        assert found is not None
        assert found <= x_height(font, 7) + 2


@pytest.mark.parametrize("dpi", [200, 400])
def test_pixels_are_those_of_the_image(dpi: int) -> None:
    found = least_letters(page("Helvetica", 12, dpi=dpi), dpi)
    assert found == pytest.approx(x_height("Helvetica", 12, dpi), rel=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_letters_clean_and_worn(seed: int, noise: float) -> None:
    found = least_letters(drawing.letter(seed, "deu" if seed % 2 else "eng", noise=noise).image, DPI)
    assert found is not None
    assert 20 <= found <= 26


@pytest.mark.parametrize("font", ["Times-Roman", "Helvetica"])
def test_one_line_of_small_print_decides(font: str) -> None:
    footnote = "1 An earlier statement of the account was sent in March and is void since then."
    assert (least_letters(with_footnote(font, 12, footnote, 6), DPI) or 99) <= x_height(font, 6) + 2


def form(font: str, size: float) -> Image.Image:
    """Half a page of prose, and below it what is filled in, with a small word above each."""
    with typesetter() as setter:
        lines = list(rows(setter, "Helvetica", 12, 1.3, 20))
        for number, word in enumerate(("Name", "Street", "Postcode", "Phone", "Reference", "Branch")):
            y = 300 - 28 * number
            lines.append(Line(MARGIN, y, word, font, size))
            lines.append(Line(MARGIN, y - 13, f"Filled value {number}", "Helvetica", 12))
        return setter.image(setter.page(lines), DPI)


@pytest.mark.parametrize("font", ["Times-Roman", "Helvetica"])
def test_small_words_that_stand_apart_decide(font: str) -> None:
    assert (least_letters(form(font, 6), DPI) or 99) <= x_height(font, 6) + 2


def test_a_bar_that_white_print_may_stand_on_leaves_the_page_as_it_is() -> None:
    for ink in (0, 60):
        for height in (40, 60, 100):
            image = page("Times-Roman", 12)
            ImageDraw.Draw(image).rectangle((300, 1000, 2200, 1000 + height), fill=ink)
            assert least_letters(image, DPI) is None


def test_rules_and_leaders_are_no_small_print() -> None:
    image = page("Times-Roman", 12)
    draw = ImageDraw.Draw(image)
    for y in range(40, 280, 30):
        draw.rectangle((200, y, 2200, y + 3), fill=0)
        for x in range(200, 2200, 12):
            draw.ellipse((x, y + 12, x + 5, y + 17), fill=0)
    found = least_letters(image, DPI)
    assert found is not None
    assert found >= x_height("Times-Roman", 12) - 2


def test_what_shows_no_height_of_letters() -> None:
    prose = page("Times-Roman", 12)
    picture = prose.copy()
    picture.paste(Image.radial_gradient("L").resize((1600, 1400)), (400, 400))
    pages = {
        "blank": Image.new("L", (2480, 3508), 255),
        "black": Image.new("L", (2480, 3508), 0),
        "one pixel": Image.new("L", (1, 1), 128),
        "narrow": Image.new("L", (3, 900), 128),
        "a few lines": page("Times-Roman", 12, lines=2),
        "a picture": picture,
        "a frame": table(1).image,
    }
    assert {name: least_letters(image, DPI) for name, image in pages.items()} == dict.fromkeys(pages)


@pytest.mark.parametrize("turn", [Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270])
def test_lines_that_run_downwards_are_never_taken_for_large_print(turn: Image.Transpose) -> None:
    for size in (8, 12):
        assert (least_letters(page("Times-Roman", size).transpose(turn), DPI) or 8) <= x_height("Times-Roman", size)
