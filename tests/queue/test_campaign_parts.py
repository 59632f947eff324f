"""The states of a campaign's jobs are asked for part by part: all of them, each once, and none that is not wanted."""

from __future__ import annotations

from itertools import chain, combinations

from batchproc.core.job import JobState
from batchproc.queue.campaign_parts import PARTS, parts_of


def test_the_parts_are_exactly_all_states() -> None:
    assert sorted(chain(*PARTS)) == sorted(JobState)


def test_all_states_are_asked_for_by_none_and_no_state_by_an_empty_choice() -> None:
    assert parts_of(7, None) == [[str(state) for state in part] for part in PARTS]
    assert parts_of(None, None) == [None]
    assert parts_of(7, ()) == parts_of(None, ()) == []


def test_whatever_is_wanted_is_asked_for_once_and_nothing_else() -> None:
    for count in range(1, len(JobState) + 1):
        for wanted in combinations(JobState, count):
            assert parts_of(None, wanted) == [list(wanted)]
            assert sorted(chain(*(part or () for part in parts_of(7, wanted)))) == sorted(wanted)
