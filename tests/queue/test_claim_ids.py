"""Claim ids as a node makes them: fresh random UUIDs, whatever their number."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from batchproc.queue.claiming import claim_ids


@given(st.integers(0, 200))
def test_each_is_a_uuid_of_its_own(count: int) -> None:
    text = claim_ids(count)
    ids = [UUID(part) for part in text.strip("{}").split(",") if part]
    assert (text[0], text[-1]) == ("{", "}")
    assert len(set(ids)) == len(ids) == count
    assert {(each.version, each.variant) for each in ids} <= {(4, "specified in RFC 4122")}
