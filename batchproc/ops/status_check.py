"""What a monitoring system is told: somebody must notice the night that never ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from batchproc.core.counted import counted, waiting
from batchproc.core.durations import duration
from batchproc.ops.kept_text import kept_name
from batchproc.queue.inspection_night import Nights

_NEVER = (
    "no run has ever ended well: is cron's line there, and batchproc in its PATH? A night with --tenant, --kind or"
    " --lane is checked with the same"
)
_ENDED_WITH = {
    1: "documents failed or jobs were discarded: batchproc report",
    3: "the database, a storage or something else around it failed, or the brake stopped it: see its mail or log",
}

_NAMED = 5
"""So many of what keeps jobs are named."""


class Level(IntEnum):
    """The exit codes of monitoring plugins (Monitoring Plugins Development Guidelines, section 2.2)."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True)
class Verdict:
    """The worst level, why, and the numbers behind it."""

    level: Level
    text: str
    figures: dict[str, Any] = field(default_factory=dict)

    def line(self, max_age: float) -> str:
        """As monitoring systems take it: the text, and behind a bar the performance data."""
        told = f"{self.level.name} - {self.text}"
        if not self.figures:
            return told
        age, wait = self.figures["success_age_seconds"], self.figures["longest_wait_seconds"]
        data = [
            *([] if age is None else [f"success_age={age:.0f}s;;{max_age:.0f}"]),
            f"longest_wait={wait:.0f}s;{max_age:.0f}",
            f"waiting={self.figures['waiting']}",
            f"without_handler={sum(self.figures['without_handler'].values())}",
            f"kept={self.figures['kept']}",
        ]
        return f"{told} | {' '.join(data)}"

    def plain(self) -> dict[str, Any]:
        """Under stable keys."""
        return {"status": self.level.name.lower(), "code": int(self.level), "text": self.text, **self.figures}


def unknown(why: str) -> Verdict:
    """Nobody can tell how the nights go, such as when the database is away."""
    return Verdict(Level.UNKNOWN, " ".join(why.replace("|", "/").split()))


def judge(night: Nights, max_age: float) -> Verdict:
    """How the nights go.

    Critical: no run has ended well (exit code 0 or 1) within ``max_age`` seconds and none goes on, the last one ended
    with another code or was lost with its node, or a brake has paused a kind. Warning: the last one ended with 1,
    a due job that no ``reprocess`` enqueued waits longer than ``max_age`` (those may take many nights), or jobs wait of
    a kind that no run of late had a handler of. What a person has paused or given a limit of 0 is told of at the end,
    and is no fault.
    """
    found = sorted(_problems(night, max_age), key=lambda problem: -problem[0])
    level = found[0][0] if found else Level.OK
    text = "; ".join([*([text for _, text in found] or [_well(night)]), *_kept(night)])
    figures = {
        "last_success_run": night.good_run,
        "last_success_at": night.good_at,
        "success_age_seconds": night.good_age,
        "last_run": night.last_run,
        "last_exit_code": night.last_code,
        "going": night.going,
        "waiting": night.waiting,
        "longest_wait_seconds": night.longest_wait,
        "braked": night.braked,
        "without_handler": night.without_handler,
        "kept": night.kept_jobs,
        "kept_by": [kept._asdict() for kept in night.kept],
        "kept_by_more": night.kept_more,
        "max_age_seconds": max_age,
    }
    return Verdict(level, text, figures)


def _problems(night: Nights, max_age: float) -> Sequence[tuple[Level, str]]:
    found: list[tuple[Level, str]] = []
    if night.good_age is None and not night.going:
        found.append((Level.CRITICAL, _NEVER))
    elif night.good_age is not None and night.good_age > max_age and not night.going:
        found.append((Level.CRITICAL, f"no run has ended well for {duration(night.good_age)}: see cron's log"))
    if night.last_run is not None and night.last_at is None:
        found.append((Level.CRITICAL, f"run {night.last_run} was lost with its node: see the log of its machine"))
    elif night.last_code not in (None, 0):
        level = Level.WARNING if night.last_code == 1 else Level.CRITICAL
        why = _ENDED_WITH.get(night.last_code or 0, "see its mail or log")
        found.append((level, f"run {night.last_run} ended with {night.last_code}: {why}"))
    if night.braked:
        why = f"the brake has paused {', '.join(night.braked)}: batchproc kinds list"
        found.append((Level.CRITICAL, why))
    if night.without_handler:
        found.append((Level.WARNING, _unserved(night.without_handler)))
    if night.longest_wait > max_age:
        text = f"a due job waits for {duration(night.longest_wait)}: batchproc status, then batchproc why JOB_ID"
        found.append((Level.WARNING, text))
    return found


def _unserved(kinds: Mapping[str, int]) -> str:
    jobs = ", ".join(counted(jobs, f"{kind} job") for kind, jobs in sorted(kinds.items()))
    settings = "see handlers: of the settings of the night (BATCHPROC_CONF, PYTHONPATH)"
    return f"no run of late had a handler for what waits: {jobs}: {settings}"


def _kept(night: Nights) -> list[str]:
    """What somebody wanted to wait: whoever looks is told that it does."""
    if not night.kept:
        return []
    named = [f"{kept_name(kept)} ({kept.jobs:,})" for kept in night.kept[:_NAMED]]
    unnamed = len(night.kept) - len(named) + night.kept_more
    more = [f"{unnamed:,} more"] if unnamed else []
    return [f"{waiting(night.kept_jobs)} for somebody: {', '.join(named + more)}"]


def _well(night: Nights) -> str:
    due = waiting(night.waiting, "due")
    if night.good_age is None or night.going:
        return f"{night.going} {'run goes' if night.going == 1 else 'runs go'} on; {due}"
    return f"run {night.good_run} ended {duration(night.good_age)} ago with {night.good_code}; {due}"
