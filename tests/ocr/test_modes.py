"""What counts of a text layer in each mode."""

from __future__ import annotations

import pytest
from PIL import Image

from batchproc.ocr.page_text import PageOptions, PageText, read_page
from batchproc.ocr.recall import word_recall
from batchproc.ocr.tesseract import TesseractEngine
from tests.ocr import drawn
from tests.ocr.drawn import PdfPage, placed, shown
from tests.ocr.reading import opened

SKIP, REDO, FORCE = (PageOptions(("eng",), mode=mode) for mode in ("skip", "redo", "force"))
PICTURE = drawn.page()
PICTURED = " ".join(drawn.ENGLISH)
SHEET = (216.0, 96.0)
SCAN = placed(0, 0, *SHEET)


def read(engine: TesseractEngine, content: str, options: PageOptions) -> PageText:
    with opened(drawn.pdf(PdfPage(content, size=SHEET, image=PICTURE))) as source:
        return read_page(source.page(0), engine, options)


def grey(level: float, text: str) -> str:
    return f"{level} g\n{text}0 g\n"


def test_a_digital_page(engine: TesseractEngine) -> None:
    content = shown("An invoice of seven pounds", x=10, y=40, points=14)
    kept, redone, forced = (read(engine, content, options) for options in (SKIP, REDO, FORCE))
    assert kept.text == redone.text == forced.text == "An invoice of seven pounds"
    assert (kept.state, kept.engine_calls, kept.languages) == ("text", 0, ())
    assert (redone.state, redone.engine_calls, redone.languages) == ("ocr", 1, ("eng",))
    assert (forced.state, forced.engine_calls, forced.languages) == ("ocr", 1, ("eng",))


@pytest.mark.parametrize("options", [REDO, FORCE])
def test_an_ocr_programs_layer_counts_for_nothing(engine: TesseractEngine, options: PageOptions) -> None:
    lies = "".join(shown(f"wrongly read {number}", x=10, y=20 + 20 * number, hidden=True) for number in range(4))
    for content in (SCAN + lies, lies.replace("3 Tr", "0 Tr") + SCAN):
        found = read(engine, content, options)
        assert found.state == "ocr"
        assert found.text.split() == PICTURED.split()
        assert "wrongly" in read(engine, content, SKIP).text


def test_redo_keeps_words_that_recognition_missed(engine: TesseractEngine) -> None:
    tiny = shown("tinyprint", x=14, y=54.5, points=1.2)
    pale = grey(0.95, shown("palewords", x=14, y=10, points=10))
    content = SCAN + tiny + pale
    found = read(engine, content, REDO)
    assert word_recall(f"{PICTURED} tinyprint palewords", found.text) == 1.0
    assert found.words == 16, found.text
    assert found.text.index("jumps") < found.text.index("tinyprint") < found.text.index("palewords"), found.text
    forced = read(engine, content, FORCE)
    assert (forced.text.split(), forced.engine_calls) == (PICTURED.split(), 1)


def test_redo_keeps_nothing_that_is_not_seen(engine: TesseractEngine) -> None:
    white = grey(1, shown("whiteonwhite", x=14, y=10))
    covered = shown("covered", x=14, y=20)
    outside = shown("outside", x=400, y=20)
    assert read(engine, covered + SCAN + white + outside, REDO).text.split() == PICTURED.split()


@pytest.mark.parametrize("turn", [90, 180])
def test_redo_keeps_what_was_missed_also_on_a_page_that_lies(engine: TesseractEngine, turn: int) -> None:
    """The layer lies as the scan does: the sheet was turned as a whole, by who does not say so."""
    width, height = SHEET
    matrix, size = {90: (f"0 -1 1 0 0 {width}", (height, width)), 180: (f"-1 0 0 -1 {width} {height}", SHEET)}[turn]
    body = SCAN + grey(0.95, shown("palewords", x=14, y=10, points=10))
    data = drawn.pdf(PdfPage(f"q {matrix} cm\n{body}Q\n", size=size, image=PICTURE))
    with opened(data) as source:
        found = read_page(source.page(0), engine, REDO)
    assert found.rotation == {90: 270, 180: 180}[turn]
    assert found.text.split() == [*PICTURED.split(), "palewords"], found.text


def test_redo_is_no_worse_for_a_layer_that_is_rubbish(engine: TesseractEngine) -> None:
    content = SCAN + shown("x" * 60, x=14, y=10, points=4)
    found = read(engine, content, REDO)
    assert word_recall(PICTURED, found.text) == 1.0


@pytest.mark.parametrize(("options", "state"), [(SKIP, "blank"), (REDO, "blank"), (FORCE, "ocr")])
def test_only_force_reads_what_looks_blank(
    engine: TesseractEngine, options: PageOptions, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchproc.ocr.page_text.is_blank", lambda pixels, dpi: True)
    found = read(engine, SCAN, options)
    assert found.state == state
    assert found.engine_calls == (state == "ocr")


def test_force_on_a_blank_page_finds_it_blank(engine: TesseractEngine) -> None:
    found = read(engine, "", FORCE)
    assert (found.state, found.text, found.words, found.confidence) == ("blank", "", 0, None)
    assert found.engine_calls >= 1


def test_redo_of_a_page_with_nothing_but_pale_text(engine: TesseractEngine) -> None:
    found = read(engine, grey(0.975, shown("faint", x=14, y=10)), REDO)
    assert (found.state, found.text, found.engine_calls) == ("text", "faint", 0)


def test_a_scan_without_a_layer_is_the_same_in_all_modes(engine: TesseractEngine) -> None:
    found = [read(engine, SCAN, options) for options in (SKIP, REDO, FORCE)]
    assert {(page.state, page.text, page.engine_calls) for page in found} == {("ocr", "\n".join(drawn.ENGLISH), 1)}


def test_a_skewed_page_keeps_what_was_missed_at_its_place(engine: TesseractEngine) -> None:
    lines = [
        f"line {word} of a longer page that is read here" for word in ("alpha", "bravo", "delta", "gamma", "omega")
    ]
    level = drawn.page(lines, size=(1300, 700))
    askew = level.rotate(-3, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    size = (askew.width * 0.24, askew.height * 0.24)
    content = placed(0, 0, *size) + grey(0.95, shown("palewords", x=180, y=20, points=7))
    with opened(drawn.pdf(PdfPage(content, size=size, image=askew))) as source:
        found = read_page(source.page(0), engine, REDO)
    assert found.skew == pytest.approx(-3, abs=0.3)
    assert word_recall(" ".join([*lines, "palewords"]), found.text) >= 0.97
    assert found.text.index("alpha") < found.text.index("palewords")


def test_redo_tells_words_from_the_leader_between_them(engine: TesseractEngine) -> None:
    found = read(engine, shown("Heading" + "." * 40 + "7", x=10, y=40, points=10), REDO)
    assert found.text.count("Heading") == 1, found.text
    assert found.text.rstrip().endswith("7")
