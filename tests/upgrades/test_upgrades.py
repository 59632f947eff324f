"""A database of every released schema, with what its nodes left in it, is brought up to date and goes on working."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.database import connect
from batchproc.documents.store import DocumentStore
from batchproc.queue import migrate
from batchproc.queue.changing import Changing
from batchproc.queue.store import JobStore
from tests.cli.shell import Shell
from tests.engine.running import Bench
from tests.handlers.running_job import Conn
from tests.ocr import drawn
from tests.upgrades import old_database
from tests.upgrades.old_database import IN_WORK, RELEASED

QUICK_OCR: dict[str, Any] = {"languages": ["eng"], "dpi": 70, "orientation": False}

# Columns whose meaning a migration gave to others, with the version that did so.
_MOVED = {("kinds", "max_running"): 2, ("processing_jobs", "languages"): 3}


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[Conn]:
    with connect(empty_database_url) as opened:
        yield opened


@pytest.fixture
def original(tmp_path: Path) -> Path:
    file = tmp_path / "archive" / "one.png"
    file.parent.mkdir()
    file.write_bytes(drawn.saved(drawn.page(["plain words"]), "PNG"))
    return file


@pytest.fixture(params=RELEASED)
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def old(connection: Conn, version: int, original: Path, monkeypatch: pytest.MonkeyPatch) -> Conn:
    """A filled database of that schema."""
    old_database.make(connection, version, monkeypatch)
    old_database.fill(connection, version, original)
    return connection


def test_every_schema_is_released_or_in_work() -> None:
    assert [migration.version for migration in migrate.known_migrations()] == RELEASED + IN_WORK
    assert {path.name for path in Path(__file__).parent.glob("fill_*.sql")} == {f"fill_{n:04}.sql" for n in RELEASED}


def test_nothing_is_lost_or_changed(old: Conn, version: int) -> None:
    columns = {
        column: facts
        for column, facts in old_database.columns(old).items()
        if column[0] != "schema_migrations" and _MOVED.get(column, 0) <= version
    }
    before = old_database.content(old, columns)
    assert all(before.values()), "every table has rows"
    applied = [migration.version for migration in migrate.apply(old)]
    assert applied == list(range(version + 1, len(migrate.known_migrations()) + 1))
    assert old_database.content(old, columns) == before
    migrate.require_current(old)


def test_it_is_as_if_it_had_been_made_new(old: Conn, database_url: str) -> None:
    migrate.apply(old)
    with connect(database_url) as new:
        assert old_database.columns(old) == old_database.columns(new)


def test_older_nodes_can_live_with_what_the_newer_schemas_have_changed(
    connection: Conn, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a statement of theirs names is there and of the type it was; of what they do not know, nothing must be said.

    Each is held against the schemas up to the first that its code is refused by (``min_code_version``).
    """
    old_database.make(connection, version, monkeypatch)
    before = old_database.columns(connection)
    may_live_with = [known.version for known in migrate.known_migrations() if known.min_code_version <= version]
    old_database.make(connection, max(may_live_with), monkeypatch)
    after = old_database.columns(connection)
    types = {column: facts[0] for column, facts in before.items()}
    assert {column: after[column][0] for column in before if column in after} == types
    tables = {table for table, _ in before}
    demanding = [
        column
        for column, (_, nullable, default, generated, identity) in after.items()
        if column not in before
        and column[0] in tables
        and (nullable, default, generated, identity) == ("NO", None, "NEVER", "NO")
    ]
    assert demanding == []


@pytest.mark.parametrize(
    "version", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long), 4], indirect=True
)
def test_what_waited_is_done_and_what_was_done_is_shown(
    old: Conn, empty_database_url: str, original: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A dead node's claim is rescued, a paused tenant and a paused campaign stay so, all can be asked for."""
    shell = Shell(empty_database_url, capfd)
    assert shell.json("migrate")["applied"][-1] == "0006_operations_indexes"
    bench = Bench(empty_database_url, old)
    bench.run(ocr=QUICK_OCR, dispatch={"lease": 2.0})

    rows = old.execute("select job_id, state from batchproc.processing_jobs where job_id <= 8").fetchall()
    states: dict[int, str] = dict(rows)
    waiting = {4: "held", 8: "available"}
    ended = {1: "completed", 2: "completed", 3: "completed", 5: "completed", 6: "discarded", 7: "cancelled"}
    assert states == waiting | ended
    document = DocumentStore("batchproc", tenant_id=None).load(old, 1)
    assert (document.status, document.external_id) == ("completed", "A-1")
    assert "plain" in "".join(shell.json("documents", "text", "1")["pages"]).lower()

    assert shell.json("documents", "show", "2")["title"] == "Two"
    assert len(shell.json("documents", "history", "3")["revisions"]) == 1
    assert shell.json("jobs", "show", "5")["result"] == {"pages": 2}
    assert len(shell.json("campaigns", "list")["campaigns"]) == 2
    for listing in (["status"], ["tenants", "list"], ["kinds", "list"], ["jobs", "list"], ["usage"], ["report"]):
        assert shell.json(*listing)

    # The file is known to the archive, and goes on being known by what is remembered of it from now on.
    imported = shell.json("import", str(original), "--tenant", "acme")["documents"][0]
    assert (imported["document_id"], imported["duplicate"]) == (1, True)
    assert shell.json("reprocess", "--document", "2")["already_queued"] == 1
    assert JobStore("batchproc").release(old, 2).jobs == 1
    assert Changing("batchproc").retry(old, [6]) == {6: "retried"}
