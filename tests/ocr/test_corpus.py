"""Public test files that are not part of the project; skipped where they are absent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.page_text import PageOptions, PageText, read_page
from batchproc.ocr.pages import Source
from batchproc.ocr.recall import word_recall
from batchproc.ocr.source import open_source
from batchproc.ocr.tesseract import TesseractEngine
from tests.ocr.reading import fails_as

REPOSITORY = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("BATCHPROC_TEST_CORPUS", REPOSITORY.parent / "shared" / "corpus"))

pytestmark = pytest.mark.skipif(not (CORPUS / "README.md").exists(), reason="the corpus of public files is not here")

SKIP = PageOptions(("eng", "deu"))
REDO = PageOptions(("eng", "deu"), mode="redo")


@contextmanager
def opened(name: str) -> Iterator[Source]:
    with (CORPUS / name).open("rb") as file:
        source = open_source(file, bounds=Bounds())
        try:
            yield source
        finally:
            source.close()


def read(engine: TesseractEngine, name: str, options: PageOptions = SKIP) -> list[PageText]:
    with opened(name) as source:
        return [read_page(source.page(index), engine, options) for index in range(source.page_count)]


def truth(name: str) -> str:
    return (CORPUS / name).read_text(encoding="utf-8")


def layer(name: str) -> str:
    with opened(name) as source:
        found = source.page(0).text_layer()
    assert found is not None
    return found.text


@pytest.mark.parametrize(
    ("name", "true_text", "recall", "turns"),
    [
        ("phototest.tif", "phototest.gold.txt", 0.99, [0]),
        ("phototest-rotated-180.png", "phototest.gold.txt", 0.95, [180]),
        ("8087_054.3B.tif", "8087_054.3B.txt", 0.94, [0]),
        ("eurotext.tif", "eurotext.txt", 0.85, [0]),
        ("linn.pdf", "linn.txt", 0.95, [0]),
        pytest.param("ccitt.pdf", "linn.txt", 0.95, [0], marks=pytest.mark.long),
        pytest.param("jbig2.pdf", "linn.txt", 0.95, [0], marks=pytest.mark.long),
        pytest.param("skew.pdf", "linn.txt", 0.9, [0], marks=pytest.mark.long),
        pytest.param("cardinal.pdf", "linn.txt", 0.95, [0, 270, 180, 90], marks=pytest.mark.long),
    ],
)
def test_recall_and_orientation(
    engine: TesseractEngine, name: str, true_text: str, recall: float, turns: list[int]
) -> None:
    pages = read(engine, name)
    assert [page.rotation for page in pages] == turns
    for page in pages:
        assert page.state == "ocr"
        assert word_recall(truth(true_text), page.text) >= recall


def test_two_columns_are_not_interleaved(engine: TesseractEngine) -> None:
    (page,) = read(engine, "jbig2.pdf")
    expected, found = truth("linn.txt").split(), page.text.split()
    assert SequenceMatcher(None, expected, found, autojunk=False).ratio() >= 0.9


def test_a_scan_of_a_letter(engine: TesseractEngine) -> None:
    (page,) = read(engine, "jfif.jpg")
    assert word_recall(layer("letter-en.pdf"), page.text) >= 0.98


@pytest.mark.parametrize("name", ["graph_ocred.pdf", "tagged.pdf", "letter-de.pdf", "letter-en.pdf", "signed.pdf"])
def test_a_good_layer_is_kept_without_recognition(engine: TesseractEngine, name: str) -> None:
    pages = read(engine, name)
    assert [page.state for page in pages] == ["text"] * len(pages)
    assert sum(page.seconds for page in pages) < 0.5


@pytest.mark.parametrize(("name", "recall"), [("letter-de.pdf", 0.95), ("letter-en.pdf", 0.95)])
def test_a_good_layer_is_done_again_when_asked(engine: TesseractEngine, name: str, recall: float) -> None:
    (page,) = read(engine, name, REDO)
    assert page.state == "ocr"
    assert word_recall(layer(name), page.text) >= recall


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("no_contents.pdf", ["blank"]),
        ("livecycle.pdf", ["blank"]),
        ("multi-page-images.tiff", ["ocr"] * 3),
        ("multi-page-mixed.pdf", ["ocr"] * 3 + ["text"] * 3),
        ("single-page-mixed.pdf", ["text"] * 2),
        ("simple-no-dpi.png", ["ocr"]),
        ("francais.pdf", ["ocr"]),
        ("rtl-test.pdf", ["text"]),
        ("baiona_cmyk.jpg", ["ocr"]),
        ("12in16bit.tif", ["blank"]),  # noise in the lowest 30 of 65,536 levels
        ("truetype_font_nomapping.pdf", ["ocr"]),
        ("xref_command_missing.pdf", ["text"]),
        ("multipage_single_frame_loop.tiff", ["blank"]),
        pytest.param("multipage.pdf", ["ocr", "ocr", "ocr", "text", "ocr", "ocr"], marks=pytest.mark.long),
    ],
)
def test_every_page_is_read(engine: TesseractEngine, name: str, states: list[str]) -> None:
    pages = read(engine, name)
    assert [page.state for page in pages] == states
    assert all(page.text for page in pages if page.state != "blank")


def test_pages_come_in_order(engine: TesseractEngine) -> None:
    for name in ("multi-page-images.tiff", "multi-page-mixed.pdf"):
        pages = read(engine, name)
        assert [f"Page {number}." in page.text for number, page in enumerate(pages, start=1)] == [True] * len(pages)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("20K-gray.png", "too_large"),
        ("decompression_bomb.gif", "too_large"),
        ("poppler-85140-0.pdf", "too_large"),
        ("password-is-test.pdf", "encrypted"),
        ("invalid.pdf", "unreadable_file"),
        ("half.pdf", "unreadable_file"),
        ("zero-byte.pdf", "empty_file"),
        ("text-named.pdf", "unsupported_type"),
    ],
)
def test_bad_files_have_their_code(name: str, code: str) -> None:
    started = time.process_time()
    with fails_as(code), opened(name):
        pass
    assert time.process_time() - started < 5


def test_a_password_opens() -> None:
    with (CORPUS / "password-is-test.pdf").open("rb") as file:
        source = open_source(file, bounds=Bounds(), password="test")
        assert source.page(0).text_layer() is not None
        source.close()
        with fails_as("encrypted"):
            open_source(file, bounds=Bounds(), password="no")


def test_a_circular_page_tree_ends(engine: TesseractEngine) -> None:
    with opened("circular-page-tree.pdf") as source:
        assert read_page(source.page(0), engine, SKIP).state == "blank"
        for index in range(1, source.page_count):
            with fails_as("unreadable_file"):
                source.page(index)
