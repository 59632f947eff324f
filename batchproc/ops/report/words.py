"""What a report says in words: its verdict, and the figures at its head."""

from __future__ import annotations

from batchproc.core.durations import duration
from batchproc.core.throughput import per
from batchproc.ops.report.model import FailureExample, FailureGroup, Report


def verdict(report: Report) -> str:
    """How it ended, in a sentence."""
    subject = report.subject
    if subject.goes_on:
        return f"It goes on since {duration(subject.seconds)}."
    if subject.command is None and subject.finished_at is None:
        last = f" Its last attempt ended after {duration(subject.seconds)}." if subject.seconds else ""
        return f"It never said that it ended: its node was killed, or lost the database.{last}"
    took = f"It took {duration(subject.seconds)}"
    return f"{took}." if subject.exit_code is None else f"{took} and ended with exit code {subject.exit_code}."


def head(report: Report) -> tuple[tuple[str, str], ...]:
    """The figures to begin with, as (what, how many)."""
    subject = report.subject
    completed = sum(kind.completed for kind in report.kinds)
    # A run says at its end how many it gave up on, those without an attempt too; until then its attempts are counted.
    discarded = subject.counts.get("discarded", sum(kind.discarded for kind in report.kinds))
    partial = sum(group.jobs for group in report.failures if group.partial)
    figures = [("jobs completed", f"{completed:,}"), ("given up on", f"{discarded:,}")]
    if partial:
        figures.append(("documents partial", f"{partial:,}"))
    if report.pages:
        figures.append(("pages", f"{report.pages:,}"))
        # Of a run that was over sooner, how long it took stands above.
        if (a_minute := per(60, report.pages, subject.seconds)) is not None:
            figures.append(("pages a minute", f"{a_minute:,.1f}"))
    if report.failed_pages:
        figures.append(("pages failed", f"{report.failed_pages:,}"))
    if report.slot_use is not None:
        figures.append((f"of {subject.slots} workers' time used", f"{report.slot_use:.0%}"))
    if subject.left is not None:
        figures.append(("left", f"{subject.left:,}"))
    return tuple(figures)


def group_title(group: FailureGroup) -> str:
    """What failed, without whose it is."""
    if not group.partial:
        return f"{group.failure_code}, {group.jobs:,} job{_s(group.jobs)}"
    pages = f"{group.failed_pages:,} page{_s(group.failed_pages)} failed"
    return f"{group.failure_code}, {group.jobs:,} partial document{_s(group.jobs)}, {pages}"


def retaken(report: Report) -> str | None:
    """That some of what was given up on has been retried, and which command tells what came of that."""
    jobs = report.retried_since
    if not jobs:
        return None
    told = f"retried since: {jobs:,} of the jobs given up on"
    if report.subject.command is not None:
        return f"{told}; what came of that: batchproc jobs list --campaign {report.subject.id}"
    found = [example.job_id for group in report.failures for example in group.examples if example.now is not None]
    # Ranges of a document are told of as one, and of many jobs not all are named.
    which = str(found[0]) if len(found) == jobs == 1 else "ID"
    return f"{told}; what came of {'it' if jobs == 1 else 'each'}: batchproc jobs show {which}"


def pruned(report: Report) -> str | None:
    """That some of what it did is not counted here."""
    subject = report.subject
    if not subject.pruned:
        return None
    what = "attempt" if subject.command is None else "job"
    were, are = ("has", "is") if subject.pruned == 1 else ("have", "are")
    return f"{subject.pruned:,} of its {what}s {were} been pruned, and {are} not counted here"


def now(example: FailureExample) -> str:
    """What became of the job since, behind all else that is told of it."""
    return "" if example.now is None else f"; now {example.now}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"
