"""Pages that stop their worker: done pages are kept, bad ones are named and passed. Counted by calls of the engine."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.engine.running import Bench
from tests.faults import page_handlers
from tests.faults.command import Run, await_end_of_leases, started_run
from tests.handlers.running_job import add_document
from tests.waiting import wait_until

_FONT = ImageFont.load_default(40)
_QUICK = {"base": 0.1, "cap": 0.2}


def scan(folder: Path, pages: int) -> Path:
    """A file of small pages that say their numbers."""
    drawn = []
    for number in range(1, pages + 1):
        image = Image.new("L", (320, 120), 255)
        ImageDraw.Draw(image).text((30, 30), f"Page {number}", font=_FONT, fill=0)
        drawn.append(image)
    file = folder / "scan.tif"
    drawn[0].save(file, save_all=True, append_images=drawn[1:], dpi=(300, 300))
    return file


@dataclass
class Scan:
    """A document with a job on it, run by the real command with bad pages."""

    bench: Bench
    folder: Path
    pages: int
    faults: dict[int, list[str]] = field(default_factory=dict)
    kinds: dict[str, Any] = field(default_factory=dict)
    split_pages: int = 1000
    workers: int = 1

    def __post_init__(self) -> None:
        self.calls_file = self.folder / "calls"
        self.tenant = self.bench.tenant("acme")
        self.document = add_document(self.bench.connection, self.tenant, scan(self.folder, self.pages))
        self.job = self.enqueue()

    def enqueue(self, **args: Any) -> int:
        return self.bench.enqueue(self.tenant, "ocr", args, document_id=self.document)

    def started(self) -> AbstractContextManager[Run]:
        """The command ``run``, started."""
        environment = {
            page_handlers.CALLS: str(self.calls_file),
            page_handlers.FAULTS: json.dumps(self.faults),
        }
        return started_run(
            self.bench,
            "--workers",
            str(self.workers),
            handlers=[page_handlers.MODULE],
            environment=environment,
            ocr={"languages": ["eng"], "split_pages": self.split_pages},
            kinds={"ocr": {**_QUICK, **self.kinds}},
            pool={"memory_limit_mb": 700},
        )

    def run(self, deadline_seconds: float = 60.0) -> int:
        with self.started() as run:
            return run.wait(deadline_seconds)

    def wait_for_call(self, page: int, times: int = 1, deadline_seconds: float = 60.0) -> int:
        """The pid of the worker that is at that page, for the first time or so many."""

        def at_page() -> int | None:
            pids = [pid for number, pid in page_handlers.calls_in(self.calls_file) if number == page]
            return pids[-1] if len(pids) == times else None

        return wait_until(at_page, deadline_seconds, f"page {page} is begun")

    def calls(self) -> Counter[int]:
        """How often the engine was called for each page."""
        return Counter(page for page, _ in page_handlers.calls_in(self.calls_file))

    def text(self) -> list[str]:
        rows = self.bench.rows(
            "select trim(p.text, E'\\n ') from batchproc.documents d"
            " join batchproc.ocr_pages p on p.revision_id = d.current_revision"
            " where d.document_id = %s order by p.page",
            self.document,
        )
        return [row[0] for row in rows]

    def status(self) -> str:
        [[status]] = self.bench.rows("select status from batchproc.documents where document_id = %s", self.document)
        return str(status)

    def open_pages(self) -> list[tuple[int, str, str | None]]:
        """(page, state, code) of the open revision."""
        rows = self.bench.rows(
            "select p.page, p.state, p.failure_code from batchproc.ocr_revisions r"
            " join batchproc.ocr_pages p using (revision_id)"
            " where r.document_id = %s and r.state = 'open' order by p.page",
            self.document,
        )
        return [tuple(row) for row in rows]

    def attempts(self, job: int | None = None) -> list[tuple[str, str | None]]:
        """(outcome, class) of each attempt."""
        rows = self.bench.rows(
            "select outcome, error_class from batchproc.job_attempts where job_id = %s order by ended_at",
            job or self.job,
        )
        return [tuple(row) for row in rows]

    def failed(self, job: int | None = None) -> dict[int, str]:
        """The failed pages by the job's result, which the document's own have to agree with."""
        [[result]] = self.bench.rows("select result from batchproc.processing_jobs where job_id = %s", job or self.job)
        named = {page["page"]: page["code"] for page in result["failed_pages"]}
        stored = self.bench.rows(
            "select p.page, p.failure_code from batchproc.documents d"
            " join batchproc.ocr_pages p on p.revision_id = d.current_revision"
            " where d.document_id = %s and p.state = 'failed'",
            self.document,
        )
        assert dict(stored) == named
        return named


def expected(pages: int, without: set[int] | None = None) -> list[str]:
    return ["" if number in (without or ()) else f"Page {number}" for number in range(1, pages + 1)]


@pytest.mark.parametrize("pages", [12, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("victim", ["worker", "node"])
def test_a_killed_document_goes_on_at_the_page_it_was_at(bench: Bench, tmp_path: Path, pages: int, victim: str) -> None:
    at = 217 if pages == 400 else 7
    document = Scan(bench, tmp_path, pages, {at: ["wait"]})
    with document.started() as run:
        worker = document.wait_for_call(at)
        before = document.calls()
        if victim == "worker":
            os.kill(worker, signal.SIGKILL)
            assert run.wait(60) == 0
        else:
            run.kill_node()
            assert run.wait(60) == 3
    if victim == "node":
        await_end_of_leases(bench)
        assert document.run() == 0

    assert before == Counter(range(1, at + 1))
    assert document.calls() - before == Counter(range(at, pages + 1))
    assert document.text() == expected(pages)
    assert document.status() == "completed"
    assert document.attempts() == [
        ("failed", "crashed" if victim == "worker" else "lease_expired"),
        ("completed", None),
    ]


@dataclass(frozen=True)
class Bad:
    """A way to be bad, the limits of its kind, and the code of the page."""

    way: str
    code: str
    limits: dict[str, Any]


BAD = [
    Bad("hang", "stalled", {"stall_timeout": 1.0}),
    Bad("be_killed", "poison", {}),
]
MORE_BAD = [
    Bad("hang", "timeout", {"timeout": 3, "stall_timeout": 60}),
    Bad("die", "poison", {}),
    Bad("grow", "out_of_memory", {}),
    Bad("fail", "page_failed", {}),
]


def named(bad: Bad) -> str:
    return f"{bad.way}-{bad.code}"


@pytest.mark.parametrize("bad", [*BAD, *(pytest.param(bad, marks=pytest.mark.long) for bad in MORE_BAD)], ids=named)
def test_a_page_that_ends_two_attempts_is_failed_by_name_and_passed(bench: Bench, tmp_path: Path, bad: Bad) -> None:
    document = Scan(bench, tmp_path, 3, {2: [bad.way] * 9}, bad.limits)
    assert document.run() == 1
    assert document.failed() == {2: bad.code}
    assert document.calls() == {1: 1, 2: 2, 3: 1}
    assert document.text() == ["Page 1", "", "Page 3"]
    assert document.status() == "partial"
    assert [outcome for outcome, _ in document.attempts()] == ["failed", "failed", "completed"]


def test_a_page_is_not_blamed_for_a_full_disk(bench: Bench, tmp_path: Path) -> None:
    document = Scan(bench, tmp_path, 3, {2: ["fill_disk", "fill_disk"]})
    assert document.run() == 0
    assert document.text() == expected(3)
    assert document.calls() == {1: 1, 2: 3, 3: 1}
    assert document.status() == "completed"


@pytest.mark.long
def test_any_number_of_bad_pages_in_a_row_is_passed(bench: Bench, tmp_path: Path) -> None:
    ways = ["hang", "die"]
    document = Scan(bench, tmp_path, 8, {page: [ways[page % 2]] * 9 for page in range(2, 8)}, {"stall_timeout": 1.0})
    assert document.run() == 1
    assert document.failed() == {page: "poison" if page % 2 else "stalled" for page in range(2, 8)}
    assert document.calls() == {1: 1, 8: 1} | dict.fromkeys(range(2, 8), 2)


@pytest.mark.long
def test_the_page_is_failed_although_its_job_ends_there(bench: Bench, tmp_path: Path) -> None:
    document = Scan(bench, tmp_path, 3, {2: ["die"] * 9}, {"max_crashes": 1})
    assert document.run() == 1
    second = document.enqueue()
    assert document.run() == 1
    assert document.attempts() == document.attempts(second) == [("failed", "crashed")]
    assert document.open_pages() == [(1, "ocr", None), (2, "failed", "poison")]

    third = document.enqueue()
    assert document.run() == 1
    assert document.failed(third) == {2: "poison"}
    assert document.calls() == {1: 1, 2: 2, 3: 1}


@pytest.mark.long
def test_a_document_of_one_bad_page_fails_with_its_code(bench: Bench, tmp_path: Path) -> None:
    document = Scan(bench, tmp_path, 1, {1: ["hang"] * 9}, {"stall_timeout": 1.0})
    assert document.run() == 1
    assert bench.job(document.job)["failure_code"] == "stalled"
    assert document.status() == "failed"
    assert document.calls() == {1: 2}


@pytest.mark.long
def test_a_page_is_not_blamed_for_the_end_of_its_node(bench: Bench, tmp_path: Path) -> None:
    document = Scan(bench, tmp_path, 3, {2: ["die", "wait"]})
    with document.started() as run:
        document.wait_for_call(2, 2)
        run.kill_node()
        assert run.wait(60) == 3
    await_end_of_leases(bench)
    assert document.run() == 0
    assert document.text() == expected(3)
    assert document.calls() == {1: 1, 2: 3, 3: 1}


@pytest.mark.long
def test_the_failed_pages_alone_are_read_again(bench: Bench, tmp_path: Path) -> None:
    document = Scan(bench, tmp_path, 5, {2: ["die"] * 2, 4: ["die"] * 4})
    assert document.run() == 1
    assert document.failed() == {2: "poison", 4: "poison"}
    before = document.calls()

    again = document.enqueue(pages="failed")
    assert document.run() == 1
    assert document.failed(again) == {4: "poison"}
    assert document.calls() - before == {2: 1, 4: 2}
    assert document.text() == expected(5, without={4})

    last = document.enqueue(pages="failed")
    assert document.run() == 0
    assert document.failed(last) == {}
    assert document.text() == expected(5)
    assert document.calls() == {1: 1, 2: 3, 3: 1, 4: 5, 5: 1}
    assert document.status() == "completed"
