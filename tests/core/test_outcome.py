"""Outcomes are plain data: equal after they crossed a process boundary."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed

TEXTS = st.none() | st.text()
ARGS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=3)
FOLLOW_UPS = st.builds(FollowUp, st.text(), ARGS, st.none() | st.integers(), TEXTS)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Completed, TEXTS, st.lists(FOLLOW_UPS, max_size=3).map(tuple), st.booleans()),
    st.builds(Failed, st.sampled_from(ErrorClass), st.text(), TEXTS, TEXTS),
    st.builds(Snoozed, st.floats(allow_nan=False)),
    st.builds(Interrupted, st.text()),
    st.builds(Cancelled),
)


@given(OUTCOMES, st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_an_outcome_survives_pickling(outcome: Outcome, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(outcome, protocol)) == outcome


@pytest.mark.parametrize("error_class", ErrorClass)
def test_an_error_class_is_still_itself(error_class: ErrorClass) -> None:
    assert pickle.loads(pickle.dumps(Failed(error_class, "x"))).error_class is error_class
