"""How long a run took is told of its own time: whoever looks, whenever, and whatever its clock did."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from batchproc.database import connect
from batchproc.ops import summary
from batchproc.ops.report import Report, gather_campaign, gather_run
from batchproc.ops.report.words import head, verdict
from batchproc.queue.run_history import RunHistory
from tests.handlers.running_job import Conn, add_tenant

HISTORY = RunHistory("batchproc")
START = datetime(2026, 11, 28, 22, 0, tzinfo=UTC)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def add_run(connection: Conn, finished: float | None, *, claimed: int = 4) -> int:
    """A run of two slots whose node is gone, ``finished`` so many seconds after its start."""
    row = connection.execute(
        """
        insert into batchproc.runs (node_id, started_at, finished_at, exit_code, counts, slots)
        values (gen_random_uuid(), %(start)s, %(end)s, case when %(end)s::timestamptz is not null then 0 end,
                case when %(end)s::timestamptz is not null then jsonb_build_object('claimed', %(claimed)s::int) end, 2)
        returning run_id
        """,
        {"start": START, "end": _moment(finished), "claimed": claimed},
    ).fetchone()
    assert row is not None
    return int(row[0])


def add_attempt(connection: Conn, run_id: int, ended: float, *, seconds: float = 60.0) -> None:
    """A document of ten pages, read by an attempt that ended so many seconds after the start."""
    connection.execute(
        """
        with job as (
            insert into batchproc.processing_jobs
                (tenant_id, kind, state, max_attempts, finished_at, result, created_at)
            values (%(tenant)s, 'ocr', 'completed', 3, %(end)s, '{"pages": 10}', %(start)s)
            returning job_id, tenant_id
        )
        insert into batchproc.job_attempts
            (claim_id, job_id, tenant_id, number, node_id, run_id, started_at, ended_at, seconds, outcome)
        select %(claim)s, job_id, tenant_id, 1, gen_random_uuid(), %(run)s, %(start)s, %(end)s, %(seconds)s, 'completed'
        from job
        """,
        {
            "tenant": add_tenant(connection),
            "claim": uuid4(),
            "run": run_id,
            "start": START,
            "end": _moment(ended),
            "seconds": seconds,
        },
    )


def told(connection: Conn, run_id: int) -> Report:
    report = gather_run(connection, "batchproc", run_id)
    lasted = summary.worked(connection, HISTORY, run_id).lasted
    assert lasted == report.subject.seconds, "the summary says the same"
    return report


def test_the_rates_of_a_killed_run_are_those_of_its_own_time(connection: Conn) -> None:
    run_id = add_run(connection, None)
    for ended in (60.0, 240.0, 600.0, 600.0):
        add_attempt(connection, run_id, ended)
    report = told(connection, run_id)
    assert (report.subject.seconds, report.subject.goes_on, report.slot_use) == (600.0, False, 0.2)
    figures = dict(head(report))
    assert (figures["pages"], figures["pages a minute"]) == ("40", "4.0")
    assert verdict(report).endswith("or lost the database. Its last attempt ended after 10 min.")
    assert [run["seconds"] for run in HISTORY.runs(connection, before=None, limit=9)] == [None]


def test_a_killed_run_that_ended_no_attempt_took_no_time(connection: Conn) -> None:
    report = told(connection, add_run(connection, None))
    assert (report.subject.seconds, report.slot_use, report.subject.pruned) == (0.0, None, 0)
    assert verdict(report).endswith("or lost the database.")


def test_a_clock_that_was_set_back_takes_no_time_off_a_run_and_prunes_nothing(connection: Conn) -> None:
    run_id = add_run(connection, -3000.0, claimed=500)
    for ended in (60.0, 240.0, 600.0, -3100.0):
        add_attempt(connection, run_id, ended)
    report = told(connection, run_id)
    assert (report.subject.seconds, report.subject.pruned) == (600.0, 0)
    assert verdict(report) == "It took 10 min and ended with exit code 0."
    assert dict(head(report))["pages a minute"] == "3.0"
    assert [run["seconds"] for run in HISTORY.runs(connection, before=None, limit=9)] == [0.0]


def test_what_others_ended_after_a_run_makes_it_no_longer(connection: Conn) -> None:
    run_id = add_run(connection, 300.0, claimed=6)
    add_attempt(connection, run_id, 240.0)
    add_attempt(connection, run_id, 500.0, seconds=0.0)
    report = told(connection, run_id)
    assert (report.subject.seconds, report.subject.pruned) == (300.0, 5)


def test_a_campaign_is_over_at_its_start_at_the_soonest(connection: Conn) -> None:
    connection.execute(
        "insert into batchproc.campaigns (command, created_at, documents) values ('reprocess --all', %s, 1)", [START]
    )
    connection.execute(
        "insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts, finished_at, campaign_id)"
        " values (%s, 'ocr', 'completed', 3, %s, 1)",
        [add_tenant(connection), START - timedelta(hours=1)],
    )
    assert gather_campaign(connection, "batchproc", 1).subject.seconds == 0.0


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else START + timedelta(seconds=seconds)
