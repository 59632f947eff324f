from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from batchproc.ocr import tesseract
from batchproc.ocr.engine import Orientation, require_languages
from batchproc.ocr.recall import word_recall
from batchproc.ocr.tessdata import Tessdata, default_folder
from batchproc.ocr.tesseract import MAX_LOADED, TesseractEngine, loading_order
from batchproc.ops import drawing
from tests.ocr import drawn
from tests.ocr.reading import fails_as

Folders = Callable[..., list[Path]]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Makes a folder of language files for each argument, a comma-separated list of languages."""

    def make(*lists: str) -> list[Path]:
        made = []
        for number, names in enumerate(lists):
            folder = tmp_path / str(number)
            folder.mkdir()
            for name in names.split(","):
                (folder / f"{name}.traineddata").symlink_to(default_folder() / f"{name}.traineddata")
            made.append(folder)
        return made

    return make


def test_words_confidence_and_version(engine: TesseractEngine) -> None:
    found = engine.recognise(drawn.page(), dpi=300, languages=("eng",))
    assert word_recall(" ".join(drawn.ENGLISH), found.text) == 1.0
    assert found.confidence is not None
    assert 80 <= found.confidence <= 100
    assert (found.words, found.rotation) == (14, 0)
    assert engine.name == "tesseract"
    assert engine.version[0].isdigit()
    assert {"eng", "deu"} <= engine.languages()
    assert "osd" not in engine.languages()


def test_german_umlauts(engine: TesseractEngine) -> None:
    found = engine.recognise(drawn.page(drawn.GERMAN), dpi=300, languages=("deu",))
    assert word_recall(" ".join(drawn.GERMAN), found.text) == 1.0


def test_umlauts_are_not_lost_to_english_first(engine: TesseractEngine) -> None:
    letter = drawing.letter(7, "deu")
    found = engine.recognise(letter.image, dpi=300, languages=("eng", "deu"))
    for umlaut in "äöüßÄÖÜ":
        assert found.text.count(umlaut) == letter.text.count(umlaut)
    assert loading_order(("eng", "deu", "fra")) == ("deu", "fra", "eng")
    assert loading_order(("fra", "deu")) == ("fra", "deu")


def test_white_around_the_ink_changes_neither_words_nor_places(engine: TesseractEngine) -> None:
    small = drawn.page()
    large = Image.new("L", (small.width + 1500, small.height + 900), 255)
    large.paste(small, (1000, 600))
    near, far = (engine.recognise(image, dpi=300, languages=("eng",), layout=True) for image in (small, large))
    assert near.text == far.text
    assert near.layout is not None
    assert far.layout is not None
    places = [
        [(word.box.left, word.box.top) for line in found.layout.lines for word in line.words]
        for found in (near, far)
        if found.layout is not None
    ]
    assert [(left + 1000, top + 600) for left, top in places[0]] == places[1]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, int], int]]:
    """Size and resolution of what Tesseract was shown, each time."""
    sizes: list[tuple[tuple[int, int], int]] = []
    show = tesseract._show

    def noted(api: object, image: Image.Image, dpi: int) -> None:
        sizes.append((image.size, dpi))
        show(api, image, dpi)

    monkeypatch.setattr(tesseract, "_show", noted)
    return sizes


def test_large_print_is_reduced_to_what_is_legible_and_its_words_stay_where_they_are(
    engine: TesseractEngine, shown: list[tuple[tuple[int, int], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = drawing.letter(2)
    reduced = engine.recognise(letter.image, dpi=300, languages=("eng", "deu"), layout=True)
    monkeypatch.setattr(tesseract, "LATIN", frozenset())
    whole = engine.recognise(letter.image, dpi=300, languages=("eng", "deu"), layout=True)
    (small, small_dpi), (large, large_dpi) = shown
    assert large_dpi == 300
    assert small_dpi / 300 == pytest.approx(small[0] / large[0], abs=0.01)
    assert tesseract.SMALLEST <= small[0] / large[0] <= tesseract.WORTH_IT
    assert reduced.text == whole.text
    assert reduced.layout is not None
    assert whole.layout is not None
    assert reduced.layout.size == whole.layout.size == letter.image.size
    places = [[word.box for line in found.lines for word in line.words] for found in (reduced.layout, whole.layout)]
    moved = [max(abs(one.left - other.left), abs(one.top - other.top)) for one, other in zip(*places, strict=True)]
    assert sorted(moved)[len(moved) * 95 // 100] <= 8, "a third of a letter"


def test_print_that_is_only_just_legible_is_read_as_it_is(
    engine: TesseractEngine, shown: list[tuple[tuple[int, int], int]]
) -> None:
    letter = drawing.letter(2, dpi=200)
    assert word_recall(letter.text, engine.recognise(letter.image, dpi=200, languages=("eng",)).text) > 0.99
    assert [dpi for _, dpi in shown] == [200]


@pytest.mark.parametrize("language", ["chi_sim", "vie", "eng"])
def test_only_letters_with_an_x_height_are_reduced(language: str) -> None:
    image = drawing.letter(2).image
    scale = tesseract._as_small_as_it_reads(image, 300, ("deu", language))[1]
    assert (scale < 1.0) == (language == "eng")


def test_nothing_to_read_has_no_confidence(engine: TesseractEngine) -> None:
    found = engine.recognise(drawn.page([]), dpi=300, languages=("eng",))
    assert (found.text, found.confidence, found.words) == ("", None, 0)


def test_the_engine_prints_nothing(engine: TesseractEngine, capfd: pytest.CaptureFixture[str]) -> None:
    for size in ((1, 1), (2, 400), (400, 2)):
        engine.recognise(drawn.page([], size=size), dpi=300, languages=("eng",))
        engine.orientation(drawn.page([], size=size), 300)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("languages", [("deu", "fra"), ("../eng",), ("eng+deu",), ("",), ()])
def test_a_language_without_data_is_named_and_never_dropped(
    engine: TesseractEngine, languages: tuple[str, ...]
) -> None:
    with fails_as("missing_language"):
        engine.recognise(drawn.page(), dpi=300, languages=languages)


def test_languages_can_be_checked_before_the_first_page(engine: TesseractEngine) -> None:
    require_languages(engine, ("eng", "deu"))
    with fails_as("missing_language"):
        require_languages(engine, ("eng", "fra"))


def test_damaged_data_is_a_missing_language(folders: Folders) -> None:
    (folder,) = folders("eng")
    (folder / "deu.traineddata").write_bytes(b"not what it seems")
    engine = TesseractEngine([folder])
    try:
        with fails_as("missing_language"):
            engine.recognise(drawn.page(), dpi=300, languages=("eng", "deu"))
    finally:
        engine.close()


def test_languages_of_several_folders_work_together(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TesseractEngine(folders("eng,osd", "deu"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    found = engine.recognise(drawn.page(drawn.GERMAN), dpi=300, languages=("eng", "deu"))
    engine.close()
    assert "Bäume" in found.text
    assert list(scratch.iterdir()) == []


def test_the_first_folder_that_has_a_language_counts(folders: Folders) -> None:
    first, second = folders("deu", "eng")
    (first / "eng.traineddata").write_bytes(b"another")
    assert Tessdata([first, second]).hash_of(["eng"]) != Tessdata([second, first]).hash_of(["eng"])


def test_the_hash_is_of_the_languages_used(folders: Folders) -> None:
    small, large = folders("eng", "eng,deu")
    assert Tessdata([small]).hash_of(["eng"]) == Tessdata([large]).hash_of(["eng"])
    assert Tessdata([large]).hash_of(["eng", "deu"]) == Tessdata([large]).hash_of(["deu", "eng"])
    assert Tessdata([large]).hash_of(["eng"]) != Tessdata([large]).hash_of(["deu"])


def test_only_the_latest_language_sets_stay_loaded(folders: Folders) -> None:
    engine = TesseractEngine(folders("eng,deu"))
    tiny = drawn.page([], size=(50, 50))
    sets = [("eng",), ("deu",), ("eng", "deu"), ("deu", "eng")]
    assert len(sets) > MAX_LOADED
    for languages in [*sets, *sets]:
        engine.recognise(tiny, dpi=300, languages=languages)
    assert list(engine._loaded) == sets[-MAX_LOADED:]
    engine.close()
    engine.close()
    assert engine.recognise(tiny, dpi=300, languages=("eng",)).words == 0
    engine.close()


def test_the_orientation_is_the_turn_that_makes_it_upright(engine: TesseractEngine) -> None:
    lines = [*drawn.ENGLISH, *drawn.ENGLISH]
    image = drawn.page(lines, size=(900, 600)).rotate(180)
    found = engine.orientation(image, 300)
    assert isinstance(found, Orientation)
    assert found.degrees == 180


def test_without_its_data_there_is_no_orientation(folders: Folders) -> None:
    engine = TesseractEngine(folders("eng"))
    assert engine.orientation(drawn.page(), 300) is None
