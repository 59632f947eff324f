"""What recognition missed of a page although its text layer says it: words that are seen, but tiny or pale."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from PIL import Image

from batchproc.ocr.engine import Recognised
from batchproc.ocr.layout import Box, Line, Turn, Word
from batchproc.ocr.pages import PageImage
from batchproc.ocr.reading_order import merged_text
from batchproc.ocr.same_place import WordMap, without
from batchproc.ocr.with_layout import mean_confidence, picture_turn

DOUBTFUL: Final = 40.0
"""Confidence of a recognised word below which a visible layer's at the same place is believed instead."""

LEAST_CONTRAST: Final = 6
"""Grey levels between ink and paper from which on a word is seen; white on white has none."""

_LEADER = re.compile(r"([._\u00b7])\1{2,}")


def seen_on(image: PageImage, lines: Iterable[Line], width: float) -> list[Line]:
    """Those words of a layer's visible lines which leave ink on the rendered page, at their places in its pixels.

    Args:
        lines: at their places in points.
        width: of the page, in points.
    """
    scale = image.pixels.width / width
    return without(
        (_without_leaders(line.scaled(scale)) for line in lines), lambda word: not _leaves_ink(image.pixels, word.box)
    )


def with_missed_words(found: Recognised, image: PageImage, layer: Iterable[Line]) -> Recognised:
    """What was recognised, with those words of the layer in it that were missed, at their places.

    Args:
        found: of the whole page, with its layout.
        image: what was recognised.
        layer: what `seen_on` leaves of it.
    """
    assert found.layout is not None
    turn = picture_turn(found, found.layout, image.pixels.size)
    upright = Turn.by_quarters(found.layout.rotation, found.layout.size)
    written = [upright.line(turn.line(line)) for line in layer]
    recognised = [upright.line(line) for line in found.layout.lines]
    words = WordMap(word for line in written for word in line.words)
    trusted = without(recognised, lambda word: _is_doubtful(word) and words.covers(word))
    places = WordMap(word for line in trusted for word in line.words)
    missed = without(written, lambda word: places.covers(word) or not any(map(str.isalnum, word.text)))
    if not missed:
        return found
    text = merged_text(trusted, missed)
    kept = [word for line in trusted for word in line.words]
    return replace(found, text=text, words=len(text.split()), confidence=mean_confidence(kept) if kept else None)


def _without_leaders(line: Line) -> Line:
    """With "Index.....7" as two words. Where they stand is guessed, which is good enough to find them."""
    words: list[Word] = []
    for word in line.words:
        width, start = word.box.width / len(word.text), 0
        for stop, next_start in [*(leader.span() for leader in _LEADER.finditer(word.text)), (len(word.text), 0)]:
            if start < stop:
                left, right = word.box.left + width * start, word.box.left + width * stop
                words.append(replace(word, text=word.text[start:stop], box=word.box._replace(left=left, right=right)))
            start = next_start
    return replace(line, words=tuple(words) or line.words)


def _is_doubtful(word: Word) -> bool:
    return word.confidence is not None and word.confidence < DOUBTFUL


def _leaves_ink(pixels: Image.Image, box: Box) -> bool:
    left, top = max(0, math.floor(box.left)), max(0, math.floor(box.top))
    right, bottom = min(pixels.width, math.ceil(box.right)), min(pixels.height, math.ceil(box.bottom))
    if left >= right or top >= bottom:
        return False
    darkest, lightest = pixels.crop((left, top, right, bottom)).getextrema()
    assert isinstance(darkest, int | float)
    assert isinstance(lightest, int | float)
    return lightest - darkest >= LEAST_CONTRAST
