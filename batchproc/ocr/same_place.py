"""Whether words stand where others do."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from batchproc.ocr.layout import Box, Line, Word, overlap

COVERED: Final = 0.5
"""Part of a word's width from which on others stand in its place."""

LEVEL: Final = 0.5
"""Part of the lower word's height by which two are in one line."""

ALIKE: Final = 4.0
"""A word that is more times as high as another is no double of it, but a stamp or a watermark across it. A layer's
words are as high as their font, recognised ones as high as their ink, at the least a third of it."""

_NARROW: Final = 2
_BAND: Final = 24.0  # points or pixels: any size does, this is that of a few lines


class WordMap:
    """Words by the bands of the page that they stand in."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._bands: defaultdict[int, list[Word]] = defaultdict(list)
        for word in words:
            for band in _bands(word):
                self._bands[band].append(word)

    def covers(self, word: Word) -> bool:
        """Whether half of the word is taken by words of about its size that stand in its line."""
        box = word.box
        level = [other.box for other in self._near(word) if _is_level(box, other.box) and _is_alike(word, other)]
        taken = sum(max(0.0, overlap(box.left, box.right, other.left, other.right)) for other in level)
        # The ink of a lone "1" or "i" is less than half as wide as the place that its font gives it.
        return taken >= COVERED * box.width > 0 or (
            len(word.text) <= _NARROW and any(other.left <= box.centre[0] <= other.right for other in level)
        )

    def _near(self, word: Word) -> Iterator[Word]:
        seen: set[int] = set()
        for band in _bands(word):
            for other in self._bands.get(band, ()):
                if id(other) not in seen:
                    seen.add(id(other))
                    yield other


def without(lines: Iterable[Line], unwanted: Callable[[Word], bool]) -> list[Line]:
    """The lines without some of their words; a line without any is gone."""
    left = []
    for line in lines:
        words = tuple(word for word in line.words if not unwanted(word))
        if words:
            left.append(line if len(words) == len(line.words) else replace(line, words=words))
    return left


def _bands(word: Word) -> range:
    return range(math.floor(word.box.top / _BAND), math.floor(word.box.bottom / _BAND) + 1)


def _is_level(one: Box, other: Box) -> bool:
    return overlap(one.top, one.bottom, other.top, other.bottom) >= LEVEL * min(one.height, other.height)


def _is_alike(one: Word, other: Word) -> bool:
    """In height; a dash or a full stop is low without being small."""
    lower, higher = sorted((one, other), key=lambda word: word.box.height)
    return higher.box.height <= ALIKE * lower.box.height or not any(map(str.isalnum, lower.text))
