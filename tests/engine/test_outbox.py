"""What a worker writes of its outcomes and its node reads, whenever it looks and wherever the worker was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.engine.pool.outbox import BYTES, LARGEST_REPLY, OutboxReader, OutboxWriter, Record

Ends = tuple[OutboxWriter, OutboxReader]


@contextmanager
def both_ends(folder: Path) -> Iterator[Ends]:
    reader = OutboxReader(folder / "outbox")
    writer = OutboxWriter(folder / "outbox")
    try:
        yield writer, reader
    finally:
        writer.close()
        reader.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    with both_ends(tmp_path) as ends:
        ends[0].begin(ends[1].begin())
        yield ends


def test_nothing_is_written_yet(ends: Ends) -> None:
    assert ends[1].take() == []


def test_each_outcome_is_read_once_and_as_soon_as_it_is_written(ends: Ends) -> None:
    writer, reader = ends
    assert writer.put(0, 0.5, b"first")
    assert reader.take() == [Record(0, 0.5, b"first")]
    assert writer.skip(1)
    assert writer.put(2, 1.5, b"third")
    assert reader.take() == [Record(1, 0.0, None), Record(2, 1.5, b"third")]
    assert reader.take() == []


def test_what_an_earlier_sending_left_is_not_read_again(ends: Ends) -> None:
    writer, reader = ends
    for position in range(3):
        writer.put(position, 0.0, b"old")
    assert len(reader.take()) == 3
    number = reader.begin()
    assert reader.take() == []
    writer.begin(number)
    writer.put(0, 0.0, b"new")
    assert reader.take() == [Record(0, 0.0, b"new")]


def test_what_was_never_read_of_an_earlier_sending_is_lost_with_it(ends: Ends) -> None:
    writer, reader = ends
    writer.put(0, 0.0, b"unread")
    number = reader.begin()
    writer.begin(number)
    assert reader.take() == []


def test_what_is_too_large_or_finds_no_room_is_refused_and_harms_nothing(ends: Ends) -> None:
    writer, reader = ends
    assert not writer.put(0, 0.0, b"x" * (LARGEST_REPLY + 1))
    count = 0
    while writer.put(count, 0.0, b"x" * LARGEST_REPLY):
        count += 1
    assert count == BYTES // LARGEST_REPLY - 1
    assert len(reader.take()) == count
    while writer.put(0, 0.0, b"y" * 100):
        count += 1
    while writer.skip(0):
        count += 1
    assert reader.take()[-1].reply is None
    assert reader.take() == []


@given(replies=st.lists(st.binary(min_size=1, max_size=40), max_size=12), looks=st.lists(st.booleans(), max_size=12))
def test_every_outcome_comes_through_however_often_one_looks(replies: list[bytes], looks: list[bool]) -> None:
    with TemporaryDirectory() as folder, both_ends(Path(folder)) as (writer, reader):
        writer.begin(reader.begin())
        seen = []
        for position, reply in enumerate(replies):
            assert writer.put(position, position / 2, reply)
            if position < len(looks) and looks[position]:
                seen += reader.take()
        seen += reader.take()
        assert seen == [Record(position, position / 2, reply) for position, reply in enumerate(replies)]


@given(
    replies=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6),
    cut=st.integers(0, 400),
    before=st.binary(max_size=400),
)
def test_a_write_that_was_torn_leaves_those_before_it(replies: list[bytes], cut: int, before: bytes) -> None:
    """The worker was killed when so many bytes were written; behind them is what was there before."""
    with TemporaryDirectory() as folder, both_ends(Path(folder)) as (writer, reader):
        writer.begin(reader.begin())
        ends_at = []
        for position, reply in enumerate(replies):
            writer.put(position, 0.0, reply)
            ends_at.append(writer._offset)
        written = bytes(writer._memory[: ends_at[-1]])
        writer._memory[:] = before.ljust(BYTES, b"\0")
        writer._memory[: min(cut, len(written))] = written[:cut]

        found = reader.take()

        whole = sum(end <= cut for end in ends_at)
        assert found[:whole] == [Record(position, 0.0, reply) for position, reply in enumerate(replies[:whole])]
        assert len(found) == whole or written[: ends_at[whole]] == writer._memory[: ends_at[whole]]


@given(junk=st.binary(max_size=300))
def test_junk_is_no_outcome(junk: bytes) -> None:
    with TemporaryDirectory() as folder, both_ends(Path(folder)) as (writer, reader):
        writer._memory[: len(junk)] = junk
        reader.begin()
        assert reader.take() == []
