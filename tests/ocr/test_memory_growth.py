"""Hundreds of pages in one worker: the memory that it holds stays what it was after the first fifty."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from PIL import Image

from batchproc.engine.node import RunOptions
from batchproc.ops import drawing
from tests.engine.running import Bench, bench_on
from tests.handlers.running_job import add_document
from tests.ocr import drawn, growth_handlers

PAGES = 500
WARM = 50
GROWTH = 1.10
AROUND = 12
LANGUAGES = (["eng"], ["deu"], ["eng", "deu"])


def page(number: int) -> Image.Image:
    """No two are alike, in text or in size."""
    lines = (drawn.ENGLISH, drawn.GERMAN)[number % 2]
    return drawn.page([*lines[:2], f"Page {number} of many"], size=(850 + number % 60, 320 + number % 45))


def scanned_pdf(folder: Path, numbers: range) -> Path:
    path = folder / f"{numbers.start}.pdf"
    drawing.pdf([page(number) for number in numbers], path)
    return path


def digital_pdf(folder: Path, numbers: range) -> Path:
    """Pages with a text layer; the mode `redo` renders and recognises them."""
    path = folder / f"{numbers.start}.digital.pdf"
    sheets = [drawn.PdfPage(drawn.shown(f"Page {n} of many", y=60, points=20), size=(300, 110)) for n in numbers]
    path.write_bytes(drawn.pdf(*sheets))
    return path


def tiff(folder: Path, numbers: range) -> Path:
    path = folder / f"{numbers.start}.tiff"
    first, *others = [page(number).convert("1") for number in numbers]
    first.save(path, "TIFF", compression="group4", dpi=(300, 300), save_all=True, append_images=others)
    return path


def one_page(folder: Path, number: int) -> Path:
    kind = (scanned_pdf, tiff, digital_pdf, png, jpeg)[number % 5]
    return kind(folder, range(number, number + 1))


def png(folder: Path, numbers: range) -> Path:
    path = folder / f"{numbers.start}.png"
    page(numbers.start).save(path, "PNG", dpi=(300, 300))
    return path


def jpeg(folder: Path, numbers: range) -> Path:
    path = folder / f"{numbers.start}.jpeg"
    page(numbers.start).convert("RGB").save(path, "JPEG", dpi=(300, 300))
    return path


def sizes_while_reading(database_url: str, tmp_path: Path, files: Iterable[Path]) -> list[int]:
    """Resident KiB of the only worker after each page, as a node reads the files in the languages by turns."""
    bench: Bench = bench_on(database_url)
    sizes = tmp_path / "sizes"
    with bench.connection:
        tenant = bench.tenant("acme")
        for number, file in enumerate(files):
            args: dict[str, Any] = {
                "document_id": add_document(bench.connection, tenant, file),
                "languages": LANGUAGES[number % len(LANGUAGES)],
                "mode": "redo",
                "sizes": str(sizes),
            }
            bench.enqueue(tenant, "watched_ocr", args)
        report = bench.run(
            RunOptions(workers=1),
            handlers=[growth_handlers.__name__],
            pool={"max_jobs_per_worker": 10 * PAGES},
            ocr={"split_pages": PAGES},
        )
        assert report.counts.codes == {}
        assert bench.rows("select state, count(*) from batchproc.ocr_pages group by state") == [("ocr", PAGES)]
    lines = [line.split() for line in sizes.read_text().splitlines()]
    assert len({process for process, _ in lines}) == 1, "more than one worker read pages"
    return [int(resident) for _, resident in lines]


def assert_steady(sizes: list[int]) -> None:
    """By the median of a few pages, since what a page holds for itself has been given back or not."""
    assert len(sizes) == PAGES
    warm = median(sizes[WARM - AROUND : WARM + AROUND])
    steps = [median(sizes[at : at + 2 * AROUND]) for at in range(WARM, PAGES - 2 * AROUND + 1, AROUND)]
    most, last = max(steps) / warm - 1, steps[-1] / warm - 1
    print(f"after {WARM} pages {warm / 1024:.0f} MiB, then at most {most:+.1%}, at last {last:+.1%}")  # noqa: T201
    assert max(steps) < GROWTH * warm


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("made", [scanned_pdf, digital_pdf, tiff])
def test_a_document_of_hundreds_of_pages(
    database_url: str, tmp_path: Path, made: Callable[[Path, range], Path]
) -> None:
    assert_steady(sizes_while_reading(database_url, tmp_path, [made(tmp_path, range(PAGES))]))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_hundreds_of_documents_of_a_page_in_several_languages(database_url: str, tmp_path: Path) -> None:
    files = [one_page(tmp_path, number) for number in range(PAGES)]
    assert_steady(sizes_while_reading(database_url, tmp_path, files))
