"""The summary of a run: what it did, and what somebody has to look at, worst first and on one screen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import TupleRow
from rich.cells import cell_len

from batchproc.core.brake import Braked
from batchproc.core.durations import duration
from batchproc.core.shown_text import one_line
from batchproc.core.throughput import rate
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.ops.advice import brake_advice
from batchproc.ops.failure_lines import EXAMPLES, NAMED_TENANTS, WIDTH, failure_lines, many
from batchproc.ops.kept_text import kept_line
from batchproc.queue.run_history import RunHistory

T = TypeVar("T")

SHOWN_GROUPS = 5
"""Failures of one tenant and code are told together; of more such groups than these the report tells."""
ASKED_GROUPS = SHOWN_GROUPS + NAMED_TENANTS
_SCREEN = 24  # lines
_TEXT = 200
_STORAGE = 600
"""Characters: what to do about a storage is said at the end, with its path once more."""
_PAUSED = ("kind is paused by the brake: batchproc kinds list", "kinds are paused by the brake: batchproc kinds list")
_LIST_SILENT = "batchproc jobs list --failure-code storage_unavailable"
_SILENT = (f"storage does not answer: {_LIST_SILENT}", f"storages do not answer: {_LIST_SILENT}")
_NEVER_FITS = ("kind takes longer than the whole window", "kinds take longer than the whole window")
_KEPT = (
    "tenant, kind or campaign keeps jobs back by a pause or a limit of 0",
    "tenants, kinds and campaigns keep jobs back by a pause or a limit of 0",
)
_WITHOUT_HANDLER = ("kind has jobs left and no handler here", "kinds have jobs left and no handler here")
# What is not broken over lines: a command within a sentence, which is to be copied, and a number with what it counts.
_UNBROKEN = re.compile(r"batchproc [^,;:)]*|exit \d+|\d[\d,]* [a-z]+,")
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class _Room:
    """How much is shown: groups of failures, examples of each, kinds that the brake has paused, of every other list so
    many, and in a list on one line so many names."""

    groups: int
    examples: int
    braked: int
    others: int
    names: int


# The first with which all of it is on one screen is taken; the last in any case.
_ROOMS = (
    _Room(SHOWN_GROUPS, EXAMPLES, 3, 3, 6),
    _Room(SHOWN_GROUPS, 1, 3, 3, 6),
    _Room(4, 1, 2, 2, 6),
    _Room(3, 1, 1, 2, 4),
    _Room(3, 1, 1, 1, 4),
    _Room(2, 1, 1, 1, 2),
    _Room(1, 1, 1, 0, 2),
    _Room(1, 1, 0, 0, 2),
)


@dataclass(frozen=True)
class Worked:
    """What a run got through. ``seconds`` of its workers; ``slots``: how many jobs it could work on at a time.

    ``lasted``: seconds from its start to its end as its row has them, which is what a report goes by. None for
    ``slots`` of a run that a node of an older release began.
    """

    pages: int = 0
    failed_pages: int = 0
    seconds: float = 0.0
    slots: int | None = None
    lasted: float | None = None


def worked(connection: Connection[TupleRow], history: RunHistory, run_id: int) -> Worked:
    """Counts what the run got through, from its attempts."""
    run = history.run(connection, run_id)
    if run is None:
        return Worked()
    until = run["until"]
    totals = history.totals(connection, run_id, since=run["started_at"], until=until)
    return Worked(**totals, slots=run["slots"], lasted=(until - run["started_at"]).total_seconds())


def plain(report: RunReport, done: Worked | None = None) -> dict[str, Any]:
    """The report under its stable keys. Without ``done`` nothing is told of that."""
    return {
        **report.counts.plain(),
        "left": report.left,
        "seconds": round(_lasted(report, done), 3),
        "storages": dict(report.counts.storages),
        "braked": {braked.kind: braked.code for braked in report.braked},
        "run_id": report.run_id,
        "exit_code": report.exit_code,
        "stopped": report.stopped,
        "codes": dict(report.counts.codes.most_common()),
        "partial_codes": dict(report.counts.partial_codes.most_common()),
        "left_by_kind": dict(report.left_by_kind),
        "window_ended": report.window_ended,
        "nights_left": report.nights_left,
        "kept": [kept._asdict() for kept in report.kept],
        "kept_more": report.kept_more,
        **({} if done is None else _worked_plain(report, done)),
    }


def lines(
    report: RunReport,
    failures: Sequence[dict[str, Any]],
    accepted: Collection[str],
    done: Worked | None = None,
    known: Collection[str] | None = None,
) -> list[str]:
    """The summary as text, worst first; what belongs together is one entry, with line breaks in it.

    The more there is to tell of, the less of each: it stays on one screen.

    Args:
        failures: rows of ``RunHistory.failures``, of ``ASKED_GROUPS`` groups.
        accepted: codes that nobody wants to hear of: they are counted, not listed.
        known: the kinds that these settings have a handler of; None when nobody can tell.
    """
    unknown = [] if known is None else [kind for kind in _left(report).items() if kind[0] not in known]
    listed = [row for row in failures if row["failure_code"] not in accepted]
    for room in _ROOMS:
        text = _entries(report, listed, accepted, unknown, done, room)
        if len(on_screen(text)) <= _SCREEN:
            break
    return text


def _entries(
    report: RunReport,
    failures: Sequence[dict[str, Any]],
    accepted: Collection[str],
    unknown: Sequence[tuple[str, int]],
    done: Worked | None,
    room: _Room,
) -> list[str]:
    counts = report.counts
    text = _some(report.braked, room.braked, _braked, _PAUSED)
    text.extend(_storages(counts, room.others))
    text.extend(failure_lines(failures, room.groups, room.examples, f"batchproc report {report.run_id}"))
    text.extend(_some(report.warnings, room.others, _warning, ("warning is in the log", "warnings are in the log")))
    text.extend(_undone(report, room))
    text.extend(kept_lines(report, room.others))
    text.extend(_some(unknown, room.others, _unknown, _WITHOUT_HANDLER))
    if counts.codes:
        text.append("failure codes: " + _named(dict(counts.codes.most_common()), "{1} {0:,}", room.names))
    if spared := {code: jobs for code, jobs in counts.partial_codes.most_common() if code in accepted}:
        text.append("partial with accepted codes: " + _named(spared, "{1} {0:,}", room.names))
    text.extend(_rates(report, done))
    shown = {name: jobs for name, jobs in counts.plain().items() if jobs or name in ("claimed", "completed")}
    counted = ", ".join(f"{jobs:,} {name}" for name, jobs in shown.items())
    took = duration(_lasted(report, done))
    text.append(f"run {report.run_id}: {counted}, {report.left:,} left, {took}, exit {report.exit_code}")
    return text


def kept_lines(report: RunReport, most: int) -> list[str]:
    """What waits for a person, so many of what keeps it."""
    return _some(report.kept, most, kept_line, _KEPT, report.kept_more)


def on_screen(entries: Iterable[str]) -> list[str]:
    """The lines of a summary within ``WIDTH`` columns; those that are to be copied, set in by four, stay whole."""
    shown = []
    for line in "\n".join(entries).splitlines():
        if line.startswith("    ") or cell_len(line) <= WIDTH:
            shown.append(line)
            continue
        joined = _UNBROKEN.sub(lambda found: found[0].replace(" ", _NO_BREAK), line)
        wrapped = textwrap.wrap(joined, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        shown += [part.replace(_NO_BREAK, " ") for part in wrapped]
    return shown


def _worked_plain(report: RunReport, done: Worked) -> dict[str, Any]:
    busy = _busy(report, done)
    return {
        "pages": done.pages,
        "failed_pages": done.failed_pages,
        "worker_seconds": round(done.seconds, 3),
        "slots": done.slots,
        "slot_use": None if busy is None else round(busy, 3),
    }


def _lasted(report: RunReport, done: Worked | None) -> float:
    return report.seconds if done is None or done.lasted is None else done.lasted


def _busy(report: RunReport, done: Worked) -> float | None:
    """The share of its workers' time that was spent on jobs, 0 to 1."""
    seconds = _lasted(report, done)
    if not done.slots or seconds <= 0:
        return None
    return min(1.0, done.seconds / (done.slots * seconds))


