from __future__ import annotations

import pytest
from PIL import Image, ImageOps

from batchproc.ocr.light import evened, is_poor
from batchproc.ops import drawing
from tests.drawing import columns, faded, shadowed, stamped, table

DPI = 150
PAPER = Image.new("L", (1240, 1754), 250)
LETTER = drawing.letter(1, dpi=DPI).image
FAINT = faded(LETTER, ink=190, paper=215)
GREY = faded(LETTER, ink=160, paper=220)


@pytest.mark.parametrize(
    "image",
    [
        LETTER,
        FAINT,
        columns(1, dpi=DPI).image,
        table(1, dpi=DPI).image,
        stamped(LETTER, "RECEIVED", DPI),
        drawing.scanned(LETTER, 1, 1.0, DPI),
        shadowed(LETTER, 0.7),
        LETTER.convert("1").convert("L"),
        ImageOps.invert(LETTER).convert("1").convert("L"),
        PAPER,
        Image.new("L", (1, 1)),
    ],
    ids=["clean", "faint", "columns", "table", "stamp", "noisy", "shaded", "bilevel", "negative", "blank", "dot"],
)
def test_pages_that_tesseract_reads_well_are_left_alone(image: Image.Image) -> None:
    assert not is_poor(image, DPI)


@pytest.mark.parametrize(
    "image",
    [
        shadowed(LETTER, 0.4),
        shadowed(GREY, 0.6),
        drawing.scanned(FAINT, 1, 0.3, DPI),
        drawing.scanned(LETTER, 1, 2.0, DPI),
    ],
    ids=["shadow", "grey-in-shadow", "faint-in-grain", "grain"],
)
def test_poor_pages_become_black_on_white(image: Image.Image) -> None:
    assert is_poor(image, DPI)
    better = evened(image, DPI)
    assert better.size == image.size
    assert not is_poor(better, DPI)
    levels = better.histogram()
    assert sum(levels[:128]) == pytest.approx(sum(LETTER.histogram()[:128]), rel=0.6)
    assert sum(levels[200:]) > 0.8 * sum(levels)


@pytest.mark.parametrize(("noise", "light"), [(0.5, 1.0), (2.0, 1.0), (1.0, 0.3)])
def test_grain_without_ink_is_not_made_into_specks(noise: float, light: float) -> None:
    paper = Image.new("L", (2480, 3508), 250)
    image = drawing.scanned(shadowed(paper, light), 1, noise, 300)
    assert evened(image, 300) is image
