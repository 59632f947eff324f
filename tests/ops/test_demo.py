"""The demo: once from end to end, as a person runs it, and its judgement of what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.documents.store import Document, DocumentStore, NewDocument
from batchproc.ops.demo import Demo
from batchproc.ops.demo.documents import PLANS, TENANTS, DemoDocument, draw
from batchproc.ops.demo.report import Processed, report
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

JOBS = JobStore("batchproc")
TEXT = "one two three four five six seven eight nine ten"


def a_document(*, status: str = "completed", failure_code: str | None = None, page_count: int | None = 1) -> Document:
    return Document(
        document_id=7,
        tenant_id=1,
        external_id=None,
        root=b"/",
        path=b"x",
        sha256=b"",
        bytes=1,
        media_type=None,
        page_count=page_count,
        language=None,
        title=None,
        title_source=None,
        status=status,  # type: ignore[arg-type]  # one of the literals
        failure_code=failure_code,
        flags=(),
        fields={},
        current_revision=1,
        verified_at=None,
        created_at=datetime.now(UTC),
    )


GOOD = Processed(DemoDocument(TENANTS[0], Path("/x/good.png"), "demo:x:good", (TEXT,)), a_document(), (TEXT,))
BROKEN = Processed(
    DemoDocument(TENANTS[0], Path("/x/broken.pdf"), "demo:x:broken", ()),
    a_document(status="failed", failure_code="unreadable_file", page_count=None),
)


def problems(processed: Processed) -> tuple[str, ...]:
    others = [
        replace(GOOD, drawn=replace(GOOD.drawn, tenant=slug))
        for slug in TENANTS  # every tenant has something
    ]
    return report([*others, processed], Path("/x"), 2, 1.0).problems


def test_what_is_as_it_should_be_is_no_problem() -> None:
    assert problems(GOOD) == ()
    assert problems(BROKEN) == ()


@pytest.mark.parametrize(
    ("processed", "about"),
    [
        (replace(GOOD, stored=None), "was not imported"),
        (replace(GOOD, waiting=(12,)), "batchproc jobs show 12"),
        (replace(GOOD, stored=a_document(status="failed", failure_code="missing_language")), "missing_language"),
        (replace(GOOD, stored=a_document(page_count=2)), "2 pages instead of 1"),
        (replace(GOOD, pages=("one two three four five six seven eight",)), "only 80%"),
        (replace(GOOD, pages=()), "only 0%"),
        (replace(BROKEN, stored=a_document()), "is broken, but ended completed"),
        (replace(BROKEN, stored=a_document(status="failed", failure_code="encrypted")), "failed encrypted"),
    ],
)
def test_a_problem_says_of_which_document(processed: Processed, about: str) -> None:
    (problem,) = problems(processed)
    assert about in problem
    assert processed.drawn.path.name in problem


def test_recall_is_the_mean_over_the_pages_not_over_the_documents() -> None:
    two = replace(GOOD, drawn=replace(GOOD.drawn, truth=(TEXT, TEXT, TEXT)), pages=(TEXT, TEXT, ""))
    rows = [replace(GOOD, drawn=replace(GOOD.drawn, tenant=slug)) for slug in TENANTS]
    found = report([two, *rows], Path("/x"), 2, 1.0).tenants[0]
    assert (found.documents, found.word_recall) == (2, 0.75)


@pytest.fixture(scope="module")
def drawn_twice(tmp_path_factory: pytest.TempPathFactory) -> list[list[DemoDocument]]:
    return [list(draw(tmp_path_factory.mktemp("demo"), seed)) for seed in (1, 2)]


def test_another_seed_gives_other_files_also_the_broken_one(drawn_twice: list[list[DemoDocument]]) -> None:
    contents = [document.path.read_bytes() for drawn in drawn_twice for document in drawn]
    assert len(set(contents)) == 2 * len(PLANS)
    assert [len(document.truth) for document in drawn_twice[0]] == [len(plan.pages) for plan in PLANS]
    assert {document.external_id for document in drawn_twice[0]}.isdisjoint(
        document.external_id for document in drawn_twice[1]
    )


def test_a_tenant_of_that_name_with_other_documents_is_left_alone(database_url: str, tmp_path: Path) -> None:
    with connect(database_url) as connection:
        tenant = JOBS.add_tenant(connection, TENANTS[1])
        store = DocumentStore("batchproc", tenant_id=tenant.tenant_id)
        store.register(connection, NewDocument(b"/", b"x", b"1" * 32, 1, external_id="ours-1"))
        demo = Demo(Settings(), database_url, database_url, tmp_path, workers=1, tell=lambda _: None)
        with pytest.raises(UsageError, match=TENANTS[1]):
            demo.run(connection)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(180)
def test_the_demo(database_url: str, tmp_path: Path) -> None:
    with connect(database_url) as connection:
        mine = JOBS.add_tenant(connection, "mine")
        waiting = JOBS.enqueue(connection, NewJob(mine.tenant_id, "classify"))
    home = tmp_path / "home"
    command = [sys.executable, "-m", "batchproc", "--database", database_url, "demo", "--json", "--workers", "2"]
    done = subprocess.run(
        command, env={**os.environ, "BATCHPROC_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert [(row["tenant"], row["documents"], row["pages"]) for row in found["tenants"]] == [
        ("demo-acme", 3, 3),
        ("demo-museum", 2, 3),
        ("demo-stadtwerke", 3, 4),
    ]
    assert min(row["word_recall"] for row in found["tenants"]) >= 0.9
    assert [(row["tenant"], row["failure_code"]) for row in found["broken"]] == [("demo-stadtwerke", "unreadable_file")]
    folder = Path(found["folder"])
    assert folder.parent == home / "demo"
    assert {path.stat().st_mode & 0o777 for path in (home, home / "demo", folder, *folder.iterdir())} == {0o700}
    with connect(database_url) as connection:
        inspection = Inspection("batchproc")
        assert inspection.job(connection, waiting.job_id)["state"] == "available"
        followed = inspection.jobs(connection, tenant="demo-acme", kind="workflow")
        assert [job["state"] for job in followed] == ["completed"] * 3
