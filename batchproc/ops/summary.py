"""The summary of a run: what it did, and what somebody has to look at, worst first and on one screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from rich.cells import cell_len

from batchproc.core.brake import Braked
from batchproc.core.durations import duration
from batchproc.documents.paths import terminal_path
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.log import one_line
from batchproc.queue.run_history import RunHistory

WIDTH = 80
SHOWN_GROUPS = 5
"""Failures of one tenant and code are told together; of more such groups than these the report tells."""
SHOWN_STORAGES = 5
EXAMPLES = 3
# With more groups than this one example of each has to do, so that all stays on one screen.
_MANY_GROUPS = 3
_DETAIL = 80
# What is not broken over lines: a command within a sentence, which is to be copied, and a number with what it counts.
_UNBROKEN = re.compile(r"batchproc [^,;:)]*|exit \d+|\d[\d,]* [a-z]+,")
_NO_BREAK = "\N{NO-BREAK SPACE}"

_ADVICE = {
    "being_read": "let the job that reads it end, then make the pilot again",
    "database_lost": "see the database's log for why it ended connections, then retry it",
    "encrypted": "give its tenant a password file (batchproc tenants set SLUG --password-file PATH), then retry it",
    "empty_file": "scan or upload it again",
    "invalid_args": "enqueue it again with args that fit its kind",
    "forkserver_died": "something ended the process that starts the workers: see the system's log for why",
    "given_up": "somebody gave up on it; to take that back: batchproc jobs retry JOB_ID",
    "internal_error": "its handler raised what it does not declare: batchproc jobs retry JOB_ID,"
    " then batchproc --once JOB_ID",
    "missing_language": "install the language, or read it in others:"
    " batchproc reprocess --document DOCUMENT_ID --language eng",
    "out_of_memory": "raise pool.memory_limit_mb, or split the document",
    "password_file_missing": "mount it, or set another: batchproc tenants set SLUG --password-file PATH",
    "permission_denied": "let the user of this run read it",
    "poison": "its worker died again and again: batchproc jobs retry JOB_ID, then batchproc --once JOB_ID",
    "source_changed": "the original is not what was imported: restore it, or import the new file",
    "source_missing": "bring the file back, or check that the archive is mounted",
    "no_space": "make room on the disk of the temp folder",
    "stalled": "a page made no progress: batchproc jobs retry JOB_ID, then batchproc --once JOB_ID",
    "storage_unavailable": "check that the archive is mounted",
    "timeout": "raise the kind's timeout under kinds:, or look at it: batchproc jobs retry JOB_ID,"
    " then batchproc --once JOB_ID",
    "too_large": "raise ocr.bounds, or split it",
    "unknown_kind": "run a release that has a handler of that kind, or add its module to handlers:",
    "unreadable_file": "scan or upload it again",
    "unsupported_type": "remove it from the archive, or convert it",
}

_BRAKE_ADVICE = {
    "internal_error": "its handler fails on everything: take the last release back, or mend it",
    "invalid_args": "its handler takes no such args any more: take the last release back, or mend it",
    "missing_language": "set a language that is installed: batchproc tenants set SLUG --languages eng,deu",
    "no_space": "make room on the disk of the temp folder",
    "permission_denied": "let the user of this run read the archive",
    "poison": "its workers die on everything: take the last release back, or mend it",
    "source_missing": "check that the archive is mounted",
    "unknown_kind": "its handler cannot be imported by the workers any more: mend the installation",
}


@dataclass(frozen=True)
class Worked:
    """What a run got through. ``seconds`` of its workers; ``slots``: how many jobs it could work on at a time.

    None for ``slots`` of a run that a node of an older release began.
    """

    pages: int = 0
    failed_pages: int = 0
    seconds: float = 0.0
    slots: int | None = None


def worked(connection: Connection[TupleRow], history: RunHistory, run_id: int) -> Worked:
    """Counts what the run got through, from its attempts."""
    run = history.run(connection, run_id)
    if run is None:
        return Worked()
    until = run["finished_at"] or run["now"]
    with history.attempts(connection, since=run["started_at"], until=until, run_id=run_id) as attempts:
        kinds = attempts.kinds()
    return Worked(
        pages=sum(kind["pages"] for kind in kinds),
        failed_pages=sum(kind["failed_pages"] for kind in kinds),
        seconds=sum(kind["seconds"] for kind in kinds),
        slots=run["slots"],
    )


def plain(report: RunReport, done: Worked | None = None) -> dict[str, Any]:
    """The report under its stable keys."""
    return {
        **report.counts.plain(),
        "left": report.left,
        "seconds": round(report.seconds, 3),
        "storages": dict(report.counts.storages),
        "braked": {braked.kind: braked.code for braked in report.braked},
        "run_id": report.run_id,
        "exit_code": report.exit_code,
        "stopped": report.stopped,
        "codes": dict(report.counts.codes.most_common()),
        "left_by_kind": dict(report.left_by_kind),
        "window_ended": report.window_ended,
        "nights_left": report.nights_left,
        **({} if done is None else _worked_plain(report, done)),
    }


def lines(
    report: RunReport, failures: Sequence[dict[str, Any]], accepted: Collection[str], done: Worked | None = None
) -> list[str]:
    """The summary as text, worst first; what belongs together is one entry, with line breaks in it.

    Args:
        failures: rows of ``RunHistory.failures``, of at most ``SHOWN_GROUPS`` groups.
        accepted: codes that nobody wants to hear of: they are counted, not listed.
    """
    counts = report.counts
    text = [_braked(braked) for braked in report.braked]
    text.extend(_storages(counts))
    text.extend(_failures([row for row in failures if row["failure_code"] not in accepted], report.run_id))
    text.extend(f"warning: {one_line(warning)}" for warning in report.warnings)
    text.extend(_undone(report))
    if counts.codes:
        text.append("failure codes: " + ", ".join(f"{code} {jobs:,}" for code, jobs in counts.codes.most_common()))
    text.extend(_rates(report, done))
    shown = {name: jobs for name, jobs in counts.plain().items() if jobs or name in ("claimed", "completed")}
    counted = ", ".join(f"{jobs:,} {name}" for name, jobs in shown.items())
    took = duration(report.seconds)
    text.append(f"run {report.run_id}: {counted}, {report.left:,} left, {took}, exit {report.exit_code}")
    return text


def on_screen(entries: Iterable[str], width: int = WIDTH) -> list[str]:
    """The lines of a summary within ``width`` columns; those that are to be copied, set in by four, stay whole."""
    shown = []
    for line in "\n".join(entries).splitlines():
        if line.startswith("    ") or cell_len(line) <= width:
            shown.append(line)
            continue
        joined = _UNBROKEN.sub(lambda found: found[0].replace(" ", _NO_BREAK), line)
        wrapped = textwrap.wrap(joined, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        shown += [part.replace(_NO_BREAK, " ") for part in wrapped]
    return shown


def advice(code: str | None, row: dict[str, Any]) -> str:
    """What to do about a failure; ``row`` is one of ``RunHistory.failures`` that has it."""
    told = _ADVICE.get(code or "", "see: batchproc jobs show JOB_ID")
    if row["document_id"] is not None:
        told = told.replace("DOCUMENT_ID", str(row["document_id"]))
    return told.replace("JOB_ID", str(row["job_id"])).replace("SLUG", row["tenant"])


def _worked_plain(report: RunReport, done: Worked) -> dict[str, Any]:
    busy = _busy(report, done)
    return {
        "pages": done.pages,
        "failed_pages": done.failed_pages,
        "worker_seconds": round(done.seconds, 3),
        "slots": done.slots,
        "slot_use": None if busy is None else round(busy, 3),
    }


def _busy(report: RunReport, done: Worked) -> float | None:
    """The share of its workers' time that was spent on jobs, 0 to 1."""
    if not done.slots or report.seconds <= 0:
        return None
    return min(1.0, done.seconds / (done.slots * report.seconds))


