"""What is handed to the engine, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from PIL import Image, ImageDraw, ImageFont, ImageStat

from batchproc.ocr import recognition
from batchproc.ocr.engine import Orientation, Recognised
from batchproc.ocr.pages import PageImage
from batchproc.ocr.recognition import LEAST_SKEW, recognise
from batchproc.ocr.skew import find_lines
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.ops import drawing
from tests.drawing import faded, shadowed, table

DPI = 150
LETTER = drawing.letter(1, dpi=DPI).image
POOR = shadowed(LETTER, 0.4)


class RecordingEngine:
    """Keeps the images that it is given; answers as told."""

    name = "recording"
    version = "1"

    def __init__(
        self, *confidences: float | None, rotations: Sequence[int] = (0, 0), orientation: Orientation | None = None
    ) -> None:
        self.confidences = confidences
        self.rotations = rotations
        self.found = orientation
        self.images: list[Image.Image] = []
        self.asked_for_orientation: list[Image.Image] = []

    def languages(self) -> set[str]:
        return {"eng"}

    def loading_order(self, languages: tuple[str, ...]) -> tuple[str, ...]:
        return languages

    def data_hash_of(self, languages: tuple[str, ...]) -> str:
        return ""

    def recognise(
        self, image: Image.Image, *, dpi: int, languages: tuple[str, ...], layout: bool = False
    ) -> Recognised:
        number = len(self.images)
        self.images.append(image)
        return Recognised(f"answer {number + 1}", self.confidences[number], 2, self.rotations[number])

    def orientation(self, image: Image.Image, dpi: int) -> Orientation | None:
        self.asked_for_orientation.append(image)
        return self.found

    def close(self) -> None: ...


def read(engine: RecordingEngine, image: Image.Image, *, orientation: bool = True) -> Recognised:
    return recognise(engine, PageImage(image, DPI), languages=("eng",), orientation=orientation)


@pytest.mark.parametrize(
    "image",
    [
        LETTER,
        drawing.letter(2, dpi=DPI, noise=1.0).image,
        drawing.letter(2, dpi=DPI, skew=LEAST_SKEW - 0.2).image,
        faded(LETTER, ink=205, paper=215),
        table(1, dpi=DPI).image,
        Image.new("L", (300, 10)),
    ],
    ids=["clean", "noisy", "almost-level", "faint", "table", "sliver"],
)
def test_a_page_that_needs_nothing_is_handed_over_as_it_is_and_read_once(image: Image.Image) -> None:
    engine = RecordingEngine(95.0)
    found = read(engine, image)
    assert [handed is image for handed in engine.images] == [True]
    assert engine.asked_for_orientation == []
    assert (found.rotation, found.skew, found.engine_calls, found.languages) == (0, 0.0, 1, ("eng",))


@pytest.mark.parametrize("degrees", [-4.0, 1.5, 3.0])
def test_a_page_askew_is_straightened_before_it_is_read(degrees: float) -> None:
    engine = RecordingEngine(95.0)
    found = read(engine, drawing.letter(1, dpi=DPI, skew=degrees).image)
    assert found.skew == pytest.approx(degrees, abs=0.1)
    (handed,) = engine.images
    lines = find_lines(handed, DPI)
    assert lines is not None
    assert abs(lines.degrees) < 0.2
    assert found.engine_calls == 1


@pytest.mark.parametrize(
    ("confidences", "answer", "skew"),
    [((None, 95.0), 2, 20.0), ((30.0, 95.0), 2, 20.0), ((60.0, 65.0, 60.0), 1, 0.0), ((95.0,), 1, 0.0)],
)
def test_lines_far_from_level_are_looked_for_where_words_are_doubtful(
    confidences: tuple[float | None, ...], answer: int, skew: float
) -> None:
    engine = RecordingEngine(*confidences, rotations=(0, 0, 0))
    found = read(engine, drawing.letter(1, dpi=DPI, skew=20).image)
    assert found.text == f"answer {answer}"
    assert found.skew == pytest.approx(skew, abs=0.1)
    assert found.engine_calls == len(engine.images) == len(confidences)


@pytest.mark.parametrize("image", [LETTER, table(1, dpi=DPI).image])
def test_on_a_level_page_no_other_lines_are_looked_for(image: Image.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it takes a third of a second")

    monkeypatch.setattr(recognition, "find_steep_lines", fail)
    read(RecordingEngine(40.0, None), image)


def test_a_poor_page_is_evened_out_whether_or_not_it_may_be_turned() -> None:
    for orientation in (True, False):
        engine = RecordingEngine(95.0)
        read(engine, POOR, orientation=orientation)
        (handed,) = engine.images
        assert handed.size == POOR.size
        corner = (POOR.width - 50, POOR.height - 50, POOR.width, POOR.height)
        assert ImageStat.Stat(POOR.crop(corner)).mean[0] < 120
        assert ImageStat.Stat(handed.crop(corner)).mean[0] > 250


@pytest.mark.parametrize("skew", [0.0, 3.0])
@pytest.mark.parametrize(
    ("turn", "guess", "rotation"),
    [
        (Image.Transpose.ROTATE_90, Orientation(180, 9.0), 90),
        (Image.Transpose.ROTATE_90, Orientation(180, 1.0), 270),  # not believed: the words would tell
        (Image.Transpose.ROTATE_270, Orientation(0, 9.0), 270),
        (Image.Transpose.ROTATE_270, None, 270),
    ],
)
def test_a_page_on_its_side_is_turned_before_it_is_read(
    turn: Image.Transpose, guess: Orientation | None, rotation: int, skew: float
) -> None:
    engine = RecordingEngine(95.0, orientation=guess)
    found = read(engine, drawing.letter(1, dpi=DPI, skew=skew).image.transpose(turn))
    assert found.rotation == rotation
    assert found.skew == pytest.approx(skew, abs=0.1)
    (handed,) = engine.images
    lines = find_lines(handed, DPI)
    assert lines is not None
    assert not lines.downwards


def test_a_page_on_its_side_that_gives_doubtful_words_is_turned_on_its_head() -> None:
    engine = RecordingEngine(40.0, 90.0)
    found = read(engine, LETTER.transpose(Image.Transpose.ROTATE_90))
    assert (found.text, found.rotation, found.engine_calls) == ("answer 2", 90, 2)


@pytest.mark.parametrize(
    ("confidences", "orientation", "answer", "rotation"),
    [
        ((90.0,), None, 1, 0),
        ((None,), None, 1, 0),
        ((40.0,), Orientation(0, 9.0), 1, 0),  # poor, but known to be upright
        ((40.0, 90.0), None, 2, 180),
        ((40.0, 90.0), Orientation(90, 9.0), 2, 90),
        ((40.0, 90.0), Orientation(90, 1.0), 2, 180),
        ((40.0, 45.0), None, 1, 0),
        ((40.0, None), None, 1, 0),
    ],
)
def test_a_doubtful_page_is_read_at_most_once_more(
    confidences: tuple[float | None, ...], orientation: Orientation | None, answer: int, rotation: int
) -> None:
    engine = RecordingEngine(*confidences, orientation=orientation)
    found = read(engine, LETTER)
    assert (found.text, found.rotation) == (f"answer {answer}", rotation)
    assert found.engine_calls == len(engine.images) == len(confidences)
    assert found.languages == ("eng",)


def test_nothing_is_turned_when_that_is_not_wanted() -> None:
    engine = RecordingEngine(30.0)
    lying = drawing.letter(1, dpi=DPI, skew=3).image.transpose(Image.Transpose.ROTATE_90)
    found = read(engine, lying, orientation=False)
    assert engine.images == [lying]
    assert (found.rotation, found.skew, found.engine_calls) == (0, 0.0, 1)


@pytest.mark.parametrize("size", [(700, 200), (900, 500), (2480, 3508)])
@pytest.mark.parametrize("text", ["This is alpha", "Total 12.50", "Hello world again"])
def test_a_single_line_is_read_as_it_lies_on_whatever_paper(
    engine: TesseractEngine, text: str, size: tuple[int, int]
) -> None:
    """Where the rows of a small page are cut off at the end of the search, they are sharper than within it."""
    pixels = Image.new("L", size, 255)
    ImageDraw.Draw(pixels).text((40, 60), text, font=ImageFont.load_default(48), fill=0)
    found = recognise(engine, PageImage(pixels, 300), languages=("eng",), orientation=True)
    assert (found.text, found.skew, found.rotation) == (text, 0.0, 0)
