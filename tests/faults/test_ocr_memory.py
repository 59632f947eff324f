"""OCR with too little memory, at every size: the whole right text, or a failure; never an empty or a shorter text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from PIL import Image

from batchproc.engine.node import RunOptions
from batchproc.ops.drawing import documents
from tests.engine.running import Bench
from tests.faults import memory_handlers
from tests.handlers.running_job import add_document
from tests.ocr import drawn

PLENTY_KB = 4 << 20


def _png(folder: Path, image: Image.Image) -> Path:
    documents.save_png(image, folder / "page.png")
    return folder / "page.png"


def _tiff(folder: Path, image: Image.Image) -> Path:
    image.convert("1").save(folder / "page.tiff", compression="group4", dpi=(300, 300))
    return folder / "page.tiff"


def _jpeg(folder: Path, image: Image.Image) -> Path:
    image.convert("RGB").save(folder / "page.jpeg", dpi=(300, 300))
    return folder / "page.jpeg"


def _scanned_pdf(folder: Path, image: Image.Image) -> Path:
    documents.pdf([image], folder / "page.pdf")
    return folder / "page.pdf"


KINDS = (_png, _tiff, _jpeg, _scanned_pdf)


def read_within(bench: Bench, file: Path, rooms_kb: Iterable[int]) -> dict[int, tuple[str, str | None, list[str]]]:
    """State, failure code and stored text of one job for each size, and one that has plenty."""
    jobs = {}
    for room in [PLENTY_KB, *rooms_kb]:
        tenant = bench.tenant(f"{file.suffix[1:]}-{room}")
        args = {"document_id": add_document(bench.connection, tenant, file), "room_kb": room}
        jobs[room] = bench.enqueue(tenant, "m_ocr_within", args, max_attempts=1)
    bench.run(RunOptions(workers=2), handlers=[memory_handlers.__name__])
    return {room: (*_ending(bench, job), _stored(bench, job)) for room, job in jobs.items()}


def _ending(bench: Bench, job: int) -> tuple[str, str | None]:
    [[state, code]] = bench.rows("select state, failure_code from batchproc.processing_jobs where job_id = %s", job)
    return state, code


def _stored(bench: Bench, job: int) -> list[str]:
    """The pages of the document's current revision; empty without one."""
    pages = bench.rows(
        """
        select p.text from batchproc.processing_jobs j
        join batchproc.documents d on d.document_id = (j.args ->> 'document_id')::bigint
        join batchproc.ocr_pages p on p.revision_id = d.current_revision
        where j.job_id = %s order by p.page
        """,
        job,
    )
    return [text for (text,) in pages]


def assert_all_or_nothing(endings: dict[int, tuple[str, str | None, list[str]]]) -> None:
    right = endings[PLENTY_KB]
    assert right[0] == "completed"
    assert len(right[2][0].split()) >= 14
    wrong = {
        room: ending for room, ending in endings.items() if ending not in (right, ("discarded", "out_of_memory", []))
    }
    assert not wrong
    assert {state for state, _, _ in endings.values()} == {"completed", "discarded"}


@pytest.mark.parametrize("save", [_png, _scanned_pdf])
def test_a_small_page_in_little_memory(bench: Bench, tmp_path: Path, save: Callable[[Path, Image.Image], Path]) -> None:
    file = save(tmp_path, drawn.page())

    assert_all_or_nothing(read_within(bench, file, range(0, 96 << 10, 8 << 10)))


@pytest.mark.long
@pytest.mark.parametrize("save", KINDS)
def test_a_letter_in_little_memory(bench: Bench, tmp_path: Path, save: Callable[[Path, Image.Image], Path]) -> None:
    file = save(tmp_path, documents.letter(3, paragraphs=1).image)

    assert_all_or_nothing(read_within(bench, file, range(0, 240 << 10, 3 << 10)))
