from __future__ import annotations

import pytest
from PIL import Image, ImageChops, ImageFilter

from batchproc.ocr.engine import Orientation, Recognised
from batchproc.ocr.page_text import PageOptions, PageText, read_page
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.recall import word_recall
from batchproc.ocr.tesseract import TesseractEngine
from tests.ocr import drawn
from tests.ocr.drawn import PdfPage, placed, shown
from tests.ocr.reading import opened

ENGLISH = PageOptions(("eng",))
REDO = PageOptions(("eng",), mode="redo")
TEXT = " ".join(drawn.ENGLISH)


def read(engine: TesseractEngine, data: bytes, options: PageOptions = ENGLISH) -> PageText:
    with opened(data) as source:
        return read_page(source.page(0), engine, options)


def test_a_scan_is_recognised(engine: TesseractEngine) -> None:
    found = read(engine, drawn.saved(drawn.page(), "PNG", dpi=(300, 300)))
    assert (found.state, found.words, found.rotation, found.dpi) == ("ocr", 14, 0, 300)
    assert word_recall(TEXT, found.text) == 1.0
    assert found.confidence is not None
    assert found.confidence > 80
    assert found.seconds > 0


def test_a_text_layer_is_kept_or_done_again(engine: TesseractEngine) -> None:
    data = drawn.pdf(PdfPage(shown("An invoice", points=24), size=(400, 800)))
    kept = read(engine, data)
    assert (kept.state, kept.text, kept.words, kept.confidence, kept.dpi) == ("text", "An invoice", 2, None, None)
    redone = read(engine, data, REDO)
    assert (redone.state, redone.text, redone.dpi) == ("ocr", "An invoice", 300)


def test_a_stamp_on_a_scan_does_not_hide_the_scan(engine: TesseractEngine) -> None:
    content = placed(0, 0, 216, 96) + shown("Scanned by", x=150, y=4, points=6)
    found = read(engine, drawn.pdf(PdfPage(content, size=(216, 96), image=drawn.page())))
    assert found.state == "ocr"
    assert word_recall(TEXT, found.text) == 1.0


def test_a_page_without_marks_is_blank(engine: TesseractEngine) -> None:
    found = read(engine, drawn.pdf(PdfPage(size=(200, 200))))
    assert (found.state, found.text, found.words, found.confidence) == ("blank", "", 0, None)


def test_a_picture_without_words_is_not_blank(engine: TesseractEngine) -> None:
    disc = Image.radial_gradient("L").resize((400, 400))
    found = read(engine, drawn.saved(disc, "PNG", dpi=(300, 300)))
    assert (found.state, found.text, found.confidence) == ("ocr", "", None)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("kind", ["clean", "poor"])
def test_pages_lying_on_their_side_or_head_are_turned(engine: TesseractEngine, turn: int, kind: str) -> None:
    lines = [*drawn.ENGLISH, "and nobody says a word", "until the morning comes"]
    upright = drawn.page(lines, size=(900, 560))
    if kind == "poor":
        noise = Image.effect_noise(upright.size, 50)
        upright = ImageChops.add(upright, noise, 1, -128).filter(ImageFilter.GaussianBlur(1.2))
    lying = upright.rotate(turn, expand=True)  # Pillow turns anticlockwise: clockwise by the same is back
    found = read(engine, drawn.saved(lying, "PNG", dpi=(300, 300)), PageOptions(("eng", "deu")))
    assert found.rotation == turn
    assert word_recall(" ".join(lines), found.text) >= 0.9
    assert found.text.index("quick") < found.text.index("lazy") < found.text.index("morning")


def test_a_few_upside_down_words_are_enough(engine: TesseractEngine) -> None:
    lying = drawn.page(["Rechnung 2024"], size=(900, 300)).rotate(180)
    found = read(engine, drawn.saved(lying, "PNG", dpi=(300, 300)), PageOptions(("deu",)))
    assert (found.rotation, found.text) == (180, "Rechnung 2024")


def test_orientation_can_be_left_alone(engine: TesseractEngine) -> None:
    lying = drawn.page().rotate(180)
    found = read(engine, drawn.saved(lying, "PNG", dpi=(300, 300)), PageOptions(("eng",), orientation=False))
    assert found.rotation == 0
    assert word_recall(TEXT, found.text) < 0.5


def test_columns_are_not_interleaved(engine: TesseractEngine) -> None:
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"]
    sheet = Image.new("L", (1700, 900), 255)
    for column in range(2):
        lines = [f"{words[5 * column + row]} runs along here" for row in range(5) for _ in range(2)]
        sheet.paste(drawn.page(lines, size=(800, 900)), (850 * column, 0))
    found = read(engine, drawn.saved(sheet, "PNG", dpi=(300, 300)))
    assert [word for word in found.text.split() if word in words][::2] == words


class ScriptedEngine:
    """Answers as told; says how often it was asked."""

    name = "scripted"
    version = "1"

    def __init__(self, *confidences: float | None, orientation: Orientation | None = None) -> None:
        self.answers = list(confidences)
        self.found = orientation
        self.asked = 0

    def languages(self) -> set[str]:
        return {"eng"}

    def loading_order(self, languages: tuple[str, ...]) -> tuple[str, ...]:
        return languages

    def data_hash_of(self, languages: tuple[str, ...]) -> str:
        return ""

    def recognise(
        self, image: Image.Image, *, dpi: int, languages: tuple[str, ...], layout: bool = False
    ) -> Recognised:
        confidence = self.answers[self.asked]
        self.asked += 1
        return Recognised(f"answer {self.asked}", confidence, 2)

    def orientation(self, image: Image.Image, dpi: int) -> Orientation | None:
        return self.found

    def close(self) -> None: ...


class DrawnPage:
    def text_layer(self) -> TextLayer | None:
        return None

    def image(self, dpi: int) -> PageImage:
        return PageImage(drawn.page(), 300)


@pytest.mark.parametrize(
    ("confidences", "orientation", "answer", "rotation"),
    [
        ((90.0,), None, 1, 0),  # read once: looking for the orientation costs good pages nothing
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
    engine = ScriptedEngine(*confidences, orientation=orientation)
    found = read_page(DrawnPage(), engine, ENGLISH)
    assert (found.text, found.rotation, engine.asked) == (f"answer {answer}", rotation, len(confidences))


@pytest.mark.filterwarnings("error::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("limit", [50_000, 500_000])
def test_only_the_bounds_say_how_large_a_page_may_be(
    engine: TesseractEngine, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow has a limit of its own, and applies it to parts of a page that was decoded: above it warns, above twice
    it raises."""
    data = drawn.saved(drawn.page(drawn.ENGLISH, size=(1800, 800)), "PNG", dpi=(300, 300))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    assert word_recall(TEXT, read(engine, data).text) == 1.0
    assert limit == Image.MAX_IMAGE_PIXELS
