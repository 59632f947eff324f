"""Waiting for work, but not for too long."""

from __future__ import annotations

from threading import Event

import pytest

from batchproc.ops.within import OutOfTime, within


def test_what_is_done_in_time_gives_its_value_or_its_error() -> None:
    assert within(30, lambda: 7) == 7
    assert within(30, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(30, lambda: 1 // 0)


def test_what_takes_too_long_is_left_alone() -> None:
    go_on, done = Event(), Event()

    def work() -> None:
        go_on.wait(30)
        done.set()

    with pytest.raises(OutOfTime):
        within(0.05, work)
    go_on.set()
    assert done.wait(30)