def _rates(report: RunReport, done: Worked | None) -> list[str]:
    seconds = _lasted(report, done)
    if done is None or not report.counts.claimed or seconds <= 0:
        return []
    bad = f" ({done.failed_pages:,} failed)" if done.failed_pages else ""
    pages = [(f"{many(done.pages, 'page')}{bad}", rate(done.pages, seconds))] if done.pages else []
    ended = report.counts.completed + report.counts.discarded + report.counts.cancelled
    # Where none came to its end, at least it was tried.
    jobs = (many(ended, "job") if ended else many(report.counts.claimed, "attempt"), rate(ended, seconds))
    took = duration(seconds)
    if not any(told for _, told in (*pages, jobs)):
        parts = [" and ".join(what for what, _ in (*pages, jobs)) + f" in {took}"]
    else:
        parts = [f"{what}, {told}" if told else f"{what} in {took}" for what, told in (*pages, jobs)]
    busy = _busy(report, done)
    if busy is not None:
        parts.append(f"{many(done.slots or 0, 'worker')} busy {busy:.0%} of the time")
    return ["; ".join(parts)]


def _some(
    items: Sequence[T], most: int, told: Callable[[T], str], besides: tuple[str, str], more: int = 0
) -> list[str]:
    """The first of them, and how many there are besides: of one, and of several. ``more``: of what is not in items."""
    text = [told(item) for item in items[:most]]
    if left_out := len(items) - len(text) + more:
        text.append(f"{'and ' if text else ''}{left_out:,} {'more ' if text else ''}{besides[left_out > 1]}")
    return text


