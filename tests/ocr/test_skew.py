from __future__ import annotations

import pytest
from PIL import Image, ImageChops, ImageStat

from batchproc.ocr.recognition import CLEAR_LINES
from batchproc.ocr.skew import MOST_DEGREES, find_lines, find_steep_lines, straightened
from batchproc.ops import drawing
from tests.drawing import columns, faded, shadowed, stamped, table

# As `drawing` counts: counterclockwise; turned back by the same clockwise.
ANGLES = [0.0, 0.3, -1.0, 3.0, -5.0, 7.5]


@pytest.mark.parametrize("degrees", ANGLES)
@pytest.mark.parametrize("kind", ["letter", "noisy", "columns", "table", "faint", "shadowed", "stamped", "coarse"])
def test_skew_is_found_to_a_tenth_of_a_degree(kind: str, degrees: float) -> None:
    dpi = 100 if kind == "coarse" else 150
    make = {"columns": columns, "table": table}.get(kind, drawing.letter)
    image = make(3, "deu", dpi=dpi, skew=degrees).image
    if kind == "noisy":
        image = drawing.scanned(image, 1, 1.0, dpi)
    elif kind == "faint":
        image = faded(image, ink=205, paper=215)
    elif kind == "shadowed":
        image = shadowed(image, 0.2)
    elif kind == "stamped":
        image = stamped(image, "RECEIVED", dpi)
    found = find_lines(image, dpi)
    assert found is not None
    assert found.degrees == pytest.approx(degrees, abs=0.1)
    assert not found.downwards


@pytest.mark.parametrize("turn", [Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270])
@pytest.mark.parametrize("degrees", [0.0, 3.0, -2.0])
def test_lines_of_a_page_on_its_side_run_downwards(turn: Image.Transpose, degrees: float) -> None:
    found = find_lines(drawing.letter(3, dpi=150, skew=degrees).image.transpose(turn), 150)
    assert found is not None
    assert found.downwards
    assert found.degrees == pytest.approx(degrees, abs=0.1)


@pytest.mark.parametrize(
    "image",
    [
        Image.new("L", (1240, 1754), 255),
        Image.new("L", (1240, 1754), 0),
        Image.new("L", (1, 1), 0),
        Image.new("L", (2000, 3), 0),
        Image.radial_gradient("L").resize((1240, 1754)),
        drawing.scanned(Image.new("L", (1240, 1754), 250), 1, 1.0, 150),
        shadowed(Image.new("L", (1240, 1754), 250), 0.3),
    ],
    ids=["white", "black", "dot", "sliver", "disc", "grain", "shadow"],
)
def test_without_lines_there_is_no_skew(image: Image.Image) -> None:
    assert find_lines(image, 150) is None
    assert find_steep_lines(image, 150) is None


@pytest.mark.parametrize("kind", ["letter", "columns", "table"])
@pytest.mark.parametrize("degrees", [10.0, -14.0, 20.0, -33.0, 44.0])
def test_steep_lines_are_found_to_a_tenth_of_a_degree(kind: str, degrees: float) -> None:
    make = {"columns": columns, "table": table}.get(kind, drawing.letter)
    image = make(3, "deu", dpi=150, skew=degrees).image
    found = find_steep_lines(image, 150)
    assert found is not None
    assert not found.downwards
    assert found.degrees == pytest.approx(degrees, abs=0.1)
    lying = find_steep_lines(image.transpose(Image.Transpose.ROTATE_90), 150)
    assert lying is not None
    assert lying.downwards
    assert lying.degrees == pytest.approx(degrees, abs=0.1)
    near = find_lines(image, 150)
    assert near is None or near.degrees == pytest.approx(degrees, abs=0.1) or near.confidence < CLEAR_LINES


def test_no_angle_beyond_those_looked_for_is_ever_found() -> None:
    found = find_lines(drawing.letter(3, dpi=150, skew=25).image, 150)
    assert found is None or abs(found.degrees) <= MOST_DEGREES


def test_a_straightened_page_is_as_if_it_had_never_been_askew() -> None:
    level = faded(drawing.letter(3, dpi=150).image, ink=0, paper=230)
    askew = faded(drawing.letter(3, dpi=150, skew=3).image, ink=0, paper=230)
    back = straightened(askew, 3)
    assert back.width > level.width
    assert back.height > level.height
    left, top = (back.width - level.width) // 2, (back.height - level.height) // 2
    middle = back.crop((left, top, left + level.width, top + level.height))
    assert (
        ImageStat.Stat(ImageChops.difference(middle, level)).mean[0]
        < ImageStat.Stat(ImageChops.difference(askew, level)).mean[0] / 3
    )
    assert back.getpixel((0, 0)) == 230, "corners have the colour of the paper"
