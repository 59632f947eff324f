"""How well drawn pages are read: by themselves, and beside the bare engine on the same pixels."""

from __future__ import annotations

import pytest
import tesserocr

from batchproc.ocr.pages import PageImage
from batchproc.ocr.recall import word_recall
from batchproc.ocr.recognition import recognise
from batchproc.ocr.tessdata import default_folder
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.ops import drawing
from batchproc.ops.drawing import Drawn
from batchproc.ops.drawing.text import Language
from tests.ocr.error_rate import character_error_rate
from tests.ocr.hard_pages import PAGES, HardPage

QUICK = ("table, skew", "table, askew by 25", "150 dpi, skew", "shadow", "rotated 90")
DEFAULT = ("eng", "deu")


def bare_text(drawn: Drawn, page: HardPage) -> str:
    with tesserocr.PyTessBaseAPI(path=f"{default_folder()}/", lang=page.language) as api:
        api.SetImage(drawn.image)
        api.SetSourceResolution(page.dpi)
        text: str = api.GetUTF8Text()
    return text


def compare(engine: TesseractEngine, name: str, page: HardPage) -> None:
    drawn = page.draw()
    image = PageImage(drawn.image, page.dpi)
    bare = bare_text(drawn, page)
    found = recognise(engine, image, languages=(page.language,), orientation=True)
    recalls = word_recall(drawn.text, bare), word_recall(drawn.text, found.text)
    rates = character_error_rate(drawn.text, bare), character_error_rate(drawn.text, found.text)
    print(  # noqa: T201 - the figures
        f"{name:24} recall {recalls[0]:.3f} -> {recalls[1]:.3f}, errors {rates[0]:.4f} -> {rates[1]:.4f}, "
        f"turned {found.rotation} and {found.skew:+.2f}, {found.engine_calls} readings"
    )
    assert recalls[1] >= recalls[0] - 0.01
    assert rates[1] <= page.error_rate
    if page.harder:
        assert recalls[1] > recalls[0]


@pytest.mark.parametrize("name", QUICK)
def test_hard_pages_are_read_better_than_by_the_bare_engine(engine: TesseractEngine, name: str) -> None:
    compare(engine, name, PAGES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PAGES if name not in QUICK])
def test_no_page_is_read_worse_than_by_the_bare_engine(engine: TesseractEngine, name: str) -> None:
    compare(engine, name, PAGES[name])


@pytest.mark.parametrize("languages", [("deu",), ("deu", "eng"), DEFAULT], ids="+".join)
def test_umlauts_are_right(engine: TesseractEngine, languages: tuple[str, ...]) -> None:
    check_letter(engine, 7, "deu", languages=languages, noise=0.0, skew=0.0, most=0.02)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize(("noise", "skew", "most"), [(0.0, 0.0, 0.02), (1.0, 1.7, 0.05), (1.0, -3.0, 0.05)])
@pytest.mark.parametrize(
    ("language", "languages"),
    [("eng", ("eng",)), ("eng", DEFAULT), ("deu", ("deu",)), ("deu", ("deu", "eng")), ("deu", DEFAULT)],
)
def test_letters_are_read_almost_without_errors(
    engine: TesseractEngine,
    language: Language,
    languages: tuple[str, ...],
    seed: int,
    noise: float,
    skew: float,
    most: float,
) -> None:
    check_letter(engine, seed, language, languages=languages, noise=noise, skew=skew, most=most)


def check_letter(
    engine: TesseractEngine,
    seed: int,
    language: Language,
    *,
    languages: tuple[str, ...],
    noise: float,
    skew: float,
    most: float,
) -> None:
    drawn = drawing.letter(seed, language, noise=noise, skew=skew)
    found = recognise(engine, PageImage(drawn.image, 300), languages=languages, orientation=True)
    rate = character_error_rate(drawn.text, found.text)
    special = {letter: drawn.text.count(letter) - found.text.count(letter) for letter in "äöüßÄÖÜ"}
    lost = sum(count for count in special.values() if count > 0)
    total = sum(drawn.text.count(letter) for letter in special)
    print(  # noqa: T201 - the figures
        f"{language} as {'+'.join(languages)}, noise {noise}, skew {skew}: {rate:.4f}, umlauts lost {lost} of {total}"
    )
    assert rate <= most
    assert lost <= most * total
    assert found.languages == languages