def _named(numbers: Mapping[str, int], form: str, names: int) -> str:
    """So many of each, the first of them by name."""
    shown = ", ".join(form.format(number, name) for name, number in list(numbers.items())[:names])
    others = list(numbers.values())[names:]
    return f"{shown} and {sum(others):,} of {len(others):,} more" if others else shown


def _undone(report: RunReport, room: _Room) -> list[str]:
    text = []
    waiting = _left(report)
    left = f" ({_named(waiting, '{0:,} {1}', room.names)})" if waiting else ""
    if report.window_ended:
        told = f"its window ended before {many(report.left, 'job')}{left} could be done"
        if report.nights_left is not None:
            told += f": about {many(report.nights_left, 'more such night')}"
        text.append(told)
    elif report.stopped:
        undone = report.left or report.counts.interrupted
        text.append(f"stopped by a signal before everything was done{left}" if undone else "stopped by a signal")
    longest = sorted(report.too_long.items(), key=lambda item: (-item[1], item[0]))
    return text + _some(longest, room.others, _too_long, _NEVER_FITS)


def _too_long(kind: tuple[str, float]) -> str:
    name, seconds = kind
    return (
        f"{name} jobs take about {duration(seconds)} each, longer than the whole window: give them a longer one,"
        f" or run them by day:\n    batchproc run --kind {name}"
    )


def _left(report: RunReport) -> dict[str, int]:
    """What is left by kind, most first."""
    return {kind: jobs for kind, jobs in sorted(report.left_by_kind.items(), key=_largest) if jobs}


def _unknown(kind: tuple[str, int]) -> str:
    name, jobs = kind
    return (
        f"{many(jobs, f'{name} job')} left: no handler for it in these settings (handlers, BATCHPROC_CONF, PYTHONPATH)"
    )


def _largest(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _warning(warning: str) -> str:
    return f"warning: {one_line(warning, _TEXT)}"


def _storages(counts: Counts, most: int) -> list[str]:
    def told(storage: tuple[str, int]) -> str:
        said, jobs = storage
        wait, them = ("job waits", "it") if jobs == 1 else ("jobs wait", "them")
        return (
            f"{one_line(said, _STORAGE)} ({jobs:,} {wait}, without an attempt used): mount or mend it, the next run"
            f" takes {them} up\n    batchproc storage list"
        )

    return _some(counts.storages.most_common(), most, told, _SILENT)


def _braked(braked: Braked) -> str:
    return (
        f"kind {braked.kind} is paused by the brake: {braked.reason}: {brake_advice(braked.code)}, then resume it;"
        " a job that was discarded waits again after a retry"
        f"\n    batchproc jobs list --kind {braked.kind} --failure-code {braked.code}"
        f"\n    batchproc kinds set {braked.kind} --resume"
        "\n    batchproc jobs retry JOB_ID"
    )
