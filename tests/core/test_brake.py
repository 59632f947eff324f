"""The brake: whole kinds that fail for a reason of the environment, and nothing else, are paused."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core import brake, transition
from batchproc.core.brake import ENVIRONMENT_CODES, Brake, Braked
from batchproc.core.budgets import Counters
from batchproc.core.job import Claim
from batchproc.core.outcome import Cancelled, Completed, ErrorClass, Failed, Interrupted, Snoozed

Ending = tuple[int, str | None]
"""A job and the code its attempt ended with."""

CAUSES = sorted(ENVIRONMENT_CODES)
CODES: list[str | None] = [None, "timeout", "stalled", "encrypted", "out_of_memory", *CAUSES]
endings = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(CODES)), max_size=120)
CLAIM = Claim(1, uuid4(), 1, "ocr", 1, 5, 1, 5, 0, 0, 0)


def first_braking(one: Brake, given_endings: list[Ending], kind: str = "ocr") -> tuple[int, Braked] | None:
    """The number of the ending that brakes first, from 0."""
    for number, (job_id, code) in enumerate(given_endings):
        braked = one.note(kind, job_id, code)
        if braked is not None:
            return number, braked
    return None


def brakes_after(past: list[Ending], jobs: int) -> bool:
    """The rule, as it is told: looks at the whole past again after each ending."""
    cause = past[-1][1]
    if cause not in ENVIRONMENT_CODES:
        return False
    row: set[int] = set()
    for job_id, code in reversed(past):
        if code != cause:
            break
        row.add(job_id)
    failed = [job_id for job_id, code in past[-10 * jobs :] if code == cause]
    return len(row) >= jobs or (len(failed) >= 5 * jobs and len(set(failed)) >= jobs)


@given(endings, st.integers(1, 6))
def test_it_brakes_exactly_when_the_rule_says_so(given_endings: list[Ending], jobs: int) -> None:
    expected = next(
        (number for number in range(len(given_endings)) if brakes_after(given_endings[: number + 1], jobs)), None
    )

    found = first_braking(Brake(jobs), given_endings)

    assert (found[0] if found else None) == expected
    if found is not None:
        assert (found[1].kind, found[1].code) == ("ocr", given_endings[found[0]][1])
        assert found[1].code in found[1].reason


@pytest.mark.parametrize("cause", CAUSES)
def test_twenty_different_jobs_in_a_row(cause: str) -> None:
    row: list[Ending] = [(job, cause) for job in range(20)]

    assert first_braking(Brake(20), row[:19]) is None
    assert first_braking(Brake(20), row) == (19, Braked("ocr", cause, f"20 jobs in a row ended with {cause}"))


@pytest.mark.parametrize("code", [None, "timeout", "encrypted", "poison"])
def test_a_success_or_another_code_breaks_the_row(code: str | None) -> None:
    row: list[Ending] = [(job, "source_missing") for job in range(19)]

    assert first_braking(Brake(20), [*row, (99, code), (20, "source_missing")]) is None


@given(st.sampled_from(CAUSES), st.integers(2, 30), st.integers(1, 1000))
def test_one_job_that_fails_again_and_again_never_brakes(cause: str, jobs: int, attempts: int) -> None:
    assert first_braking(Brake(jobs), [(7, cause)] * attempts) is None


@given(st.sampled_from(CAUSES), st.integers(2, 30), st.lists(st.booleans(), max_size=1000))
def test_many_jobs_of_one_work_are_one(cause: str, jobs: int, failed: list[bool]) -> None:
    one = Brake(jobs)
    assert not any(one.note("ocr", ("revision", 7), cause if bad else None) for bad in failed)


@given(st.lists(st.sampled_from([code for code in CODES if code not in ENVIRONMENT_CODES]), max_size=300))
def test_content_and_timeouts_never_brake(codes: list[str | None]) -> None:
    assert first_braking(Brake(2), list(enumerate(codes))) is None


@given(st.data(), st.integers(1, 4), st.sampled_from(CAUSES))
def test_half_of_the_last_attempts_brake_in_whatever_order_they_came(
    data: st.DataObject, jobs: int, cause: str
) -> None:
    window: list[Ending] = [(job % (jobs + 1), cause) for job in range(5 * jobs)]
    window += [(100 + job, None) for job in range(5 * jobs)]

    found = first_braking(Brake(jobs), data.draw(st.permutations(window)))

    assert found is not None
    assert found[1].code == cause


def test_less_than_half_does_not_and_what_is_long_ago_is_forgotten() -> None:
    almost_half: list[Ending] = [(job, None if job % 2 else "internal_error") for job in range(198)]

    assert first_braking(Brake(20), [(0, None), *almost_half, (1, None)]) is None
    mixed: list[Ending] = [(job, "poison" if job % 3 == 0 else None) for job in range(6000)]
    assert first_braking(Brake(20), mixed) is None


def test_half_of_the_last_two_hundred_is_told_as_such() -> None:
    every_other: list[Ending] = [(job, None if job % 2 else "internal_error") for job in range(200)]

    found = first_braking(Brake(20), every_other)

    assert found == (198, Braked("ocr", "internal_error", "100 of the last 200 attempts ended with internal_error"))


def test_kinds_are_watched_apart_and_begin_anew_once_braked() -> None:
    one = Brake(2)
    assert one.note("ocr", 1, "poison") is None
    assert one.note("classify", 2, "poison") is None
    assert one.note("classify", 3, None) is None
    assert one.note("ocr", 4, "poison") is not None
    assert one.note("ocr", 5, "poison") is None, "forgotten, for when somebody resumes it"
    assert one.note("ocr", 6, "poison") is not None


def test_off_never_brakes() -> None:
    assert first_braking(Brake(None), [(job, "poison") for job in range(1000)]) is None


def test_a_single_job_can_be_enough() -> None:
    assert first_braking(Brake(1), [(1, "poison")]) == (0, Braked("ocr", "poison", "a job ended with poison"))


def test_what_says_something_of_the_environment() -> None:
    counters = Counters(1, 0, 0, 0)
    crash = Failed(ErrorClass.CRASHED, "poison")
    lost = replace(crash, error_class=ErrorClass.LEASE_EXPIRED)
    storage = replace(crash, error_class=ErrorClass.STORAGE_UNAVAILABLE)
    assert brake.tells(transition.completed(CLAIM, Completed()))
    assert brake.tells(transition.retried(CLAIM, counters, crash, 1.0))
    assert brake.tells(transition.discarded(CLAIM, counters, crash, "poison", fails_document=False))
    for moved in (
        transition.retried(CLAIM, counters, lost, 0.0),
        transition.discarded(CLAIM, counters, lost, "poison", fails_document=False),
        transition.postponed(CLAIM, 60.0, storage),
        transition.snoozed(CLAIM, Snoozed(1.0)),
        transition.interrupted(CLAIM, Interrupted("shutdown")),
        transition.cancelled(CLAIM, Cancelled()),
    ):
        assert not brake.tells(moved)
