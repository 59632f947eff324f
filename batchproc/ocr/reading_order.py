"""Two readings of one page put together: each keeps its own order, and what one lacks goes where it stands.

Both orders are good already: a layout analysis does not interleave columns, and a PDF's text is written in order as a
rule. So nothing is sorted anew. Of all ways to merge the two, that one is taken which least often puts a line before
one that a reader would read first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from batchproc.ocr.layout import Box, Line, Word, overlap

SAME_COLUMN: Final = 0.1
"""Part of the narrower line's width that two lines share if one is below the other."""

SAME_ROW: Final = 0.4
"""Part of the lower line's height that two lines share if one is beside the other."""

NEAR: Final = 1.0
"""Heights of a line: parts of a row no further from each other are one line, such as what a form asks and what was
filled in. Between columns there is more."""

SLANTING: Final = 0.3
"""What a wrong order of two lines counts of which neither is below nor beside the other: there it is a guess."""

MAX_PAIRS: Final = 250_000
"""Pairs of lines that are compared, half a second's work; beyond, the shorter reading goes to the end."""

_Interval = tuple[float, float]


class _Placed(NamedTuple):
    """A line with its box, which is looked at often."""

    line: Line
    box: Box
    of_first: bool


def merged_text(first: Sequence[Line], second: Sequence[Line]) -> str:
    """The text of both readings: lines in reading order, paragraphs and changes from one to the other set apart."""
    first, second = _holes_filled(first, second)
    mine = [_Placed(line, line.box, True) for line in first]
    others = [_Placed(line, line.box, False) for line in second]
    return _text(_merged(mine, others))


def _holes_filled(lines: Sequence[Line], others: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """The lines with those others in them that stand in one's own gaps, and the others that are left."""
    if len(lines) * len(others) > MAX_PAIRS:
        return list(lines), list(others)
    filled, boxes = list(lines), [line.box for line in lines]
    left = []
    for other in others:
        place = other.box
        for index, box in enumerate(boxes):
            if _is_within(place, box) and (words := _between(filled[index].words, other.words)):
                filled[index] = replace(filled[index], words=words)
                break
        else:
            left.append(other)
    return filled, left


def _is_within(part: Box, line: Box) -> bool:
    left, top, right, bottom = line
    middle = (part.top + part.bottom) / 2
    return top <= middle <= bottom and left <= part.left and part.right <= right and part.height <= 2 * line.height


def _between(words: Sequence[Word], others: Sequence[Word]) -> tuple[Word, ...] | None:
    """Words of a line and others in a gap of it; None if they stand on any, or the line does not run to the right."""
    start, end = others[0].box.left, others[-1].box.right
    before = [word for word in words if word.box.centre[0] < start]
    after = words[len(before) :]
    if not before or not after or before != list(words[: len(before)]):
        return None
    slack = (end - start) / 4
    if before[-1].box.right > start + slack or after[0].box.left < end - slack:
        return None
    return (*before, *others, *after)


def _merged(mine: list[_Placed], others: list[_Placed]) -> list[_Placed]:
    """Both, each in its order, with the least weight of pairs in the wrong order (found from line to line)."""
    if not mine or not others or len(mine) * len(others) > MAX_PAIRS:
        return mine + others if len(mine) >= len(others) else others + mine
    beside_others = [_columns_beside(other.box, mine) for other in others]
    costs = [0.0] * (len(others) + 1)
    choices: list[list[int]] = []
    for one in mine:
        beside = _columns_beside(one.box, others)
        orders = [
            _order(one.box, other.box, _touches(one.box, beside_other) or _touches(other.box, beside))
            for other, beside_other in zip(others, beside_others, strict=True)
        ]
        wrong = sum(-order for order in orders if order < 0)  # all others come after this one
        best, chosen = costs[0], 0
        ahead, choice = [], []
        for count, cost in enumerate(costs):
            if cost < best:
                best, chosen = cost, count
            ahead.append(best + wrong)
            choice.append(chosen)
            if count < len(orders):
                wrong += orders[count]
        costs = ahead
        choices.append(choice)
    return _walked(mine, others, costs, choices)


def _walked(mine: list[_Placed], others: list[_Placed], costs: list[float], choices: list[list[int]]) -> list[_Placed]:
    """The way that led to the least cost, from its end: how many of the others come before each of mine."""
    count = costs.index(min(costs))
    backwards = others[count:][::-1]
    for one, choice in zip(reversed(mine), reversed(choices), strict=True):
        backwards.append(one)
        backwards += others[choice[count] : count][::-1]
        count = choice[count]
    backwards += others[:count][::-1]
    return backwards[::-1]


def _order(one: Box, other: Box, in_columns: bool) -> float:
    """Above 0 if the one is read first, below 0 if the other is; the size says how much that counts."""
    left, top, right, bottom = one
    other_left, other_top, other_right, other_bottom = other
    to_right = other_left + other_right > left + right
    below = other_top + other_bottom > top + bottom
    level = min(bottom, other_bottom) - max(top, other_top)
    if level > SAME_ROW * min(bottom - top, other_bottom - other_top):
        return 1.0 if to_right else -1.0
    shared = min(right, other_right) - max(left, other_left)
    if shared > SAME_COLUMN * min(right - left, other_right - other_left):
        return 1.0 if below else -1.0
    # Neither below nor beside: of columns the left one goes first, else what is above.
    return SLANTING if (to_right if in_columns else below) else -SLANTING


def _columns_beside(box: Box, lines: Iterable[_Placed]) -> tuple[_Interval, _Interval]:
    """How far the lines reach that stand in columns to the left of a place, and to its right."""
    lefts, rights = [], []
    height = box.bottom - box.top
    for line in lines:
        left, top, right, bottom = line.box
        if bottom > box.top - height and top < box.bottom + height:
            if left - box.right > NEAR * height:
                rights.append((left, right))
            elif box.left - right > NEAR * height:
                lefts.append((left, right))
    return _reach(lefts), _reach(rights)


def _reach(intervals: list[_Interval]) -> _Interval:
    if not intervals:
        return math.inf, -math.inf
    return min(left for left, _ in intervals), max(right for _, right in intervals)


def _touches(box: Box, columns: Iterable[_Interval]) -> bool:
    return any(left < box.right and box.left < right for left, right in columns)


def _text(lines: Iterable[_Placed]) -> str:
    parts: list[str] = []
    last: _Placed | None = None
    for placed in lines:
        if last is not None:
            parts.append(_separator(last, placed))
        parts.append(placed.line.text)
        last = placed
    return "".join(parts)


def _separator(last: _Placed, following: _Placed) -> str:
    if last.of_first == following.of_first:
        if following.line.row is not None and last.line.row == following.line.row:
            return " "
        return "\n" if last.line.block == following.line.block else "\n\n"
    level = overlap(last.box.top, last.box.bottom, following.box.top, following.box.bottom)
    lower = min(last.box.height, following.box.height)
    gap = following.box.left - last.box.right
    return " " if level > SAME_ROW * lower and -lower <= gap <= NEAR * lower else "\n\n"
