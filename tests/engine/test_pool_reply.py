from __future__ import annotations

from enum import StrEnum

import pytest

from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, FollowUp, Interrupted, Outcome, Snoozed
from batchproc.engine.pool.reply import MAX_REPLY_BYTES, decode, encode


class Code(StrEnum):
    """A handler's own class."""

    BAD = "bad"


@pytest.mark.parametrize(
    "outcome",
    [
        Completed(),
        Completed('{"x": 1}', (FollowUp("classify", {"a": [1, None, "ü\0\ud800"]}, 7, "key"), FollowUp("b")), True, 3),
        Failed(ErrorClass.STORAGE_UNAVAILABLE, "storage_unavailable"),
        Failed(ErrorClass.PERMANENT, "x", "ValueError at x.py:1", "page 3"),
        Snoozed(1.5),
        Interrupted("why"),
        Cancelled(),
    ],
)
def test_every_outcome_comes_through_as_it_is(outcome: Outcome) -> None:
    assert decode(encode(outcome)) == outcome
    assert type(getattr(decode(encode(outcome)), "error_class", ErrorClass.TRANSIENT)) is ErrorClass


def test_no_number_that_json_lacks_gets_through() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(Snoozed(float("nan")))


def test_a_handlers_own_text_becomes_plain_text() -> None:
    found = decode(encode(Failed(ErrorClass.PERMANENT, Code.BAD)))
    assert isinstance(found, Failed)
    assert type(found.code) is str


@pytest.mark.parametrize("returned", [None, 1, "x", Completed({}), Completed(None, (FollowUp("x", {"a": {1}}),))])  # type: ignore[arg-type] # on purpose
def test_what_is_no_plain_outcome_is_refused_in_the_worker(returned: object) -> None:
    with pytest.raises(TypeError):
        encode(returned)


@pytest.mark.parametrize("reply", [b"", b"\xff", b"{}", b"[]", b'["failed", "x", "y", null, null]', b'["else"]'])
def test_a_broken_reply_fails_its_job_only(reply: bytes) -> None:
    found = decode(reply)
    assert isinstance(found, Failed)
    assert (found.error_class, found.code) == (ErrorClass.TRANSIENT, "internal_error")


def test_what_is_too_large_says_so() -> None:
    found = decode(encode(Completed("x" * MAX_REPLY_BYTES)))
    assert isinstance(found, Failed)
    assert (found.error_class, found.code) == (ErrorClass.PERMANENT, "result_too_large")
    assert decode(encode(Completed("x" * (MAX_REPLY_BYTES - 100)))) == Completed("x" * (MAX_REPLY_BYTES - 100))
