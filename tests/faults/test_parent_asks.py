"""What counts as one signal and what as two, when each may reach the node twice."""

from __future__ import annotations

from signal import SIGHUP as HUP
from signal import SIGINT as INT
from signal import SIGQUIT as QUIT
from signal import SIGTERM as TERM

from batchproc.engine.signals import PASSED_ON, Asks


def heard(*signals: tuple[float, int]) -> int:
    asks = Asks()
    return sum(asks.hear(number, at) for at, number in signals)


def test_a_signal_that_comes_both_ways_is_one_in_either_order() -> None:
    assert heard((0, TERM), (0.01, PASSED_ON[TERM])) == 1
    assert heard((0, PASSED_ON[TERM]), (0.01, TERM)) == 1
    assert heard((0, INT), (4, PASSED_ON[INT])) == 1  # a guardian that hardly got to run


def test_two_signals_both_ways_are_two() -> None:
    assert heard((0, INT), (0.01, PASSED_ON[INT]), (0.15, INT), (0.16, PASSED_ON[INT])) == 2
    assert heard((0, INT), (0.15, INT), (0.16, PASSED_ON[INT])) == 2


def test_two_signals_by_one_way_are_two() -> None:
    assert heard((0, TERM), (1, TERM)) == 2
    assert heard((0, PASSED_ON[TERM]), (1, PASSED_ON[TERM])) == 2


def test_ctrl_c_twice_in_a_moment_is_two_but_programs_repeat_themselves() -> None:
    assert heard((0, INT), (0.02, INT)) == 2
    assert heard((0, TERM), (0.001, TERM)) == 1
    assert heard((0, TERM), (0.001, HUP)) == 1


def test_the_two_signals_of_timeout_are_one_whichever_they_are_and_however_they_come() -> None:
    for number in (TERM, INT, HUP):
        through, direct = (0.001, PASSED_ON[number]), (0.001, number)
        assert heard((0, PASSED_ON[number]), direct, through) == 1
        assert heard((0, PASSED_ON[number]), through, direct) == 1
        assert heard((0, number), through, through) == 1


def test_ctrl_c_twice_in_a_moment_is_two_also_when_both_are_passed_on() -> None:
    assert heard((0, INT), (0.001, PASSED_ON[INT]), (0.05, INT), (0.051, PASSED_ON[INT])) == 2
    assert heard((0, PASSED_ON[INT]), (0.001, INT), (0.05, PASSED_ON[INT]), (0.051, INT)) == 2


def test_a_terminal_is_closed_once() -> None:
    assert heard((0, HUP), (0.5, HUP), (0.5, PASSED_ON[HUP])) == 1
    assert heard((0, HUP), (0.5, TERM)) == 2


def test_sigquit_alone_is_enough() -> None:
    assert heard((0, QUIT)) == 2
