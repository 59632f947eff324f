"""The characters of a PDF page through pdfium: whether they can be read at all, and the lines that they make."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types

from batchproc.ocr import pdf_objects, right_to_left
from batchproc.ocr.layout import Box, Line, Word, around
from batchproc.ocr.pages import PlacedText
from batchproc.ocr.shown import Shown

SAMPLED_CHARACTERS: Final = 200

SMALLEST_LETTER: Final = 0.7
"""Points: micro-print, the smallest that is ever printed, has 1. On a page smaller than a sheet of A4 it is accordingly
less: that is a sheet which was scaled down."""

_SHEET: Final = 842.0  # points: the longer side of A4

FEW: Final = 10
"""More letters than this do not stand within the size of one."""

MANY_UNMAPPED: Final = 20
"""Characters without a Unicode value: fewer are bullets and signs, which are left as they are."""

COLUMN_GAP: Final = 3.0
"""Widths or heights of a letter, whichever is more, by which parts of a line stand apart, as in a table's columns."""

_LINE_ENDS: Final = "\n\f\v"  # a carriage return comes before a line feed
_HYPHENS: Final = "\x02\ufffe"
"""How pdfium marks a hyphen at the end of a line; the next line follows without a line end."""


@dataclass(frozen=True)
class TextTraits:
    """How the characters of a page were written, see `batchproc.ocr.pages.TextLayer`."""

    unmapped: float
    misshapen: float


