"""Reading a page in its own language: the rule, lingua's part in it, and what it brings back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from batchproc.ocr import detection
from batchproc.ocr.detection import recognise_detecting
from batchproc.ocr.engine import Recognised
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pages import PageImage
from batchproc.ocr.recognition import recognise
from batchproc.ocr.tesseract import TesseractEngine, loading_order
from batchproc.ops.drawing.documents import letter
from tests.ocr.error_rate import character_error_rate

GERMAN = "Die Bäume müssen über Nacht größer geworden sein, sagte der Förster auf der Straße."
ENGLISH = "The trees must have grown during the night, said the forester on the road."
needs_lingua = pytest.mark.skipif(not detection.is_installed(), reason="lingua is not installed")


class Reader:
    """Gives what was made up for the languages it is asked for, and remembers them."""

    def __init__(self, readings: Mapping[tuple[str, ...], Recognised]) -> None:
        self.readings = readings
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, languages: tuple[str, ...]) -> Recognised:
        self.asked.append(languages)
        return self.readings[languages]


def reading(text: str, confidence: float | None = 90.0, *languages: str) -> Recognised:
    return Recognised(text, confidence, len(text.split()), languages=languages)


def as_given(languages: tuple[str, ...]) -> tuple[str, ...]:
    """The loading order of an engine that tries languages as they come."""
    return languages


def without_dots(text: str) -> str:
    return text.translate(str.maketrans("äöüÄÖÜß", "aouAOUB"))


@needs_lingua
def test_a_text_in_another_language_than_the_first_is_read_once_more_with_that_in_front() -> None:
    read = Reader(
        {
            ("eng", "deu", "fra"): reading(without_dots(GERMAN), 90.0, "eng", "deu", "fra"),
            ("deu", "eng", "fra"): reading(GERMAN, 89.0, "deu", "eng", "fra"),
        }
    )
    found = recognise_detecting(read, ("eng", "deu", "fra"), as_given)
    assert (found.text, found.languages, found.engine_calls) == (GERMAN, ("deu", "eng", "fra"), 2)


@needs_lingua
def test_what_the_engine_would_read_the_same_again_is_read_once() -> None:
    read = Reader({("eng", "deu"): reading(GERMAN, 90.0, "eng", "deu")})
    found = recognise_detecting(read, ("eng", "deu"), loading_order)
    assert (found.languages, found.engine_calls, read.asked) == (("deu", "eng"), 1, [("eng", "deu")])


@needs_lingua
def test_a_second_reading_that_is_the_worse_does_not_count_but_is_counted() -> None:
    first = reading(without_dots(GERMAN), 90.0, "eng", "deu")
    for worse in (reading(GERMAN, 87.0, "deu", "eng"), reading("", None, "deu", "eng")):
        found = recognise_detecting(Reader({("eng", "deu"): first, ("deu", "eng"): worse}), ("eng", "deu"), as_given)
        assert (found.text, found.languages, found.engine_calls) == (first.text, ("eng", "deu"), 2)


@needs_lingua
@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        (GERMAN, ("deu", "eng")),
        (ENGLISH, ("eng", "deu")),
        (GERMAN, ("deu",)),
        (GERMAN, ("eng",)),
        (GERMAN, ("script/Latin", "deu")),
        (GERMAN, ("script/Latin", "script/Fraktur")),
        (GERMAN[:30], ("eng", "deu")),
        ("Rechnung 2024-11-03 120,50 12 13 14 15 16 17 18 19", ("eng", "deu")),
        ("0815 4711 " * 40, ("eng", "deu")),
        ("", ("eng", "deu")),
        ("xq vjk wz " * 8, ("eng", "deu")),
    ],
)
def test_otherwise_it_is_read_once(text: str, candidates: tuple[str, ...]) -> None:
    read = Reader({candidates: reading(text, 90.0, *candidates)})
    assert recognise_detecting(read, candidates, as_given).text == text
    assert read.asked == [candidates]


@needs_lingua
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("deu", "DEU"),
        ("chi_sim", "ZHO"),
        ("jpn_vert", "JPN"),
        ("frk", "DEU"),
        ("script/Latin", None),
        ("equ", None),
        ("deu_frak2", None),
    ],
)
def test_languages_are_lingua_s_by_tesseract_s_names(language: str, code: str | None) -> None:
    assert detection.iso_code(language) == code


@needs_lingua
def test_two_names_of_one_language_leave_nothing_to_choose() -> None:
    assert detection.detect(GERMAN, ("frk", "deu")) is None
    assert detection.detect(GERMAN, ("eng", "frk", "deu")) == "frk", "the first of them"


@needs_lingua
def test_what_detects_is_named() -> None:
    assert detection.version().startswith("lingua ")
    detection.require()


def test_without_lingua_it_is_a_missing_language(monkeypatch: pytest.MonkeyPatch) -> None:
    detection._known_codes.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "lingua", None)
    with pytest.raises(OcrFailure, match=r"pip install lingua-language-detector") as failed:
        detection.require()
    assert failed.value.code == "missing_language"
    with pytest.raises(OcrFailure):
        recognise_detecting(Reader({("eng", "deu"): reading(GERMAN)}), ("eng", "deu"), as_given)


# -- with the engine


def umlauts(text: str) -> int:
    return sum(character in "äöüÄÖÜß" for character in text)


@needs_lingua
@pytest.mark.long
def test_every_umlaut_of_a_german_letter_on_a_bad_copy_is_read_and_each_letter_once(engine: TesseractEngine) -> None:
    letters = ((letter(12, "deu", noise=0.8), ("deu", "eng")), (letter(12, "eng", noise=0.8), ("eng", "deu")))
    for drawn, found_in in letters:
        image = PageImage(drawn.image, 300)

        def read(languages: tuple[str, ...], image: PageImage = image) -> Recognised:
            return recognise(engine, image, languages=languages, orientation=True)

        found = recognise_detecting(read, ("eng", "deu"), engine.loading_order)
        assert (found.languages, found.engine_calls) == (found_in, 1)
        assert umlauts(found.text) == umlauts(drawn.text)
        assert character_error_rate(drawn.text, found.text) < 0.002
