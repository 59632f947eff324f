"""Whose turn it is to run alone."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from batchproc.core.job import Claim
from batchproc.engine.alone import Alone


def claim(job_id: int, node_losses: int = 0) -> Claim:
    return Claim(job_id, uuid4(), 1, "t_quick", 1, 5, 1, 5, 0, 0, node_losses)


def held(*claims: Claim) -> dict[UUID, Claim]:
    return {one.claim_id: one for one in claims}


def test_jobs_with_few_losses_run_with_others() -> None:
    alone = Alone(10)
    claims = [claim(1), claim(2, 7)]

    assert alone.sorted_out(claims, held(claim(3))) == (claims, [])
    assert not alone.waits
    assert not alone.blocks(held(*claims))


@pytest.mark.parametrize("losses", [8, 9])
def test_a_suspect_waits_until_nothing_else_is_held(losses: int) -> None:
    alone = Alone(10)
    other, suspect = claim(1), claim(2, losses)

    assert alone.sorted_out([other, suspect], {}) == ([other], [suspect])
    assert alone.blocks(held(other)), "nothing is claimed meanwhile"
    assert alone.take() == 2
    assert not alone.blocks(held(other)), "it was forgotten, as when somebody else has taken it"


def test_a_suspect_that_is_all_there_is_runs_at_once_and_nothing_beside_it() -> None:
    alone = Alone(10)
    suspect = claim(2, 8)

    assert alone.sorted_out([suspect], {}) == ([suspect], [])
    assert not alone.waits
    assert alone.blocks(held(suspect))
    assert not alone.blocks({}), "it has ended"


def test_of_several_suspects_one_runs_and_the_others_come_back() -> None:
    alone = Alone(10)
    first, second = claim(1, 8), claim(2, 9)

    assert alone.sorted_out([first, second], {}) == ([first], [second])
    assert not alone.waits
    assert alone.sorted_out([second], held(claim(3))) == ([], [second])
    assert alone.take() == 2


@pytest.mark.parametrize(("most", "least_alone"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 8)])
def test_a_job_that_lost_no_node_is_no_suspect_however_few_losses_it_may_have(most: int, least_alone: int) -> None:
    for losses in range(most):
        run, back = Alone(most).sorted_out([claim(1, losses)], held(claim(2)))
        assert (len(run), len(back)) == ((0, 1) if losses >= least_alone else (1, 0))


def test_after_a_suspect_jobs_are_claimed_one_at_a_time_until_one_is_none() -> None:
    """A claim that gave nothing tells nothing."""
    alone = Alone(10)
    near = [alone.is_near]
    for claims in ([claim(1, 8), claim(2, 8)], [], [claim(3)]):
        alone.sorted_out(claims, {})
        near.append(alone.is_near)
    assert near == [False, True, True, False]