def _rates(report: RunReport, done: Worked | None) -> list[str]:
    if done is None or not report.counts.claimed or report.seconds <= 0:
        return []
    parts = []
    if done.pages:
        bad = f" ({done.failed_pages:,} failed)" if done.failed_pages else ""
        parts.append(f"{_many(done.pages, 'page')}{bad}, {_rate(done.pages, report.seconds)}")
    parts.append(f"{_many(report.counts.completed, 'job')}, {_rate(report.counts.completed, report.seconds)}")
    busy = _busy(report, done)
    if busy is not None:
        parts.append(f"{_many(done.slots or 0, 'worker')} busy {busy:.0%} of the time")
    return ["; ".join(parts)]


def _rate(number: int, seconds: float) -> str:
    for unit, length in (("s", 1), ("min", 60), ("h", 3600)):
        rate = number / seconds * length
        if rate >= 1 or unit == "h":
            break
    return f"{rate:.1f}/{unit}" if rate < 100 else f"{rate:,.0f}/{unit}"


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}" + ("" if number == 1 else "s")


def _undone(report: RunReport) -> list[str]:
    text = []
    by_kind = ", ".join(f"{jobs:,} {kind}" for kind, jobs in sorted(report.left_by_kind.items(), key=_largest) if jobs)
    left = f" ({by_kind})" if by_kind else ""
    if report.window_ended:
        told = f"its window ended before {_many(report.left, 'job')}{left} could be done"
        if report.nights_left is not None:
            told += f": about {_many(report.nights_left, 'more such night')}"
        text.append(told)
    elif report.stopped:
        undone = report.left or report.counts.interrupted
        text.append(f"stopped by a signal before everything was done{left}" if undone else "stopped by a signal")
    text.extend(
        f"{kind} jobs take about {duration(seconds)} each, longer than the whole window: give them a longer one,"
        " or run them by day:\n    batchproc run --kind " + kind
        for kind, seconds in report.too_long.items()
    )
    return text


