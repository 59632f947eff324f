from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ocr.error_rate import character_error_rate, edit_distance

TEXTS = st.text(alphabet="abä ", max_size=70)


@pytest.mark.parametrize(
    ("truth", "text", "rate"),
    [
        ("Bäume", "Bäume", 0.0),
        ("Bäume", "Baume", 1 / 5),
        ("Bäume", "Ba\u0308ume", 0.0),
        ("one two\n\nthree", "one two three\n", 0.0),
        ("abcd", "", 1.0),
        ("ab", "abcd", 1.0),
        ("", "abc", 3.0),
        ("", "", 0.0),
        ("Ab", "ab", 1 / 2),
    ],
)
def test_errors_are_counted_per_character_of_the_truth(truth: str, text: str, rate: float) -> None:
    assert character_error_rate(truth, text) == pytest.approx(rate)


def by_the_table(left: str, right: str) -> int:
    above = list(range(len(right) + 1))
    for row, one in enumerate(left, start=1):
        line = [row]
        for column, other in enumerate(right, start=1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (one != other)))
        above = line
    return above[-1]


@given(TEXTS, TEXTS)
def test_the_distance_is_that_of_the_table(left: str, right: str) -> None:
    assert edit_distance(left, right) == by_the_table(left, right)