def text_traits(textpage: Any, count: int, shown: Shown) -> TextTraits:
    """Judged by a sample of the `count` characters of a text page; what lies outside the page is left out."""
    unmapped = seen = absurd = 0
    letters: list[Box] = []
    smallest = SMALLEST_LETTER * min(1.0, max(shown.width, shown.height) / _SHEET)
    for index in range(0, count, max(1, count // SAMPLED_CHARACTERS)):
        code = raw.FPDFText_GetUnicode(textpage, index)
        if raw.FPDFText_IsGenerated(textpage, index) == 1 or chr(code).isspace():
            continue
        box = _place(textpage, index, shown)
        if not shown.holds(box):
            continue
        seen += 1
        unmapped += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
        letters.append(box)
        absurd += not smallest <= max(box.width, box.height) <= 2 * max(shown.width, shown.height)
    if not seen:
        return TextTraits(0.0, 1.0)
    if seen > FEW and _are_on_one_spot(letters):
        absurd = seen
    return TextTraits(unmapped / seen, absurd / seen)


def _are_on_one_spot(letters: Sequence[Box]) -> bool:
    across, down = zip(*(letter.centre for letter in letters), strict=True)
    largest = max(max(letter.width, letter.height) for letter in letters)
    return bool(max(max(across) - min(across), max(down) - min(down)) < largest)


class _Letter(NamedTuple):
    """A character of a text page by its number in it; white space also by its place."""

    at: int
    text: str
    box: Box


class _Character(NamedTuple):
    text: str
    box: Box
    hidden: bool
    unmapped: bool = False


@dataclass
class _Reader:
    """Gathers characters to words, and words to lines, as pdfium separates them, and as they stand apart."""

    visible: list[Line] = field(default_factory=list)
    hidden: list[Line] = field(default_factory=list)
    row: int = 0
    unmapped: int = 0
    _words: list[Word] = field(default_factory=list)
    _word: list[_Character] = field(default_factory=list)
    _last: _Character | None = None

    def add(self, character: _Character) -> None:
        last = self._last
        if last is not None and (last.hidden != character.hidden or _stands_apart(last.box, character.box)):
            self.end_part()
        self._word.append(character)
        self._last = character

    def end_word(self) -> None:
        unmapped = sum(character.unmapped for character in self._word)
        if 2 * unmapped > len(self._word):
            self.unmapped += unmapped
            self._word = []
        if self._word:
            text = _whole("".join(character.text for character in self._word))
            self._words.append(Word(text, around(character.box for character in self._word)))
            self._word = []

    def end_part(self) -> None:
        self.end_word()
        if self._words:
            assert self._last is not None
            lines = self.hidden if self._last.hidden else self.visible
            lines.append(Line(tuple(self._words), row=self.row))
        self._words = []
        self._last = None

    def end_line(self) -> None:
        self.end_part()
        self.row += 1


def unmapped_texts(textpage: Any, count: int) -> frozenset[int]:
    """Addresses of the text objects most of whose characters have no Unicode value, if those are many on the page."""
    characters: Counter[int] = Counter()
    unmapped: Counter[int] = Counter()
    for index in range(count):
        if raw.FPDFText_IsGenerated(textpage, index) != 1:
            owner = pdf_objects.address(raw.FPDFText_GetTextObject(textpage, index))
            characters[owner] += 1
            unmapped[owner] += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
    found = [owner for owner in characters if 2 * unmapped[owner] > characters[owner]]
    return frozenset(found) if sum(unmapped[owner] for owner in found) >= MANY_UNMAPPED else frozenset()


def read_lines(
    textpage: Any,
    count: int,
    shown: Shown,
    is_hidden: Callable[[Any, Box], bool],
    is_unmapped: Callable[[Any], bool],
) -> PlacedText:
    """The lines of a text page, each kind in the order in which they are written.

    Args:
        is_hidden: told a text object, or nothing for a character that pdfium added, and the place of a character.
        is_unmapped: told a text object, whether the letters of its font are to be left out.
    """
    reader = _Reader()
    for line in _lines(textpage, count, shown):
        for letter in line:
            if letter is None:
                reader.end_word()
            elif not shown.holds(letter.box):
                reader.end_part()
            else:
                owner = raw.FPDFText_GetTextObject(textpage, letter.at)
                hidden = is_hidden(owner, letter.box)
                reader.add(_Character(letter.text, letter.box, hidden, not hidden and is_unmapped(owner)))
        reader.end_line()
    return PlacedText(tuple(reader.visible), tuple(reader.hidden), reader.unmapped)


def text_in_order(textpage: Any, count: int, shown: Shown) -> str:
    """The text of a page that is read from right to left, or some of it; see `batchproc.ocr.right_to_left`."""
    lines = (
        "".join(" " if letter is None else letter.text for letter in line if letter is None or shown.holds(letter.box))
        for line in _lines(textpage, count, shown)
    )
    return "\n".join(lines)


def _lines(textpage: Any, count: int, shown: Shown) -> Iterator[list[_Letter | None]]:
    """The lines of a text page as they are read; None is for white space, and an empty one may come between."""
    text = [chr(raw.FPDFText_GetUnicode(textpage, index)) for index in range(count)]
    is_right = right_to_left.HAS_LETTERS.search("".join(text)) is not None
    mostly_right = is_right and right_to_left.share("".join(text)) >= right_to_left.MOST
    line: list[_Letter | None] = []
    spaces: list[_Letter] = []
    for index, letter in enumerate([*text, "\n"]):
        if letter.isspace() and letter not in _LINE_ENDS:
            line.append(None)
            if is_right:
                spaces.append(_Letter(index, " ", _place(textpage, index, shown)))
        elif letter in _HYPHENS or letter.isprintable() or "\ud800" <= letter <= "\udfff":
            line.append(_Letter(index, "-" if letter in _HYPHENS else letter, _place(textpage, index, shown)))
        if letter in _LINE_ENDS or letter in _HYPHENS:
            letters = [found for found in line if found is not None]
            if is_right and right_to_left.is_disordered(letters):
                line = list(right_to_left.in_order([*letters, *spaces], mostly_right=mostly_right))
            yield line
            line, spaces = [], []


def _place(textpage: Any, index: int, shown: Shown) -> Box:
    """Where a character stands: as wide as it runs and as high as its font, so that all of a line are alike."""
    loose = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(textpage, index, loose)
    left, bottom, right, top = loose.left, loose.bottom, loose.right, loose.top
    if left == right or bottom == top:
        edges = [ctypes.c_double() for _ in range(4)]
        raw.FPDFText_GetCharBox(textpage, index, *edges)
        left, right, bottom, top = (edge.value for edge in edges)
    return shown.box(min(left, right), min(bottom, top), max(left, right), max(bottom, top))


def _stands_apart(one: Box, other: Box) -> bool:
    size = max(other.width, other.height, one.width, one.height)
    across = max(one.left, other.left) - min(one.right, other.right)
    down = max(one.top, other.top) - min(one.bottom, other.bottom)
    return max(across, down) > COLUMN_GAP * size


def _whole(text: str) -> str:
    """With halves of characters beyond the first plane put together; lone ones are dropped."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
