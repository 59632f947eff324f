"""Lines with Hebrew or Arabic in them, in the order in which they are read.

pdfium takes the letters of a line in the order in which a file draws them, from left to right as a rule, and turns the
runs that are read from right to left. That fails where they are drawn from right to left, and for letters whose text
the file spells out (`ActualText`, as Chrome and Google Docs do for ligatures): these come out turned, whole or in
parts. Where a line's letters do not follow each other on the page, the line is put in order by their places alone,
which is the inverse of what the bidirectional algorithm (Unicode, annex 9) does: as it is seen, from the right.

What is seen does not tell it all: a number after a Latin word within such a line is taken to belong to the word, and
which way a line runs that mixes both scripts is told by which there is more of, in it or on the page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol, TypeVar

from batchproc.ocr.layout import Box, overlap

HAS_LETTERS: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
"""The blocks of Hebrew, Arabic, Syriac, Thaana, N'Ko and Samaritan, and their presentation forms."""

WORD_GAP: Final = 0.18
"""Parts of a letter's height between letters of two words. Fonts have spaces of 0.22 and more of their size."""

MOST: Final = 0.5
"""Part of the letters of a line or a page from which on it runs from right to left."""

_RIGHT: Final = frozenset({"R", "AL"})
_DIGITS: Final = frozenset({"EN", "AN"})
_IN_NUMBERS: Final = frozenset({"CS", "ES"})
_AROUND_NUMBERS: Final = frozenset({"ET"})


class Character(Protocol):
    """A character and its place."""

    @property
    def text(self) -> str: ...

    @property
    def box(self) -> Box: ...


_C = TypeVar("_C", bound=Character)


def share(text: str) -> float:
    """The part of the letters that is read from right to left."""
    kinds = [unicodedata.bidirectional(letter) for letter in text if letter.isalpha()]
    return sum(kind in _RIGHT for kind in kinds) / len(kinds) if kinds else 0.0


def is_disordered(line: Sequence[Character]) -> bool:
    """Whether of two letters that follow each other, both read from right to left, the second stands to the right."""
    letters = [character for character in line if not _is_mark(character)]
    return any(
        _is_right(first) and _is_right(second) and _is_after(first.box, second.box)
        for first, second in pairwise(character for character in letters if not character.text.isspace())
    )


def in_order(line: Sequence[_C], *, mostly_right: bool) -> Iterator[_C | None]:
    """The characters of a line as they are read; None for a space. Those of white space are not in it.

    Args:
        mostly_right: whether most letters of the page are read from right to left.
    """
    clusters = _seen(line)
    right = mostly_right or share("".join(character.text for character in line)) >= MOST
    kinds = [None if cluster is None else unicodedata.bidirectional(cluster[0].text) for cluster in clusters]
    turned = _runs_of_left(kinds) if right else _runs_of_right(kinds)
    order = list(range(len(clusters)))
    for start, stop in turned:
        order[start:stop] = order[start:stop][::-1]
    if not right:  # within what was turned, numbers and the like run from left to right
        for start, stop in turned:
            for first, last in _runs_of_left(kinds[start:stop]):
                low, high = start + (stop - start) - last, start + (stop - start) - first
                order[low:high] = order[low:high][::-1]
    for index in reversed(order) if right else order:
        cluster = clusters[index]
        yield from (None,) if cluster is None else cluster


def _seen(line: Sequence[_C]) -> list[list[_C] | None]:
    """From left to right, marks with the letter that they stand at; None between words."""
    letters = [[character] for character in line if not character.text.isspace() and not _is_mark(character)]
    letters.sort(key=lambda cluster: cluster[0].box.centre[0])
    for mark in filter(_is_mark, line):
        if letters:
            min(letters, key=lambda cluster: abs(cluster[0].box.centre[0] - mark.box.centre[0])).append(mark)
    spaces = sorted(c.box.centre[0] for c in line if c.text.isspace() and c.box.width > 0)
    found: list[list[_C] | None] = []
    for cluster, following in pairwise([*letters, None]):
        assert cluster is not None
        found.append(cluster)
        if following is not None:
            left, right = cluster[0].box, following[0].box
            wide = right.left - left.right > WORD_GAP * max(left.height, right.height)
            if wide or any(left.centre[0] < space < right.centre[0] for space in spaces):
                found.append(None)
    return found


def _runs_of_left(kinds: Sequence[str | None]) -> list[tuple[int, int]]:
    """In a line that is read from the right: where it is read from the left, a Latin word or more, or a number."""
    runs = []
    at = 0
    while at < len(kinds):
        if kinds[at] != "L" and kinds[at] not in _DIGITS:
            at += 1
            continue
        stop, has_word = at + 1, kinds[at] == "L"
        ahead = stop
        while ahead < len(kinds) and kinds[ahead] not in _RIGHT:
            kind = kinds[ahead]
            if kind == "L" or kind in _DIGITS:
                if not has_word and not all(between in _IN_NUMBERS for between in kinds[stop:ahead]) and kind != "L":
                    break
                has_word = has_word or kind == "L"
                stop = ahead + 1
            ahead += 1
        start = at
        while start > 0 and kinds[start - 1] in _AROUND_NUMBERS and kinds[at] in _DIGITS:
            start -= 1
        while stop < len(kinds) and kinds[stop] in _AROUND_NUMBERS and kinds[stop - 1] in _DIGITS:
            stop += 1
        runs.append((start, stop))
        at = stop
    return runs


def _runs_of_right(kinds: Sequence[str | None]) -> list[tuple[int, int]]:
    """In a line that is read from the left: from the first to the last letter between words that are read so too."""
    runs: list[tuple[int, int]] = []
    start = stop = -1
    for at, kind in enumerate([*kinds, "L"]):
        if kind in _RIGHT:
            start, stop = (at if start < 0 else start), at + 1
        elif kind == "L" and start >= 0:
            runs.append((start, stop))
            start = -1
    return runs


def _is_mark(character: Character) -> bool:
    return unicodedata.combining(character.text[0]) > 0


def _is_right(character: Character) -> bool:
    return unicodedata.bidirectional(character.text[0]) in _RIGHT


def _is_after(first: Box, second: Box) -> bool:
    """Whether the second of two that stand side by side is to the right."""
    beside = overlap(first.top, first.bottom, second.top, second.bottom) > 0.3 * min(first.height, second.height)
    return beside and second.centre[0] - first.centre[0] > 0.3 * min(first.width, second.width)
