"""Public test files that are not part of the project, and files made of them; skipped where they are absent."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from PIL import Image

from batchproc.cli import main
from batchproc.engine.node import RunOptions
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import FAILURE_CODES, OcrFailure
from batchproc.ocr.page_text import read_page
from batchproc.ocr.recall import word_recall
from batchproc.ocr.source import open_source
from batchproc.ocr.tesseract import TesseractEngine
from tests.engine.running import bench_on
from tests.ocr import corpus, drawn
from tests.ocr.corpus import CORPUS, REDO, ROWS, SKIP, Row
from tests.ocr.reading import fails_as

pytestmark = pytest.mark.skipif(not (CORPUS / "README.md").exists(), reason="the corpus of public files is not here")

SOUND = [row for row in ROWS if isinstance(row.pages, tuple)]
REFUSED = [row for row in ROWS if isinstance(row.pages, str)]
NAMED = FAILURE_CODES - {"missing_language", "engine_failed"}


def truth(name: str) -> str:
    return (CORPUS / name).read_text(encoding="utf-8")


def test_every_file_that_is_described_is_tried() -> None:
    assert {row.name for row in ROWS} == corpus.listed()


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=f"{row.name}-{row.mode}", marks=[pytest.mark.long] if row.slow else []) for row in SOUND],
)
def test_the_right_outcome(engine: TesseractEngine, row: Row) -> None:
    found = corpus.read(engine, row.name, REDO if row.mode == "redo" else SKIP)
    print(corpus.line(row, found))  # noqa: T201  # the table, with -s
    assert corpus.problems(row, found) == []


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_bad_files_have_their_code(row: Row) -> None:
    started = time.process_time()
    with fails_as(str(row.pages)), corpus.opened(row.name):
        pass
    assert time.process_time() - started < 5


def test_two_columns_are_not_interleaved(engine: TesseractEngine) -> None:
    (page,) = corpus.read(engine, "jbig2.pdf").texts
    expected, found = truth("linn.txt").split(), page.text.split()
    assert SequenceMatcher(None, expected, found, autojunk=False).ratio() >= 0.9


@pytest.mark.parametrize("name", ["graph_ocred.pdf", "tagged.pdf", "letter-de.pdf", "letter-en.pdf"])
def test_a_good_layer_is_kept_without_recognition(engine: TesseractEngine, name: str) -> None:
    pages = corpus.read(engine, name).texts
    assert [page.engine_calls for page in pages] == [0] * len(pages)
    assert sum(page.seconds for page in pages) < 0.5


def test_pages_come_in_order(engine: TesseractEngine) -> None:
    for name in ("multi-page-images.tiff", "multi-page-mixed.pdf"):
        pages = corpus.read(engine, name).texts
        assert [f"Page {number}." in page.text for number, page in enumerate(pages, start=1)] == [True] * len(pages)


def test_neither_digital_text_nor_that_of_images_is_lost(engine: TesseractEngine) -> None:
    kept, seen = (corpus.read(engine, "single-page-mixed.pdf", options).texts for options in (SKIP, REDO))
    for one, other in zip(kept, seen, strict=True):
        assert word_recall(other.text, one.text) >= 0.9


def test_a_password_opens() -> None:
    with (CORPUS / "password-is-test.pdf").open("rb") as file:
        with closing(open_source(file, bounds=Bounds(), passwords=lambda: ["no", "test"])) as source:
            assert source.page(0).text_layer() is not None
        with fails_as("encrypted"):
            open_source(file, bounds=Bounds(), passwords=lambda: ["no"])


# -- other files of these kinds


def converted(kind: str, **options: object) -> Callable[[Image.Image], bytes]:
    return lambda image: drawn.saved(image, kind, **options)


VARIATIONS: dict[str, Callable[[Image.Image], bytes]] = {
    "PNG": converted("PNG"),
    "palette": lambda image: drawn.saved(image.convert("RGB").quantize(8), "PNG"),
    "half transparent": lambda image: drawn.saved(image.convert("RGBA"), "PNG"),
    "JPEG": converted("JPEG", quality=60),
    "ink": lambda image: drawn.saved(image.convert("RGB").convert("CMYK"), "JPEG"),
    "JPEG 2000": converted("JPEG2000"),
    "codestream": converted("JPEG2000", no_jp2=True),
    "WebP": converted("WEBP", quality=60),
    "GIF": converted("GIF"),
    "BMP": converted("BMP"),
    "G3": lambda image: drawn.saved(image.convert("1"), "TIFF", compression="group3"),
    "G4": lambda image: drawn.saved(image.convert("1"), "TIFF", compression="group4"),
    "LZW": converted("TIFF", compression="tiff_lzw"),
    "JPEG in TIFF": converted("TIFF", compression="jpeg"),
    "16 bits": lambda image: drawn.saved(image.convert("I").point(lambda v: v * 257 + 0.0).convert("I;16"), "TIFF"),
    "PDF": converted("PDF", resolution=200),
    "on its side, by EXIF": lambda image: drawn.saved(
        image.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=turned(6)
    ),
    "on its head, by EXIF": lambda image: drawn.saved(
        image.transpose(Image.Transpose.ROTATE_180), "PNG", exif=turned(3)
    ),
    "one dpi": converted("PNG", dpi=(1, 1)),
    "a camera's 72 dpi": lambda image: drawn.saved(image.resize((2600, 1740)), "JPEG", dpi=(72, 72)),
}


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[274] = orientation
    return exif


@pytest.mark.long
@pytest.mark.parametrize("kind", VARIATIONS)
def test_the_same_page_in_other_kinds_of_files(engine: TesseractEngine, kind: str) -> None:
    with Image.open(CORPUS / "phototest.tif") as image:
        data = VARIATIONS[kind](image.convert("L"))
    with closing(open_source(io.BytesIO(data), bounds=Bounds())) as source:
        page = read_page(source.page(0), engine, SKIP)
    recall = word_recall(truth("phototest.gold.txt"), page.text)
    print(f"{kind:24} {recall:.3f} {page.dpi} {'estimated' if page.dpi_estimated else ''}")  # noqa: T201
    assert recall >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({row.name for row in SOUND}))
def test_cut_off_and_scribbled_over(name: str) -> None:
    """Whatever is left of a file is read, or fails by name."""
    whole = (CORPUS / name).read_bytes()
    for part in range(1, 10):
        end = len(whole) * part // 10
        for data in (whole[:end], whole[:end] + bytes(40) + whole[end + 40 :], whole[:end] + whole[end + 999 :]):
            codes = set()
            try:
                with closing(open_source(io.BytesIO(data), bounds=Bounds())) as source:
                    for index in range(min(3, source.page_count)):
                        try:
                            source.page(index).image(70)
                        except OcrFailure as failure:
                            codes.add(failure.code)
            except OcrFailure as failure:
                codes.add(failure.code)
            assert codes <= NAMED


# -- and all of them through import and a run


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_archive_of_all_files(database_url: str) -> None:
    expected = {row.name: row for row in ROWS if row.mode == "skip"}
    before = {name: (CORPUS / name).read_bytes() for name in expected}
    bench = bench_on(database_url)
    with bench.connection:
        bench.tenant("acme")
        files = [str(CORPUS / name) for name in expected]
        assert main.run(["--database", bench.url, "import", *files, "--tenant", "acme"]) == 0
        bench.run(RunOptions(workers=2))
        documents = bench.rows(
            """
            select convert_from(d.path, 'UTF8'), d.status, j.failure_code, d.flags, j.attempt,
                   (select array_agg(coalesce(p.failure_code, p.state) order by p.page) from batchproc.ocr_pages p
                    where p.revision_id = d.current_revision)
            from batchproc.documents d join batchproc.processing_jobs j using (document_id) where j.kind = 'ocr'
            """
        )
    assert len(documents) == len(expected)
    for path, status, code, flags, attempts, pages in documents:
        row = expected[Path(path).name]
        broken = "unreadable_file" in row.pages
        wanted = "failed" if isinstance(row.pages, str) else "partial" if broken else "completed"
        print(f"{row.name:34} {status:10} {code or '':18} {' '.join(pages or [])} {','.join(flags)}")  # noqa: T201
        outcome = Row(row.name, code or tuple(pages or ()), flags=tuple(flags))
        assert (status, attempts, outcome) == (wanted, 1, replace(Row(row.name, row.pages), flags=row.flags))
    assert {name: (CORPUS / name).read_bytes() for name in expected} == before
