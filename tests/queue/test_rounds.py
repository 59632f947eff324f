"""Going round the tenants: everybody soon has a job, nobody is forgotten, and one with a million takes few steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from batchproc.queue.rounds import FIRST_ROUND, STEP, Rounds, Step


class Waiting:
    """What is due, by tenant."""

    def __init__(self, due: dict[int, int]) -> None:
        self.due = dict(due)
        self.tenant_ids = sorted(due)
        self.job_id = 0

    def look(self, step: Step) -> Sequence[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for tenant_id in self.tenant_ids[bisect_right(self.tenant_ids, step.after) :]:
            for _ in range(min(step.per_tenant, self.due[tenant_id], step.limit - len(found))):
                self.job_id += 1
                found.append((tenant_id, self.job_id))
            if len(found) == step.limit:
                break
        return found

    def take(self, found: Sequence[tuple[int, int]]) -> None:
        for tenant_id, _ in found:
            self.due[tenant_id] -= 1


def steps(due: dict[int, int]) -> list[list[int]]:
    """The tenants of the jobs of each step, until nothing is left."""
    waiting, rounds = Waiting(due), Rounds()
    found: list[tuple[int, int]] = []
    done: list[list[int]] = []

    def look(step: Step) -> Sequence[tuple[int, int]]:
        found[:] = waiting.look(step)
        return found

    while ids := rounds.next(look):
        assert len(ids) == len(found) <= STEP
        waiting.take(found)
        done.append([tenant_id for tenant_id, _ in found])
    assert not any(waiting.due.values()), "nothing is left behind"
    return done


@given(st.dictionaries(st.integers(1, 1000), st.integers(1, 3000), min_size=1, max_size=40))
def test_all_that_is_due_is_taken_and_nobody_waits_for_others_many(due: dict[int, int]) -> None:
    taken = steps(due)
    first = {tenant_id: next(n for n, step in enumerate(taken) if tenant_id in step) for tenant_id in due}
    assert max(first.values()) <= len(due) * FIRST_ROUND // STEP + 1


def test_ten_thousand_tenants_all_have_a_job_after_one_short_round() -> None:
    due = dict.fromkeys(range(1, 10_001), 10) | {1: 100_000}
    taken = steps(due)
    one_round = taken[: 10_000 * FIRST_ROUND // STEP]
    assert {tenant_id for step in one_round for tenant_id in step} == set(due)
    assert len(taken) < 1.2 * sum(due.values()) / STEP, "hardly more steps than full ones"


def test_one_tenant_with_a_great_many_takes_hardly_more_steps_than_it_fills() -> None:
    assert len(steps({7: 300_000})) < 300_000 / STEP + 10


def test_after_all_is_taken_it_begins_with_few_again() -> None:
    rounds, seen = Rounds(), []

    def look(step: Step) -> list[tuple[int, int]]:
        seen.append(step)
        return [(9, n) for n in range(step.per_tenant)] if len(seen) < 3 else []

    while rounds.next(look):
        pass
    assert [step.per_tenant for step in seen] == [FIRST_ROUND, 4 * FIRST_ROUND, 16 * FIRST_ROUND]
    rounds.next(look)
    assert seen[-1] == Step(0, FIRST_ROUND, STEP)
