"""The time left of a run: by the one rule for estimates, at a bounded cost, and never one that nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest

from batchproc.database import connect
from batchproc.ops.estimates import Estimates
from batchproc.ops.run_ahead import RunAhead, RunLook, Silent, rest_of
from batchproc.queue.campaign_listing import LeftJobs, Used
from batchproc.queue.inspection_run import Due, NodeAtWork, Retries, RunInspection, RunningJob
from tests.handlers.running_job import Conn, add_tenant

OCR = Used(1, "ocr", 200.0, 100, 100, 0, 0, 100, 0, 0.0)
"""2 s a page."""
CLASSIFY = Used(1, "classify", 50.0, 100, 100, 0, 0, 0, 0, 0.0)
"""0.5 s a job."""
NOTHING, NO_RETRIES = Due(0, 0), Retries(0, None)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def add_past(connection: Conn, *past: Used) -> None:
    for used in past:
        connection.execute(
            """
            insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_ocr)
            values (%s, (clock_timestamp() at time zone 'UTC')::date, %s, %s, %s, %s)
            """,
            [used.tenant_id, used.kind, used.seconds, used.completed, used.pages_ocr],
        )


@dataclass
class Queue:
    """What an inspection finds; each statement takes so many seconds of the clock."""

    clock: float = 0.0
    counted: Due = NOTHING
    work: Sequence[LeftJobs] = ()
    running: Sequence[RunningJob] = ()
    later: Retries = NO_RETRIES
    count_takes: float = 0.0
    work_takes: float = 0.0
    asked: list[tuple[str, float]] = field(default_factory=list)
    nodes: Sequence[NodeAtWork] = ()
    lacking: int = 0
    lacking_takes: float = 0.0
    schema: str = "batchproc"

    def due(self, _: Conn) -> Due:
        self._ask("due", self.count_takes)
        return self.counted

    def due_work(self, _: Conn) -> Sequence[LeftJobs]:
        self._ask("work", self.work_takes)
        return self.work

    def running_work(self, _: Conn) -> Sequence[RunningJob]:
        return self.running

    def retries(self, _: Conn, _run_id: int, _within: float) -> Retries:
        self._ask("retries", self.count_takes)
        return self.later

    def at_work(self, _: Conn, _run_id: int) -> Sequence[NodeAtWork]:
        return self.nodes

    def unserved(self, _: Conn, _kinds: Collection[str]) -> int:
        self._ask("unserved", self.lacking_takes)
        return self.lacking

    def _ask(self, what: str, takes: float) -> None:
        self.asked.append((what, self.clock))
        self.clock += takes
        if takes > 10:
            raise psycopg.errors.QueryCanceled

    def ahead(self, **options: Any) -> RunAhead:
        return RunAhead(cast(RunInspection, self), 1, lambda: 60.0, workers=2, clock=lambda: self.clock, **options)


def test_a_page_counts_as_a_page_and_a_job_that_reads_none_as_its_kind_takes(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR, CLASSIFY)
    book, notes = LeftJobs(1, "ocr", 1, 400, 0, None), LeftJobs(1, "classify", 40, 0, 0, None)
    half_read = RunningJob(1, "ocr", None, 10, 0, 5, 10, 77.0)

    def left(*work: LeftJobs, running: Sequence[RunningJob] = (), **options: Any) -> float | None:
        queue = Queue(counted=Due(sum(part.jobs for part in work), len(running)), work=work, running=running)
        return queue.ahead(**options).look(connection).seconds_left

    assert left(book) == 800.0, "one job has one worker"
    assert left(notes) == 10.0
    assert left(book, notes) == 410.0
    assert left(running=[half_read]) == 10.0
    assert left(book, notes, running=[half_read]) == 415.0
    assert left(book, tells_time=False) is None, "it may end before that"
    assert left() is None


def test_what_runs_is_less_by_its_progress_or_by_its_time() -> None:
    estimates = Estimates([OCR, CLASSIFY])
    told = [
        (RunningJob(1, "ocr", None, 10, 0, None, None, 3.0), 17.0),
        (RunningJob(1, "ocr", None, 10, 0, None, None, 30.0), 0.0),
        (RunningJob(1, "ocr", None, 10, 0, 9, 10, 3.0), 2.0),
        (RunningJob(1, "ocr", None, 0, 1, 9, 12, 3.0), 6.0),  # it found 12 pages
        (RunningJob(1, "classify", None, 0, 0, 3, 4, 0.0), 0.125),
    ]
    assert [rest_of([job], estimates) for job, _ in told] == pytest.approx([seconds for _, seconds in told])
    assert rest_of([job for job, _ in told], estimates) == pytest.approx(25.125)
    assert rest_of([RunningJob(1, "export", None, 0, 0, 1, 2, 1.0)], estimates) is None


def test_of_kinds_without_a_past_it_is_told_as_it_goes_or_not_at_all(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR)
    known = LeftJobs(1, "ocr", 1, 1, 0, None)
    queue = Queue(counted=Due(110, 1), work=[LeftJobs(1, "export", 109, 0, 0, None), known])
    ahead, told = queue.ahead(), []
    for _ in range(12):
        told.append(ahead.look(connection).seconds_left)
        queue.clock += 1.0
        queue.counted = Due(queue.counted.waiting - 1, 1)
    assert told == [None] * 10 + [100.0, 99.0]
    queue.work = [known]
    assert ahead.look(connection).seconds_left == 2.0, "the past knows all of it now"


def test_the_more_a_look_costs_the_rarer_it_is_and_time_passes_in_between(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR)
    work = [LeftJobs(1, "ocr", 100_000, 100_000, 0, None)]
    queue = Queue(counted=Due(100_000, 0), work=work, later=Retries(3, 40.0), count_takes=0.25, work_takes=2.0)
    seen = looked(queue, connection, seconds=210.0)
    asked = {what: [at for name, at in queue.asked if name == what] for what in ("due", "work")}
    assert [later - at >= 2.0 / 0.02 for at, later in zip(asked["work"], asked["work"][1:], strict=False)] == [True] * 2
    assert min(later - at for at, later in zip(asked["due"], asked["due"][1:], strict=False)) >= 5.0
    assert [round(look.seconds_left or 0) for look in seen[:3]] == [100_000, 99_999, 99_998]
    assert [look.retries.next_seconds for look in seen[:4] if look.retries] == pytest.approx([40.0, 37.0, 36.0, 40.0])

    small = Queue(counted=Due(100, 0), work=work)
    looked(small, connection, seconds=5.0)
    assert [what for what, _ in small.asked] == ["due", "retries", "work"] * 5, (
        "what costs nothing is looked at each time"
    )


def test_what_takes_longer_than_it_was_to_take_ends_nobody_knows_when(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR)
    queue = Queue(counted=Due(2, 0), work=[LeftJobs(1, "ocr", 2, 2, 0, None)], work_takes=1.0)
    assert [seen.seconds_left for seen in looked(queue, connection, seconds=6.0)] == [2.0, 1.0, None, None, None]


def test_more_jobs_than_can_be_read_in_time_are_not_asked_for_again_and_again(connection: Conn) -> None:
    add_tenant(connection)
    queue = Queue(counted=Due(10**8, 0), work_takes=11.0)
    assert {(seen.due, seen.seconds_left) for seen in looked(queue, connection, seconds=60.0)} == {
        (queue.counted, None)
    }
    assert [what for what, _ in queue.asked].count("work") == 1

    queue = Queue(counted=Due(10**9, 0), count_takes=11.0)
    assert set(looked(queue, connection, seconds=60.0)) == {RunLook(None, None, None)}
    assert [what for what, _ in queue.asked] == ["due", "retries"]


def test_a_run_that_waits_for_a_silent_node_tells_until_when_and_no_time_left(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR)
    killed, other = UUID(int=1), UUID(int=2)
    ends = datetime(2026, 3, 1, tzinfo=UTC)
    works = [RunningJob(1, "ocr", None, 10, 0, None, None, 1.0)] * 2
    queue = Queue(counted=Due(0, 2), running=works, nodes=[NodeAtWork(killed, False, ends, 23.0, 2)])
    ahead = queue.ahead(lease=30.0)
    seen = ahead.look(connection)
    assert (seen.silent, seen.seconds_left) == (Silent(2, 1, False, 30.0), None), "its own node lives for no lease yet"
    queue.clock, queue.counted, queue.running = 24.0, NOTHING, ()
    queue.nodes = [NodeAtWork(killed, False, ends, 0.0, 2), NodeAtWork(other, False, None, 0.0, 1)]
    assert ahead.look(connection).silent == Silent(3, 2, True, 6.0)
    queue.clock = 31.0
    assert ahead.look(connection).silent == Silent(3, 2, True, 0.0)

    queue.nodes = [NodeAtWork(killed, False, ends + timedelta(seconds=9), 25.0, 2)]
    assert ahead.look(connection).silent is None, "it was heard of"
    queue.nodes = [NodeAtWork(other, False, None, 0.0, 2), NodeAtWork(UUID(int=3), True, ends, 25.0, 1)]
    queue.counted, queue.running = Due(0, 1), works[:1]
    busy = ahead.look(connection)
    assert (busy.silent, busy.seconds_left) == (None, 19.0), "there is work to be done beside"
    queue.nodes, queue.counted = [NodeAtWork(other, False, None, 0.0, 2)], Due(1, 0)
    assert ahead.look(connection).silent is None


def test_while_all_that_waits_lacks_a_language_no_time_is_left(connection: Conn) -> None:
    assert add_tenant(connection) == 1
    add_past(connection, OCR)
    queue = Queue(counted=Due(2, 0), work=[LeftJobs(1, "ocr", 2, 2, 0, None)], lacking=2)
    ahead, told = queue.ahead(language_kinds=["ocr"], lease=30.0), []
    for _ in range(3):
        told.append(ahead.look(connection))
        queue.clock += 4.0
    assert [(look.unserved, look.seconds_left) for look in told] == [(10.0, None), (6.0, None), (2.0, None)]
    queue.lacking = 1
    look = ahead.look(connection)
    assert (look.unserved, look.seconds_left) == (None, 2.0)
    queue.lacking, queue.counted = 2, Due(2, 1)
    assert ahead.look(connection).unserved is None
    queue.counted = Due(2, 0)
    assert queue.ahead().look(connection).unserved is None, "of no kind such jobs are given up on"


def test_how_much_lacks_a_language_is_asked_for_as_rarely_as_that_takes_long(connection: Conn) -> None:
    queue = Queue(counted=Due(10**6, 0), lacking=10**6, lacking_takes=0.5)
    seen = looked(queue, connection, seconds=30.0, language_kinds=["ocr"], lease=30.0)
    asked = [at for what, at in queue.asked if what == "unserved"]
    assert len(asked) == 3
    assert min(later - at for at, later in pairwise(asked)) >= 0.5 / 0.05
    assert None not in [look.unserved for look in seen], "in between it is as it was"

    endless = Queue(counted=Due(10**8, 0), lacking=10**8, lacking_takes=11.0)
    [first, *_] = looked(endless, connection, seconds=60.0, language_kinds=["ocr"])
    assert (first.due, first.unserved) == (endless.counted, None), "nobody can tell, and the rest is told"
    assert [what for what, _ in endless.asked].count("unserved") == 1


def looked(queue: Queue, connection: Conn, *, seconds: float, **options: Any) -> list[RunLook]:
    """What is seen, once a second."""
    ahead, seen = queue.ahead(**options), []
    while queue.clock < seconds:
        seen.append(ahead.look(connection))
        queue.clock += 1.0
    return seen
