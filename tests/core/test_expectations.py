"""How long jobs are expected to take, and how many nights are left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.expectations import PAST_COUNTS_AS, Expectations, Usual


def seen(past: dict[str, Usual] | None = None, **now: list[float]) -> Expectations:
    expected = Expectations()
    expected.remember(past or {})
    for kind, times in now.items():
        for seconds in times:
            expected.note(kind, seconds)
    return expected


def test_the_mean_of_this_run() -> None:
    expected = seen(ocr=[10.0, 20.0], classify=[0.5])
    assert (expected.seconds("ocr"), expected.seconds("classify"), expected.seconds("other")) == (15.0, 0.5, None)


def test_earlier_days_say_it_until_this_run_has_seen_enough() -> None:
    past = {"ocr": Usual(10_000, 100_000.0)}
    assert seen(past).seconds("ocr") == 10.0
    assert seen(past, ocr=[40.0] * PAST_COUNTS_AS).seconds("ocr") == 25.0
    assert seen(past, ocr=[40.0] * 2000).seconds("ocr") == pytest.approx(40.0, rel=0.01)
    assert seen({"ocr": Usual(1, 10.0)}, ocr=[40.0]).seconds("ocr") == 25.0, "one attempt is not worth twenty"


def test_a_kind_is_withheld_when_it_is_expected_to_take_longer() -> None:
    expected = seen({"slow": Usual(3, 3000.0)}, quick=[0.1])
    assert expected.longer_than(999.0) == {"slow"}
    assert expected.longer_than(1000.0) == frozenset()
    assert expected.longer_than(0.0) == {"slow", "quick"}
    assert "never_seen" not in expected.longer_than(0.0)


def test_nights_left_by_what_this_one_has_done() -> None:
    expected = seen(ocr=[10.0] * 100)
    assert expected.windows({"ocr": 100}, workers=4, length=3600, claiming=3600) == 1
    assert expected.windows({"ocr": 101}, workers=4, length=3600, claiming=3600) == 2
    assert expected.windows({"ocr": 1000}, workers=4, length=3600, claiming=3600) == 10
    assert expected.windows({"ocr": 1}, workers=4, length=3600, claiming=3600) == 1
    assert expected.windows({}, workers=4, length=3600, claiming=3600) is None


def test_a_night_that_has_done_nothing_is_worth_what_its_workers_could_have() -> None:
    expected = seen({"ocr": Usual(10, 100.0)})
    assert expected.windows({"ocr": 1441}, workers=4, length=3600, claiming=3600) == 2


def test_such_a_night_is_worth_the_time_in_which_it_claims() -> None:
    expected = seen({"ocr": Usual(10, 100.0)})
    assert expected.windows({"ocr": 720}, workers=4, length=3600, claiming=1800) == 1
    assert expected.windows({"ocr": 721}, workers=4, length=3600, claiming=1800) == 2
    assert [expected.windows({"ocr": 1}, workers=4, length=30, claiming=time) for time in (0.0, -1.0)] == [None, None]


def test_a_window_that_is_mostly_its_end_tells_nothing_of_a_night() -> None:
    expected = seen(ocr=[0.5])
    assert expected.windows({"ocr": 26}, workers=1, length=31, claiming=1) is None
    assert expected.windows({"ocr": 26}, workers=1, length=61, claiming=31) == 26


def test_kinds_that_do_not_fit_are_left_out_and_unknown_ones_are_as_the_others() -> None:
    expected = seen({"huge": Usual(1, 7200.0)}, ocr=[10.0] * 10)
    assert expected.windows({"huge": 5}, workers=1, length=3600, claiming=3600) is None
    assert expected.windows({"huge": 5, "ocr": 10}, workers=1, length=3600, claiming=3600) == 1
    assert expected.windows({"ocr": 10, "never_seen": 10}, workers=1, length=3600, claiming=3600) == 2
    assert expected.windows({"never_seen": 10}, workers=1, length=3600, claiming=3600) is None


@given(times=st.lists(st.floats(0, 1e5), max_size=50), left=st.integers(0, 10**9))
def test_more_left_never_takes_fewer_nights(times: list[float], left: int) -> None:
    expected = seen(kind=times)
    some, more = (
        expected.windows({"kind": count}, workers=2, length=1e6, claiming=1e6) for count in (left, left + 1000)
    )
    assert some is None or (more is not None and 1 <= some <= more)
