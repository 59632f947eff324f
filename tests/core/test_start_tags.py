"""A tag is at each moment what it would be had every charge been right at once."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.start_tags import Epoch, StartTag

AMOUNTS = st.integers(0, 400)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), AMOUNTS),
        st.tuples(st.just("correct"), AMOUNTS),
        st.tuples(st.just("lift"), st.integers(0, 3000)),
    ),
    max_size=40,
)


@dataclass
class Charged:
    amount: int
    epoch: Epoch
    place: int


class History:
    """All that happened to a tag, told again from the start whenever it is asked."""

    def __init__(self) -> None:
        self.tag = StartTag(0)
        self.told: list[tuple[str, int]] = []
        self.running: list[Charged] = []

    def charge(self, amount: int) -> None:
        self.running.append(Charged(amount, self.tag.epoch, len(self.told)))
        self.tag.charge(amount)
        self.told.append(("charge", amount))

    def correct(self, which: int, amount: int) -> None:
        if self.running:
            charged = self.running.pop(which % len(self.running))
            self.tag.correct(charged.epoch, amount - charged.amount)
            self.told[charged.place] = ("charge", amount)

    def lift(self, floor: int) -> None:
        self.tag.lift(floor)
        self.told.append(("lift", floor))

    @property
    def told_again(self) -> int:
        tag = 0
        for what, amount in self.told:
            tag = tag + amount if what == "charge" else max(tag, amount)
        return tag


@given(STEPS)
def test_a_correction_is_as_if_it_had_been_known_from_the_start(steps: list[tuple[str, int]]) -> None:
    history = History()
    for number, (what, amount) in enumerate(steps):
        if what == "charge":
            history.charge(amount)
        elif what == "correct":
            history.correct(number, amount)
        else:
            history.lift(amount)
        assert history.tag.value == history.told_again
        assert history.tag.is_open == bool(history.running)
        assert history.tag.epochs <= len(history.running) + 1


def test_what_was_charged_too_little_is_not_lost_when_its_owner_was_away() -> None:
    tag = StartTag(0)
    epoch = tag.epoch
    tag.charge(1)
    tag.lift(200)
    tag.correct(epoch, 299)
    assert tag.value == 300, "it came back while its long job ran, and pays for the job, but for nothing twice"


def test_what_was_charged_too_much_is_no_credit_beyond_the_time_it_came_back() -> None:
    tag = StartTag(0)
    epoch = tag.epoch
    tag.charge(300)
    tag.lift(200)
    tag.correct(epoch, -299)
    assert tag.value == 200


def test_charges_of_several_turns_can_be_taken_back_together() -> None:
    tag = StartTag(7)
    epoch = tag.epoch
    for _ in range(5):
        tag.charge(10)
    tag.correct(epoch, -30, charges=3)
    assert tag.value == 27
    assert tag.is_open
    tag.correct(epoch, 0, charges=2)
    assert not tag.is_open
