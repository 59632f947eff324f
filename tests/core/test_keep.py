"""Which revision counts: a person's stays, `best` loses nothing it can see, and in doubt the newer one wins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.keep import KeepPolicy, Means, Standing, Verdict, verdict

MEANS = Means("tesseract", "5.5.4", "hash", {"mode": "skip", "dpi": 300})
OTHER_MEANS = [
    replace(MEANS, engine="other"),
    replace(MEANS, engine_version="5.5.5"),
    replace(MEANS, data_hash="another"),
    replace(MEANS, profile={"mode": "redo", "dpi": 300}),
]

policies: st.SearchStrategy[KeepPolicy] = st.sampled_from(["newest", "best"])
standings = st.builds(
    Standing,
    means=st.sampled_from([MEANS, *OTHER_MEANS]),
    confidence=st.none() | st.sampled_from([0.0, 60.5, 93.25, 93.5, 100.0]),
    characters=st.integers(0, 40),
    failed_pages=st.integers(0, 3),
    by_person=st.booleans(),
    mixed=st.booleans(),
)
by_engine = standings.map(lambda one: replace(one, by_person=False))
current_ones = st.none() | standings


def stand(confidence: float | None = 90.0, characters: int = 1000, failed: int = 0, means: Means = MEANS) -> Standing:
    return Standing(means, confidence, characters, failed)


@given(policies, standings)
def test_the_first_revision_counts_whatever_it_is(policy: KeepPolicy, new: Standing) -> None:
    assert verdict(policy, None, new) is Verdict.FIRST


@given(policies, standings, by_engine)
def test_what_a_person_made_stays(policy: KeepPolicy, current: Standing, new: Standing) -> None:
    assert verdict(policy, replace(current, by_person=True), new) is Verdict.PERSON


@given(by_engine, by_engine)
def test_newest_asks_nothing_else(current: Standing, new: Standing) -> None:
    assert verdict("newest", current, new) is Verdict.NEWEST


@given(by_engine, by_engine)
def test_best_never_takes_a_text_that_lost_more_than_a_fifth_or_more_pages(current: Standing, new: Standing) -> None:
    if verdict("best", current, new).is_current:
        assert new.characters >= current.characters * 0.8
        assert new.failed_pages <= current.failed_pages


@given(by_engine, by_engine, st.floats(0, 100), st.floats(0, 100))
def test_confidences_of_unequal_means_decide_nothing(
    current: Standing, new: Standing, one: float, other: float
) -> None:
    if current.means != new.means or current.mixed or new.mixed:
        recounted = verdict("best", replace(current, confidence=one), replace(new, confidence=other))
        assert recounted is verdict("best", current, new)


@given(by_engine, by_engine)
def test_a_revision_is_kept_only_for_a_reason(current: Standing, new: Standing) -> None:
    found = verdict("best", current, new)
    pure = not (current.mixed or new.mixed)
    comparable = pure and current.means == new.means and None not in (current.confidence, new.confidence)
    lost = new.characters * 5 < current.characters * 4
    worse = comparable and (new.confidence or 0) < (current.confidence or 0)
    if not (lost or new.failed_pages > current.failed_pages or worse):
        assert found.is_current


@given(by_engine, by_engine)
def test_of_two_revisions_one_at_least_replaces_the_other(one: Standing, other: Standing) -> None:
    """But where each is worse in another respect: then whichever is current stays."""
    there, back = verdict("best", one, other), verdict("best", other, one)
    assert there.is_current or back.is_current or there is not back


@pytest.mark.parametrize("means", OTHER_MEANS)
def test_of_unequal_means_the_newer_one_wins_however_sure_the_old_one_was(means: Means) -> None:
    assert verdict("best", stand(99.0), stand(40.0, means=means)) is Verdict.NEWEST


@pytest.mark.parametrize(
    ("current", "new", "expected"),
    [
        (stand(90.0), stand(90.5), Verdict.BETTER),
        (stand(90.0), stand(90.0), Verdict.AS_GOOD),
        (stand(90.0), stand(89.5), Verdict.NOT_BETTER),
        (stand(90.0), stand(95.0, characters=800), Verdict.BETTER),
        (stand(90.0), stand(95.0, characters=799), Verdict.LOST_CHARACTERS),
        (stand(90.0), stand(95.0, failed=1), Verdict.MORE_FAILED),
        (stand(90.0, failed=2), stand(10.0, failed=1), Verdict.FEWER_FAILED),
        (stand(90.0, failed=1), stand(95.0, characters=700), Verdict.LOST_CHARACTERS),
        (stand(90.0, failed=1), stand(89.5, failed=1), Verdict.NOT_BETTER),
        (stand(None), stand(None), Verdict.NEWEST),
        (stand(90.0), stand(None), Verdict.NEWEST),
        (stand(90.0, characters=0), stand(90.0, characters=0), Verdict.AS_GOOD),
    ],
)
def test_what_best_compares_in_which_order(current: Standing, new: Standing, expected: Verdict) -> None:
    assert verdict("best", current, new) is expected


def test_verdicts_say_whether_the_revision_became_current() -> None:
    stays = {Verdict.PERSON, Verdict.LOST_CHARACTERS, Verdict.MORE_FAILED, Verdict.NOT_BETTER, Verdict.PILOT}
    assert {word for word in Verdict if not word.is_current} == stays
