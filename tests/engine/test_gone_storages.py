"""Which endings put off what else lies on a storage, and which do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from batchproc.core import transition
from batchproc.core.fairness import Queue
from batchproc.core.floors import FRONT, Place
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, ErrorClass, Failed, Snoozed
from batchproc.core.transition import Transition
from batchproc.engine.gone_storages import IN_A_ROW, GoneStorages
from batchproc.queue.node_store import NodeStore
from batchproc.queue.upkeep import PutOff

GONE = Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable", "StorageUnavailable at ocr.py:1", "/a is gone")


class Store(NodeStore):
    """Puts off what the test says, until that is 0, and notes what was asked of it."""

    def __init__(self, *jobs: int | psycopg.Error) -> None:
        super().__init__("batchproc", uuid4(), {})
        self._jobs = list(jobs)
        self.asked: list[tuple[Queue, list[int]]] = []
        self.places: list[Place] = []

    def put_off(
        self, connection: Any, queue: Queue, job_ids: Sequence[int], seconds: float, after: Place = FRONT
    ) -> PutOff:
        self.asked.append((queue, list(job_ids)))
        self.places.append(after)
        found = self._jobs.pop(0)
        if isinstance(found, psycopg.Error):
            raise found
        return PutOff(found, Place(5, after.job_id + 2000) if found else None)


def claim(job_id: int, kind: str = "ocr") -> Claim:
    return Claim(job_id, uuid4(), 1, kind, 1, 5, 1, 5, 0, 0, 0)


def gone(held: Claim, told: str | None = "/a is gone") -> Transition:
    return transition.postponed(held, 60.0, replace(GONE, detail=told))


def note(storages: GoneStorages, job_ids: range, told: str = "/a is gone", kind: str = "ocr") -> None:
    for job_id in job_ids:
        held = claim(job_id, kind)
        storages.note(held, gone(held, told))


def test_twenty_jobs_in_a_row_are_enough_batch_by_batch() -> None:
    store = Store(2000, 500, 0)
    storages = GoneStorages(store)
    note(storages, range(IN_A_ROW - 1))
    storages.put_off(None, Event())  # type: ignore[arg-type]  # the store of the test needs none
    assert store.asked == []
    note(storages, range(IN_A_ROW - 1, IN_A_ROW))
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert store.asked == [(Queue(1, 1, "ocr"), list(range(IN_A_ROW)))] * 3
    assert store.places == [FRONT, Place(5, 2000), Place(5, 4000)]
    assert storages.jobs() == {"/a is gone": 2500}
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert len(store.asked) == 3, "that was all"


@pytest.mark.parametrize(
    "ending",
    [
        lambda held: transition.completed(held, Completed()),
        lambda held: gone(held, "/b is gone"),
    ],
    ids=["completed", "another storage"],
)
def test_a_row_is_broken_by_what_says_something_else(ending: Any) -> None:
    store = Store()
    storages = GoneStorages(store)
    note(storages, range(IN_A_ROW - 1))
    held = claim(99)
    storages.note(held, ending(held))
    note(storages, range(100, 100 + IN_A_ROW - 1))
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert store.asked == []


def test_a_row_is_not_broken_by_other_queues_nor_by_what_says_nothing() -> None:
    store = Store(0)
    storages = GoneStorages(store)
    note(storages, range(IN_A_ROW - 1))
    held = claim(99)
    storages.note(held, transition.snoozed(held, Snoozed(5.0)))
    note(storages, range(50, 60), kind="thumbnail")
    note(storages, range(IN_A_ROW - 1, IN_A_ROW))
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert len(store.asked) == 1


def test_a_worker_that_could_not_begin_and_one_job_again_and_again_say_nothing_of_a_storage() -> None:
    store = Store()
    storages = GoneStorages(store)
    for job_id in range(2 * IN_A_ROW):
        held = claim(job_id)
        storages.note(held, transition.postponed(held, 60.0, replace(GONE, error_type=None)))
        storages.note(claim(1), gone(claim(1)))
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert store.asked == []


def test_what_the_database_refused_stays_due_and_a_stop_ends_it() -> None:
    store = Store(10, psycopg.OperationalError("gone"), 5, 0)
    storages = GoneStorages(store)
    note(storages, range(IN_A_ROW))
    with pytest.raises(psycopg.OperationalError):
        storages.put_off(None, Event())  # type: ignore[arg-type]
    stopped = Event()
    stopped.set()
    storages.put_off(None, stopped)  # type: ignore[arg-type]
    assert len(store.asked) == 2
    storages.put_off(None, Event())  # type: ignore[arg-type]
    assert storages.jobs() == {"/a is gone": 15}


def test_much_is_put_off_a_few_batches_at_a_time() -> None:
    store = Store(*[2000] * 7, 0)
    storages = GoneStorages(store)
    note(storages, range(IN_A_ROW))
    assert not storages.put_off(None, Event())  # type: ignore[arg-type]
    assert len(store.asked) == 5
    assert storages.put_off(None, Event())  # type: ignore[arg-type]
    assert store.places == [FRONT, *(Place(5, 2000 * batch) for batch in range(1, 8))]
    assert storages.jobs() == {"/a is gone": 14000}
