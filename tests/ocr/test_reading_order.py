from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.ocr.layout import Box, Line, Turn, Word
from batchproc.ocr.reading_order import merged_text
from batchproc.ocr.same_place import WordMap, without

WIDTH = 8  # of a letter; a line is 10 high, with 5 between


def line(text: str, left: float, row: float, *, block: int = 0) -> Line:
    words = []
    for word in text.split():
        words.append(Word(word, Box(left, 15 * row, left + WIDTH * len(word), 15 * row + 10)))
        left += WIDTH * (len(word) + 1)
    return Line(tuple(words), block)


def column(letter: str, count: int, left: float, *, top: float = 0) -> list[Line]:
    return [line(f"{letter}{number} {'word ' * 4}", left, top + number) for number in range(count)]


def order(first: list[Line], second: list[Line]) -> str:
    return " ".join(word for word in merged_text(first, second).split() if word != "word")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(column("a", 3, 0, top=5), column("b", 3, 0), "b0 b1 b2 a0 a1 a2", id="above"),
        pytest.param(column("a", 3, 0), column("b", 3, 0, top=5), "a0 a1 a2 b0 b1 b2", id="below"),
        pytest.param(
            [*column("a", 2, 0), *column("c", 2, 0, top=6)],
            column("b", 3, 0, top=2.5),
            "a0 a1 b0 b1 b2 c0 c1",
            id="amid",
        ),
        pytest.param(column("a", 5, 0), column("b", 5, 400), "a0 a1 a2 a3 a4 b0 b1 b2 b3 b4", id="the right column"),
        pytest.param(column("a", 5, 400), column("b", 5, 0), "b0 b1 b2 b3 b4 a0 a1 a2 a3 a4", id="the left column"),
        pytest.param(
            column("a", 6, 0), column("b", 2, 400, top=1), "a0 a1 a2 a3 a4 a5 b0 b1", id="beside a longer column"
        ),
        pytest.param(
            column("a", 2, 400), column("b", 6, 0), "b0 b1 b2 b3 b4 b5 a0 a1", id="a longer column to the left"
        ),
        pytest.param(
            [*column("a", 6, 0), *column("c", 2, 400), *column("d", 2, 400, top=5)],
            column("b", 2, 400, top=2.5),
            "a0 a1 a2 a3 a4 a5 c0 c1 b0 b1 d0 d1",
            id="amid the right one of two columns",
        ),
        pytest.param(
            [*column("a", 2, 0), *column("d", 2, 0, top=5), *column("c", 7, 400)],
            column("b", 2, 0, top=2.5),
            "a0 a1 b0 b1 d0 d1 c0 c1 c2 c3 c4 c5 c6",
            id="amid the left one of two columns",
        ),
        pytest.param(
            [line("title " + 20 * "word ", 0, 0), *column("a", 3, 0, top=2)],
            column("b", 3, 400, top=2),
            "title a0 a1 a2 b0 b1 b2",
            id="a column under a common title",
        ),
        pytest.param(
            [line("date", 500, 0), *column("a", 2, 0, top=8)], column("b", 2, 0, top=3), "date b0 b1 a0 a1", id="date"
        ),
    ],
)
def test_each_keeps_its_order_and_columns_are_not_interleaved(
    first: list[Line], second: list[Line], expected: str
) -> None:
    assert order(first, second) == expected
    assert order(second, first) == expected


def test_parts_of_one_row_become_one_line() -> None:
    labels = [line("Name:", 0, 0), line("Place:", 0, 1)]
    values = [line("Smith", 48, 0), line("Leeds", 56, 1)]
    assert merged_text(labels, values) == "Name: Smith\n\nPlace: Leeds"


def test_words_in_the_gap_of_a_line_stand_in_it() -> None:
    whole = line("press the button to continue", 0, 0)
    without_one = without([whole], lambda word: word.text == "button")
    (lone,) = without([whole], lambda word: word.text != "button")
    assert merged_text(without_one, [lone]) == "press the button to continue"
    assert merged_text([lone], without_one) != ""


def test_paragraphs_and_changes_are_set_apart() -> None:
    first = [line("one", 0, 0), line("two", 0, 1), line("three", 0, 3, block=1)]
    assert merged_text(first, [line("four", 0, 5)]) == "one\ntwo\n\nthree\n\nfour"
    assert merged_text([], first) == merged_text(first, []) == "one\ntwo\n\nthree"


def test_any_number_of_lines_is_merged_quickly() -> None:
    many = [line(f"w{number}", number % 7 * 100, number) for number in range(20_000)]
    started = time.process_time()
    assert len(merged_text(many, many[:500]).split()) == 20_500
    assert len(merged_text(many[:500], many[:499]).split()) == 999
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("other", "covers"),
    [
        (Word("same", Box(0, 0, 40, 10)), True),
        (Word("higher", Box(0, -8, 40, 14)), True),
        (Word("watermark", Box(-100, -60, 300, 60)), False),
        (Word("-", Box(0, 4, 40, 5)), True),
        (Word("tiny", Box(0, 4, 40, 5)), False),
        (Word("beside", Box(35, 0, 80, 10)), False),
        (Word("below", Box(0, 8, 40, 18)), False),
    ],
)
def test_what_stands_in_the_place_of_a_word(other: Word, covers: bool) -> None:
    assert WordMap([other]).covers(Word("same", Box(0, 0, 40, 10))) is covers


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, 3.0, -1.75, 93.0])
def test_a_turn_can_be_taken_back(degrees: float) -> None:
    turn = Turn(degrees, (600, 800), (830, 620))
    box = Box(100, 200, 180, 212)
    assert turn.back().box(turn.box(box)) == pytest.approx(box)


def test_a_page_turned_by_a_quarter() -> None:
    assert Turn.by_quarters(90, (600, 800)).box(Box(0, 0, 10, 20)) == pytest.approx(Box(780, 0, 800, 10))


PLACES = st.lists(st.tuples(st.integers(0, 600), st.integers(0, 60)), max_size=12)


@given(PLACES, PLACES)
def test_no_word_is_lost_or_doubled_wherever_it_stands(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    mine = [line(f"a{number} a", left, row) for number, (left, row) in enumerate(first)]
    others = [line(f"b{number}", left, row) for number, (left, row) in enumerate(second)]
    found = merged_text(mine, others).split()
    assert sorted(found) == sorted(word.text for one in [*mine, *others] for word in one.words)
    assert [word for word in found if word.startswith("a")] == [word.text for one in mine for word in one.words]
