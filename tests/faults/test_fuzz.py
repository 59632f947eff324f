"""Broken documents, by the hundred, through import and a real run: a document may fail, by name, and never the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from batchproc.engine.node import RunOptions
from batchproc.ocr.errors import FAILURE_CODES, OcrFailure
from tests.engine.running import Bench
from tests.faults import bombs, mutations
from tests.faults.bombs import BOMBS
from tests.faults.mutations import Mutant
from tests.faults.originals import prints
from tests.ocr import drawn
from tests.ocr.reading import opened

NAMED = FAILURE_CODES - {"missing_language", "engine_failed"}
"""What may be wrong with a broken document. That it hung, crashed or took all memory is for the readers to mend."""

CHEAP_OCR = {"languages": ["eng"], "dpi": 70, "orientation": False}
LIMITS: dict[str, Any] = {"timeout": 60.0, "stall_timeout": 20.0, "base": 0.01, "cap": 0.01}
MEMORY_LIMIT_MB = 700


@dataclass(frozen=True)
class Ending:
    """How the OCR of one file ended."""

    name: str
    state: str
    failure_code: str | None
    error_types: list[str | None]
    attempts: int


def endings(bench: Bench, folder: Path, files: Iterable[Mutant], **limits: Any) -> list[Ending]:
    """Imports the files, runs their jobs, and tells how each ended."""
    folder.mkdir()
    for file in files:
        (folder / file.name[:200]).write_bytes(file.data)
    before = prints(folder)
    bench.tenant("acme")
    assert main.run(["--database", bench.url, "import", str(folder), "--tenant", "acme"]) == 0

    bench.run(
        RunOptions(workers=2),
        ocr=CHEAP_OCR,
        kinds={"ocr": LIMITS | limits},
        pool={"memory_limit_mb": MEMORY_LIMIT_MB},
        dispatch={"brake": False},
    )

    assert prints(folder) == before
    rows = bench.rows(
        "select convert_from(d.path, 'UTF8'), j.state, j.failure_code, j.attempt, j.job_id"
        " from batchproc.processing_jobs j join batchproc.documents d using (document_id) where j.kind = 'ocr'"
    )
    return [
        Ending(name, state, code, [attempt["error_type"] for attempt in bench.job(job)["attempts"]], attempts)
        for name, state, code, attempts, job in rows
    ]


def assert_named(found: list[Ending], at_least: int) -> None:
    """Each was read, or failed at the first attempt with a code about its content."""
    assert len(found) >= at_least  # some mutations make equal files, and those are one document
    assert [ending for ending in found if ending.state not in ("completed", "discarded")] == []
    odd = [ending for ending in found if ending.state == "discarded" and ending.failure_code not in NAMED]
    assert odd == []
    assert [ending for ending in found if ending.attempts != 1] == []
    counted = Counter(ending.failure_code for ending in found)
    assert min(counted[None], counted["unreadable_file"]) > 0, f"these test nothing: {counted}"


def test_broken_documents_fail_by_name(bench: Bench, tmp_path: Path) -> None:
    assert_named(endings(bench, tmp_path / "broken", map(mutations.mutant, range(50))), at_least=40)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_very_many_broken_documents_fail_by_name(bench: Bench, tmp_path: Path) -> None:
    assert_named(endings(bench, tmp_path / "broken", map(mutations.mutant, range(1000, 2500))), at_least=1300)


QUICK_BOMBS = (bombs.circular_page_tree, bombs.huge_sheet, bombs.looping_tiff, bombs.promised_pages)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(QUICK_BOMBS, id="quick"),
        pytest.param(BOMBS, id="all", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_bombs_end_their_own_document_alone(
    bench: Bench, tmp_path: Path, chosen: tuple[Callable[[], bytes], ...]
) -> None:
    """What takes all memory or time is killed; its page is given up when that happened twice."""
    sound = drawn.pdf(drawn.PdfPage(drawn.shown("A letter")))
    files = [*(Mutant(make.__name__, make()) for make in chosen), Mutant("sound", sound)]

    found = {ending.name: ending for ending in endings(bench, tmp_path / "bombs", files, stall_timeout=5.0)}

    assert len(found) == len(files)
    assert found["sound"].state == "completed"
    codes = {name: ending.failure_code for name, ending in found.items() if ending.state != "completed"}
    assert set(codes.values()) <= NAMED | {"poison", "stalled", "out_of_memory"}
    assert {ending.state for ending in found.values()} <= {"completed", "discarded"}
    expected = {"circular_page_tree": "unreadable_file", "huge_sheet": "too_large", "huge_image": "too_large"}
    expected |= {"very_many_frames": "too_large"}
    assert codes.items() >= {name: code for name, code in expected.items() if name in found}.items()
    # Which comes first depends on the machine.
    assert "form_within_itself" not in found or codes["form_within_itself"] in ("stalled", "out_of_memory")


def test_the_same_seed_breaks_alike() -> None:
    for seed in range(40):
        assert mutations.mutant(seed) == mutations.mutant(seed)
    assert len({mutations.mutant(seed).data for seed in range(200)}) > 170


def test_what_is_broken_was_sound_before() -> None:
    assert [name for name, data in mutations.seeds().items() if not _pages(data)] == []


@pytest.mark.parametrize(
    "name", ["scan.pdf", "text.pdf", "fax.tif", "raw.tif", "grey.png", "grey.jpg", "pages.gif", "plain.webp"]
)
def test_cut_off_anywhere(name: str) -> None:
    """At every length up to the first kilobyte, and some beyond."""
    data = mutations.seeds()[name]
    lengths = [*range(1, min(1024, len(data)), 7), *range(1024, len(data), len(data) // 40 or 1)]
    for length in lengths:
        _pages(data[:length])


def _pages(data: bytes) -> int:
    """The pages that can be read; what cannot fails as an OcrFailure, which is all that may come."""
    failures: list[OcrFailure] = []
    read = 0
    try:
        with opened(data) as source:
            for index in range(min(source.page_count, 5)):
                try:
                    page = source.page(index)
                    page.text_layer()
                    page.image(70)
                    read += 1
                except OcrFailure as failure:
                    failures.append(failure)
    except OcrFailure as failure:
        failures.append(failure)
    assert {failure.code for failure in failures} <= NAMED
    return read
