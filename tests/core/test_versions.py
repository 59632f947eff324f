from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.versions import is_older, version_key

ASCENDING = ["3.05.02", "4.0.0-alpha", "4.0.0-beta.4", "4.0.0-rc1", "4.0.0", "4.1", "5.3.0", "5.9.1", "5.10", "6"]


def test_versions_sort_by_their_numbers_and_pre_releases_go_first() -> None:
    keys = [version_key(version) for version in ASCENDING]
    assert all(one < other for one, other in pairwise(keys))


@pytest.mark.parametrize(("one", "other"), [("5.5", "5.5.0"), ("v5.5.4", "5.5.4"), ("5", "5.0.0.0")])
def test_the_same_version_is_written_in_many_ways(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


def test_what_comes_after_a_release_is_newer_than_it() -> None:
    assert is_older("5.5.4", than="5.5.4-12-g1234")
    assert not is_older("5.5.4-12-g1234", than="5.5.4")


def test_a_version_without_a_number_is_older_than_any() -> None:
    assert is_older("unknown", than="0.1")
    with pytest.raises(ValueError, match="newest"):
        is_older("5.5", than="newest")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4), st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_plain_numbers_are_compared_as_numbers(one: list[int], other: list[int]) -> None:
    written = [".".join(map(str, numbers)) for numbers in (one, other)]
    length = max(len(one), len(other))
    padded = [tuple(numbers + [0] * (length - len(numbers))) for numbers in (one, other)]
    assert is_older(written[0], than=written[1]) == (padded[0] < padded[1])
