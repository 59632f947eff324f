"""What the tables say of runs, by statements of the tests' own: what every screen, page and file has to agree with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg.rows import TupleRow

from tests.engine.running import Bench

T = TypeVar("T")
WAITING = ("scheduled", "available", "held")


@dataclass(frozen=True)
class Attempts:
    """Of one kind: how many ended how, and the worker seconds of all of them."""

    jobs: int
    outcomes: Counter[str]
    seconds: float


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        attempts: by kind.
        discarded: its jobs that were given up on, by (tenant, code).
        discarded_kinds: and by kind.
        partial: documents, by (tenant, code of the first page that failed).
        pages: of the documents that it read to the end; ``failed_pages`` of them.
        retried: failed attempts whose jobs came back, by (kind, code).
    """

    run_id: int
    exit_code: int
    seconds: float
    attempts: dict[str, Attempts]
    discarded: Counter[tuple[str, str]]
    discarded_kinds: Counter[str]
    partial: Counter[tuple[str, str]]
    pages: int
    failed_pages: int
    retried: Counter[tuple[str, str]]

    def ended(self, outcome: str) -> int:
        return sum(kind.outcomes[outcome] for kind in self.attempts.values())

    @property
    def worker_seconds(self) -> float:
        return sum(kind.seconds for kind in self.attempts.values())

    def slot_use(self, slots: int) -> float:
        """The share of so many workers' time that was spent on jobs."""
        return self.worker_seconds / (slots * self.seconds)

    @property
    def codes(self) -> Counter[str]:
        return summed((code, jobs) for (_, code), jobs in self.discarded.items())

    @property
    def counts(self) -> dict[str, int]:
        """As the summary names them."""
        return {
            "claimed": sum(kind.outcomes.total() for kind in self.attempts.values()),
            "completed": self.ended("completed"),
            "retried": self.retried.total(),
            "snoozed": self.ended("snoozed"),
            "rescued": 0,
            "discarded": self.discarded.total(),
            "cancelled": self.ended("cancelled"),
            "interrupted": self.ended("interrupted"),
            "partial": self.partial.total(),
        }

    def nights_for(self, left: Counter[str]) -> set[int]:
        """How many such runs would do what is left; two numbers where rounding decides.

        What is left costs the mean of the run's attempts that ended by themselves, kinds that it has not seen as much
        as the others; and a run is worth what this one has spent on them.
        """
        timed = {kind: of.outcomes["completed"] + of.outcomes["failed"] for kind, of in self.attempts.items()}
        known = {kind: jobs for kind, jobs in left.items() if timed.get(kind)}
        needed = sum(jobs * self.attempts[kind].seconds / timed[kind] for kind, jobs in known.items())
        share = needed * left.total() / sum(known.values()) / self.worker_seconds
        return {max(1, math.ceil(share - 0.02)), max(1, math.ceil(share + 0.02))}


def facts_of(bench: Bench, run_id: int) -> RunFacts:
    [(exit_code, seconds)] = bench.rows(
        "select exit_code, extract(epoch from finished_at - started_at)::float8 from batchproc.runs where run_id = %s",
        run_id,
    )
    [(pages, failed_pages)] = bench.rows(
        "select count(*), count(*) filter (where p.state = 'failed')"
        " from batchproc.ocr_pages p join batchproc.ocr_revisions r using (revision_id, tenant_id)"
        " where r.state = 'complete' and r.run_id = %s",
        run_id,
    )
    discarded = _discarded(bench, run_id)
    return RunFacts(
        run_id=run_id,
        exit_code=exit_code,
        seconds=seconds,
        attempts=_attempts(bench, run_id),
        discarded=summed(((slug, code), jobs) for slug, _, code, jobs in discarded),
        discarded_kinds=summed((kind, jobs) for _, kind, _, jobs in discarded),
        partial=_counted(
            bench,
            "select t.slug, (select p.failure_code from batchproc.ocr_pages p"
            "                where p.revision_id = r.revision_id and p.state = 'failed' order by p.page limit 1),"
            "       count(*)"
            " from batchproc.ocr_revisions r join batchproc.tenants t using (tenant_id)"
            " where r.state = 'complete' and r.run_id = %s and exists ("
            "     select from batchproc.ocr_pages p where p.revision_id = r.revision_id and p.state = 'failed')"
            " group by 1, 2",
            run_id,
        ),
        pages=pages,
        failed_pages=failed_pages,
        retried=_counted(
            bench,
            "select j.kind, a.failure_code, count(*)"
            " from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id, tenant_id)"
            " where a.run_id = %s and a.outcome = 'failed'"
            "   and (j.state <> 'discarded' or exists (select from batchproc.job_attempts l"
            "                                          where l.job_id = a.job_id and l.ended_at > a.ended_at))"
            " group by 1, 2",
            run_id,
        ),
    )


def states(bench: Bench) -> dict[str, int]:
    """Jobs by state, of those that there are."""
    return dict(bench.rows("select state, count(*) from batchproc.processing_jobs group by 1"))


def left_by_kind(bench: Bench) -> Counter[str]:
    """Jobs that wait now."""
    return Counter(
        dict(
            bench.rows(
                "select kind, count(*) from batchproc.processing_jobs where state = any(%s) group by 1", list(WAITING)
            )
        )
    )


def fates(bench: Bench) -> dict[tuple[str, str], tuple[str, str | None, int | None]]:
    """Every document by tenant and path: status, failure code, pages."""
    rows = bench.rows(
        "select t.slug, d.root, d.path, d.status, d.failure_code, d.page_count"
        " from batchproc.documents d join batchproc.tenants t using (tenant_id)"
    )
    return {(slug, f"{bytes(root).decode()}/{bytes(path).decode()}"): tuple(fate) for slug, root, path, *fate in rows}


def _attempts(bench: Bench, run_id: int) -> dict[str, Attempts]:
    outcomes = bench.rows(
        "select j.kind, a.outcome, count(*)"
        " from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id, tenant_id)"
        " where a.run_id = %s group by 1, 2",
        run_id,
    )
    sums = bench.rows(
        "select j.kind, count(distinct a.job_id), sum(a.seconds)::float8"
        " from batchproc.job_attempts a join batchproc.processing_jobs j using (job_id, tenant_id)"
        " where a.run_id = %s group by 1",
        run_id,
    )
    return {
        kind: Attempts(jobs, Counter({outcome: count for of, outcome, count in outcomes if of == kind}), seconds)
        for kind, jobs, seconds in sums
    }


def _discarded(bench: Bench, run_id: int) -> list[TupleRow]:
    return bench.rows(
        "select t.slug, j.kind, j.failure_code, count(*)"
        " from batchproc.processing_jobs j join batchproc.tenants t using (tenant_id)"
        " where j.run_id = %s and j.state = 'discarded' group by 1, 2, 3",
        run_id,
    )


def _counted(bench: Bench, statement: str, *values: Any) -> Counter[Any]:
    return Counter({(first, second): count for first, second, count in bench.rows(statement, *values)})


def summed(pairs: Iterable[tuple[T, int]]) -> Counter[T]:
    """The sums by key."""
    found: Counter[T] = Counter()
    for key, count in pairs:
        found[key] += count
    return found
