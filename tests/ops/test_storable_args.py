"""Args of many jobs are checked by a quick look first: it lets nothing through that the whole check would not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.ops.enqueueing import _is_plain, of_tenant, storable_args

_TEXTS = st.text(max_size=40) | st.sampled_from(["\0", "\ud800", "x" * 33, "ä", "page", "\n"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=3,
)


@given(st.dictionaries(_TEXTS | st.integers(), _VALUES, max_size=4))
def test_what_looks_plain_is_stored_as_it_is(args: dict[Any, Any]) -> None:
    if _is_plain(args):
        assert storable_args(args) == args


def test_the_largest_that_looks_plain_is_stored() -> None:
    # 😀 takes twelve characters in JSON, more than any other character.
    args = {f"{number:02}" + "😀" * 30: "😀" * 32 for number in range(32)}
    assert _is_plain(args)
    assert storable_args(args) == args
    assert not _is_plain(args | {"one more": 1})


def test_a_batch_becomes_the_tenants_and_a_bad_one_is_refused() -> None:
    jobs = [NewJob(0, "work", {"page": 3}), NewJob(0, "work", {"texts": ["a", "b"]})]
    assert [(job.tenant_id, job.args) for job in of_tenant(jobs, 7)] == [(7, job.args) for job in jobs]
    with pytest.raises(UsageError, match="NUL"):
        list(of_tenant([*jobs, NewJob(0, "work", {"text": "\0"})], 7))
    with pytest.raises(UsageError, match="no JSON"):
        list(of_tenant([NewJob(0, "work", {"ratio": float("nan")})], 7))
    with pytest.raises(UsageError, match="range is no arg"):
        list(of_tenant([*jobs, NewJob(0, "ocr", {"range": [1, 5]}, 3)], 7))
    [other] = of_tenant([NewJob(0, "mine", {"range": [1, 5]})], 7)
    assert other.args == {"range": [1, 5]}, "a kind of somebody else may have such an arg"
