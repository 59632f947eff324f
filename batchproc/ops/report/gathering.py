"""Gathers a report from the tables, as of one moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.documents.paths import display_path
from batchproc.ops import campaign_result
from batchproc.ops.advice import advice
from batchproc.ops.campaign_result import CampaignResult
from batchproc.ops.report.model import (
    FailureExample,
    FailureGroup,
    KindWork,
    Report,
    Retried,
    SlowDocument,
    Stretch,
    Subject,
    TenantWork,
)
from batchproc.queue.run_history import Attempts, RunHistory

_STRETCHES = 48
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WIDTHS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
)
_GROUPS = 200
_EXAMPLES = 10
_RETRIED = 20
_SLOWEST = 15


def gather_run(connection: Connection[TupleRow], schema: str, run_id: int | None) -> Report:
    """The report on a run; None means the newest that claimed a job.

    Raises:
        UsageError: there is no such run.
    """
    history = RunHistory(schema)
    run = history.run(connection, run_id)
    if run is None:
        raise UsageError(
            "there has been no run"
            if run_id is None
            else f"there is no run {run_id}, or it is so old that it was pruned",
            "see: batchproc report --list",
        )
    until = run["until"]
    counts = {name: jobs for name, jobs in (run["counts"] or {}).items() if type(jobs) is int}
    subject = Subject(
        name=f"run {run['run_id']}",
        id=run["run_id"],
        command=None,
        started_at=run["started_at"],
        finished_at=run["finished_at"],
        goes_on=run["alive"] and run["finished_at"] is None,
        seconds=(until - run["started_at"]).total_seconds(),
        exit_code=run["exit_code"],
        slots=run["slots"],
        counts={name: jobs for name, jobs in counts.items() if name != "left"},
        left=counts.get("left"),
    )
    result = campaign_result.of_run(connection, schema, subject.id)
    failures = history.failures(
        connection,
        run_id=subject.id,
        partial=True,
        groups=_GROUPS,
        examples=_EXAMPLES,
        given_up=(run["started_at"], until),
    )
    with history.attempts(connection, since=run["started_at"], until=until, run_id=subject.id) as attempts:
        return _report(subject, attempts, failures, result)


def gather_campaign(connection: Connection[TupleRow], schema: str, campaign_id: int) -> Report:
    """The report on a campaign.

    Raises:
        UsageError: there is no such campaign.
    """
    history = RunHistory(schema)
    found = history.campaign(connection, campaign_id)
    if found is None:
        raise UsageError(f"there is no campaign {campaign_id}", "see: batchproc campaigns list")
    # A clock that was set back since has it end before it began.
    until = max(found["started_at"], found["finished_at"] or found["now"])
    subject = Subject(
        name=f"campaign {campaign_id}",
        id=campaign_id,
        command=found["command"],
        started_at=found["started_at"],
        finished_at=found["finished_at"],
        goes_on=found["left"] > 0,
        seconds=(until - found["started_at"]).total_seconds(),
        exit_code=None,
        slots=None,
        counts={name: found[name] for name in ("jobs", "completed", "discarded", "cancelled")},
        left=found["left"],
        pruned=found["pruned"],
    )
    result = campaign_result.of_campaign(connection, schema, campaign_id)
    failures = history.failures(connection, campaign_id=campaign_id, partial=True, groups=_GROUPS, examples=_EXAMPLES)
    with history.attempts(connection, since=found["started_at"], until=until, campaign_id=campaign_id) as attempts:
        return _report(subject, attempts, failures, result)


def stretch_width(seconds: float) -> float:
    """The seconds of a stretch that makes at most 48 of a time, rounded so that a person can name it."""
    wanted = seconds / _STRETCHES
    days = -(-wanted // _DAY) * _DAY
    return next((width for width in _WIDTHS if width >= wanted), days)


def _report(subject: Subject, attempts: Attempts, failures: Sequence[dict[str, Any]], result: CampaignResult) -> Report:
    kinds = tuple(KindWork(**row) for row in attempts.kinds())
    width = stretch_width(subject.seconds)
    return Report(
        subject=_with_pruned(subject, sum(kind.attempts for kind in kinds)),
        kinds=kinds,
        tenants=tuple(_tenant(row) for row in attempts.tenants()),
        width=width,
        stretches=_stretches(attempts.buckets(width), width, subject.seconds),
        failures=_failures(failures),
        failure_groups=failures[0]["groups"] if failures else 0,
        retried=tuple(Retried(**row) for row in attempts.retries(_RETRIED)),
        slowest=tuple(_slow(row) for row in attempts.slowest(_SLOWEST)),
        result=result,
    )


def _with_pruned(subject: Subject, attempts: int) -> Subject:
    known = subject.counts.get("claimed", 0)
    # Where the clock was set back, attempts of the run may seem to have ended before it began.
    is_over = subject.command is None and not subject.goes_on and not subject.clock_set_back
    return replace(subject, pruned=max(0, known - attempts)) if is_over else subject


def _tenant(row: dict[str, Any]) -> TenantWork:
    median, most = row.pop("waits")
    return TenantWork(
        lane=Lane(row.pop("lane")).name.lower(),
        wait_median=median,
        wait_95=most,
        wait_longest=row.pop("longest_wait"),
        **row,
    )


def _stretches(rows: Sequence[dict[str, Any]], width: float, seconds: float) -> tuple[Stretch, ...]:
    """One for each stretch of the whole time, also where nothing happened."""
    found = {bucket: list(group) for bucket, group in groupby(rows, key=itemgetter("bucket"))}
    # The last one may begin where the time ends.
    count = max(1, math.ceil(seconds / width), 1 + max(found, default=0))
    return tuple(_stretch(number * width, found.get(number, [])) for number in range(count))


def _stretch(at: float, rows: Sequence[dict[str, Any]]) -> Stretch:
    return Stretch(
        at=at,
        completed={row["kind"]: row["completed"] for row in rows if row["completed"]},
        discarded=sum(row["discarded"] for row in rows),
        pages=sum(row["pages"] for row in rows),
        busy={row["kind"]: row["busy"] for row in rows if row["busy"] > 0},
    )


def _failures(rows: Sequence[dict[str, Any]]) -> tuple[FailureGroup, ...]:
    groups = [list(group) for _, group in groupby(rows, key=itemgetter("rank"))]
    return tuple(
        FailureGroup(
            tenant=group[0]["tenant"],
            failure_code=group[0]["failure_code"] or "internal_error",
            partial=group[0]["state"] != "discarded",
            jobs=group[0]["jobs"],
            failed_pages=group[0]["failed_pages"] or 0,
            advice=advice(group[0]["failure_code"], group[0]),
            examples=tuple(_example(row) for row in group),
        )
        for group in groups
    )


def _example(row: dict[str, Any]) -> FailureExample:
    path = _shown(row["path"])
    return FailureExample(row["job_id"], row["kind"], row["document_id"], path, row["detail"], row["now"])


def _slow(row: dict[str, Any]) -> SlowDocument:
    return SlowDocument(path=_shown(row.pop("path")) or "", **row)


def _shown(path: bytes | None) -> str | None:
    return display_path(path) if path is not None else None
