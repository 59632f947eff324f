"""How long the same documents take is told alike: before they are chosen, after some were tried, while they wait."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from batchproc.cli.reprocessing import pilot
from batchproc.cli.run.node import watched
from batchproc.database import connect
from batchproc.engine.counts import Counts
from batchproc.engine.run_report import Begun, RunOptions
from batchproc.settings import Settings
from batchproc.version import __version__
from tests.cli.shell import Shell
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text

ESTIMATE = ("pages", "pages_unknown", "worker_seconds", "workers", "seconds")


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def archive(connection: Conn) -> None:
    """Acme, whose pages take long, and beta, of whom little is known; of each some documents nobody has read.

    Of acme's pages most had a text layer. Its last document is partial: three of its five pages failed.
    """
    acme, beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
    for number, (tenant, pages) in enumerate([(acme, 3), (acme, None), (beta, 7), (beta, None), (acme, 5)]):
        document = add_document(connection, tenant, content=bytes([number]))
        if pages is not None:
            add_text(connection, tenant, document, ["word"] * pages)
    connection.execute("update batchproc.documents set status = 'partial' where document_id = %s", [document])
    connection.execute(
        "update batchproc.ocr_pages p set state = 'failed', failure_code = 'stalled', text = null, words = null"
        " from batchproc.documents d where d.status = 'partial' and p.revision_id = d.current_revision and p.page > 2"
    )
    for tenant, kind, seconds, jobs, ocr, text, recognising in (
        (acme, "ocr", 300.0, 40, 100, 200, 290.0),
        (beta, "ocr", 1.0, 2, 5, 0, 0.9),
        (beta, "classify", 5.0, 50, 0, 0, 0.0),
    ):
        connection.execute(
            """
            insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_ocr, pages_text,
                                               pages_timed, seconds_ocr)
            values (%s, (clock_timestamp() at time zone 'UTC')::date, %s, %s, %s, %s, %s, %s, %s)
            """,
            [tenant, kind, seconds, jobs, ocr, text, ocr, recognising],
        )


@pytest.fixture
def shell(database_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("BATCHPROC_POOL__WORKERS", "2")
    # What a pilot has read would be told of afterwards alone; so it reads nothing.
    nothing = SimpleNamespace(run=lambda *_: SimpleNamespace(stopped=True, exit_code=0))
    monkeypatch.setattr(pilot, "node_of", lambda *_, **__: nothing)
    return Shell(database_url, capfd)


def live_node(connection: Conn, slots: int) -> None:
    connection.execute(
        "insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)"
        " values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'h', 1, %s, '{}', '{}', %s)",
        [slots, __version__],
    )


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize(
    ("flags", "slots", "pages", "unknown"),
    [
        # Of two documents nobody knows the pages: as the others' are, 7.5 each.
        (["--all"], None, 3 + 7 + 5 + 15, 2),
        (["--all", "--mode", "force"], 3, 30, 2),
        (["--status", "partial"], 3, 3, 0),
        (["--all", "--kind", "classify"], None, 0, 0),
    ],
    ids=["all, no node", "forced, a node of 3 slots", "failed pages", "classify"],
)
def test_the_same_documents_take_the_same_time_wherever_that_is_told(
    shell: Shell, connection: Conn, flags: list[str], slots: int | None, pages: int, unknown: int
) -> None:
    if slots:
        live_node(connection, slots)
    dry = shell.json("reprocess", *flags, "--dry-run")
    expected = [dry[name] for name in ESTIMATE]
    assert (dry["pages"], dry["pages_unknown"], dry["workers"]) == (pages, unknown, slots or 2)
    assert dry["seconds"] == dry["worker_seconds"] / min(slots or 2, dry["enqueued"])
    told = [line for line in shell.lines("reprocess", *flags, "--dry-run")[1:] if "left alone" not in line]

    if "--kind" not in flags:
        tried = shell.lines("reprocess", *flags, "--pilot", "1")
        assert [line[14:] for line in tried if line[14:] in told] == (told if dry["enqueued"] > 1 else [])
        again = shell.json("reprocess", *flags, "--pilot", "1")["estimate"]
        assert [again[name] for name in ESTIMATE] == expected

    made = shell.json("reprocess", *flags)
    assert [made[name] for name in ESTIMATE] == expected
    shown = shell.json("campaigns", "show", str(made["campaign_id"]))
    keys = ("pages_left", "pages_unknown", "worker_seconds_left", "workers", "seconds_left")
    assert [shown[name] for name in keys] == pytest.approx(expected)
    page = shell.lines("campaigns", "show", str(made["campaign_id"]))
    assert [line[14:] for line in page if line[14:] in told] == told


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("flags", [["--all"], ["--all", "--mode", "force"], ["--status", "partial"]], ids=" ".join)
@pytest.mark.parametrize("slots", [None, 3], ids=["no node", "a node of 3 slots"])
def test_a_run_of_the_same_jobs_is_told_to_take_as_long(
    shell: Shell, database_url: str, connection: Conn, flags: list[str], slots: int | None
) -> None:
    if slots:
        live_node(connection, slots)
    campaign = shell.json("reprocess", *flags)["campaign_id"]
    expected = shell.json("campaigns", "show", campaign)["seconds_left"]
    assert expected is not None
    for kind in ("ocr", "nobody_here_knows_it"):  # of a paused tenant, and without a handler
        connection.execute(
            """
            insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)
            values ((select tenant_id from batchproc.tenants where slug = %s), %s, 'available', 5)
            """,
            ["acme" if kind != "ocr" else add_paused(connection), kind],
        )
    app: Any = SimpleNamespace(
        schema="batchproc",
        database_url=database_url,
        settings=Settings(),
    )
    begun = Begun(1, frozenset(["ocr", "classify"]), Counts())
    seen = watched(app, RunOptions(workers=2), begun)()
    assert seen.seconds_left == pytest.approx(expected, abs=0.5)
    assert watched(app, RunOptions(workers=2, max_jobs=1), begun)().seconds_left is None, "it ends before that"


def add_paused(connection: Conn) -> str:
    """The slug of a tenant that is paused."""
    add_tenant(connection, "resting")
    connection.execute("update batchproc.tenants set paused = true where slug = 'resting'")
    return "resting"