def _largest(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _storages(counts: Counts) -> list[str]:
    text = [
        f"{one_line(told)} ({jobs} jobs wait, without an attempt used): mount or mend it, the next run takes them up"
        "\n    batchproc storage list"
        for told, jobs in counts.storages.most_common(SHOWN_STORAGES)
    ]
    if len(counts.storages) > SHOWN_STORAGES:
        text.append("and more storages:\n    batchproc jobs list --failure-code storage_unavailable")
    return text


def _braked(braked: Braked) -> str:
    told = _BRAKE_ADVICE.get(braked.code, "mend what is wrong")
    return (
        f"kind {braked.kind} is paused by the brake: {braked.reason}: {told}, then resume it; a job that was"
        " discarded waits again after a retry"
        f"\n    batchproc jobs list --kind {braked.kind} --failure-code {braked.code}"
        f"\n    batchproc kinds set {braked.kind} --resume"
        "\n    batchproc jobs retry JOB_ID"
    )


def _failures(rows: Sequence[dict[str, Any]], run_id: int) -> list[str]:
    groups = [list(group) for _, group in groupby(rows, key=itemgetter("tenant", "state", "failure_code"))]
    examples = EXAMPLES if len(groups) <= _MANY_GROUPS else 1
    text = [_group(group, examples) for group in groups]
    if rows and (more := rows[0]["groups"] - len(groups)) > 0:
        text.append(f"and {_many(more, 'more such group')}: batchproc report {run_id}")
    return text


def _group(rows: Sequence[dict[str, Any]], examples: int) -> str:
    first = rows[0]
    tenant, code, jobs = first["tenant"], first["failure_code"] or "internal_error", first["jobs"]
    if first["state"] == "discarded":
        what = f"{_many(jobs, 'job')} failed: {code}"
        more = f"batchproc jobs list --tenant {tenant} --state discarded --failure-code {code}"
    else:
        what = f"{_many(jobs, 'document')} partial, {_many(first['failed_pages'] or 0, 'page')} failed: {code}"
        more = f"batchproc documents list --tenant {tenant} --status partial"
    text = [f"{tenant}: {what}: {advice(code, first)}", *(f"    {example(row)}" for row in rows[:examples])]
    unnamed = jobs - len(text) + 1
    if unnamed > 0 and examples == 1:
        text[-1] += f" and {unnamed:,} more"
    elif unnamed > 0:
        text.append(f"    and {unnamed:,} more: {more}")
    return "\n".join(text)


def example(row: dict[str, Any]) -> str:
    """One failure on a line: the job, its document and, where the handler said more than a code, what."""
    what = f"job {row['job_id']} {row['kind']}"
    if row["document_id"] is not None:
        what += f" document {row['document_id']}"
    if row["path"] is not None:
        what += f" {terminal_path(row['path'])}"
    return what + (f" ({one_line(row['detail'], _DETAIL)})" if row["detail"] else "")
