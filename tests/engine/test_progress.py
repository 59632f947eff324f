from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.engine.pool.progress import Progress, ProgressReader, ProgressWriter


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[ProgressWriter, ProgressReader]]:
    reader = ProgressReader(tmp_path / "progress")
    writer = ProgressWriter(tmp_path / "progress")
    yield writer, reader
    writer.close()
    reader.close()


Ends = tuple[ProgressWriter, ProgressReader]


def test_nothing_is_written_yet(ends: Ends) -> None:
    assert ends[1].read() == Progress()


def test_what_is_written_is_read(ends: Ends) -> None:
    writer, reader = ends
    claim_id, before = uuid4(), time.monotonic()
    writer.begin(claim_id)
    writer.set(3, 10)
    writer.beat()
    writer.checkpoint()
    writer.note_backend(77)
    found = reader.read()
    assert (found.claim_id, found.done, found.total, found.beats) == (claim_id, 3, 10, 3)
    assert (found.checkpoints, found.backend_pid) == (1, 77)
    assert before <= found.last_beat_monotonic <= time.monotonic()


def test_a_new_job_begins_from_nothing_but_keeps_the_connection(ends: Ends) -> None:
    writer, reader = ends
    first, second = uuid4(), uuid4()
    writer.begin(first)
    writer.set(3, 10)
    writer.note_backend(77)
    writer.begin(second)
    found = reader.read()
    assert (found.claim_id, found.done, found.total, found.beats, found.backend_pid) == (second, 0, 0, 0, 77)


def test_a_record_torn_by_a_kill_leaves_the_one_before(ends: Ends) -> None:
    writer, reader = ends
    writer.begin(uuid4())
    writer.set(1, 10)
    writer.set(2, 10)
    newest = (writer._sequence % 2) * 256
    writer._memory[newest + 30] ^= 0xFF
    assert reader.read().done == 1


def test_numbers_out_of_range_do_not_fail_the_job(ends: Ends) -> None:
    writer, reader = ends
    writer.set(2**70, -(2**70))
    assert (reader.read().done, reader.read().total) == (2**63 - 1, -(2**63))


def test_the_node_asks_to_stop(ends: Ends) -> None:
    writer, reader = ends
    assert not writer.stopping()
    reader.ask_to_stop()
    assert writer.stopping()


def test_no_reader_ever_sees_half_a_record(ends: Ends) -> None:
    writer, reader = ends
    writer.begin(uuid4())
    done = threading.Event()

    def write() -> None:
        for number in range(20_000):
            writer.set(number, number)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = -1
    while not done.is_set():
        found = reader.read()
        assert found.claim_id is not None
        assert found.done == found.total >= seen
        seen = found.done
    thread.join()
    assert reader.read().done == 19_999
