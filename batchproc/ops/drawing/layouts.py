"""Pages that are laid out otherwise than a letter: two columns, and a table with rules."""

from __future__ import annotations

import random
from collections.abc import Iterator

from batchproc.ops.drawing.documents import Drawn
from batchproc.ops.drawing.page import A4, Line, Rule, Typesetter, typesetter
from batchproc.ops.drawing.text import VOCABULARIES, Language, letter_text

_MARGIN = 60.0
_GAP = 24.0
_COLUMN = (A4[0] - 2 * _MARGIN - _GAP) / 2
_SIZE, _LEADING = 10.0, 13.0

_HEADINGS = {"eng": ("Item", "Number", "Amount"), "deu": ("Bezeichnung", "Nummer", "Betrag")}
_TABLE_X = (_MARGIN, 300.0, 400.0, A4[0] - _MARGIN)
_ROW = 22.0


def columns(seed: int, language: Language = "eng", *, dpi: int = 300, skew: float = 0.0) -> Drawn:
    """A page of two columns of about 45 lines each, in paragraphs; its text is the first column, then the second."""
    with typesetter() as setter:
        pair = [list(_column(setter, seed, language, number)) for number in range(2)]
        image = setter.image(setter.page([line for column in pair for line in column], skew), dpi)
    return Drawn(image, "\n".join(line.text for column in pair for line in column) + "\n")


def table(seed: int, language: Language = "eng", *, dpi: int = 300, skew: float = 0.0, rows: int = 24) -> Drawn:
    """A table of goods, numbers and amounts, all its cells framed; its text goes row by row."""
    rng = random.Random(f"table {language} {seed}")  # noqa: S311  # a repeatable drawing, not a secret
    words = VOCABULARIES[language]
    cells: list[tuple[str, ...]] = [_HEADINGS[language]]
    for _ in range(rows):
        goods = rng.choice(words.slots["goods"])
        amount = words.amount(rng.randint(120, 48000), rng.randint(10, 99))
        cells.append((goods[:1].upper() + goods[1:], str(rng.randint(112, 9876)), amount))
    top = A4[1] - 2 * _MARGIN
    lines = [
        Line(x + 6, top - _ROW * number - 15, text, "Helvetica", _SIZE)
        for number, row in enumerate(cells)
        for x, text in zip(_TABLE_X, row, strict=False)
    ]
    with typesetter() as setter:
        image = setter.image(setter.page(lines, skew, list(_frame(top, len(cells)))), dpi)
    return Drawn(image, "\n".join(" ".join(row) for row in cells) + "\n")


def _column(setter: Typesetter, seed: int, language: Language, number: int) -> Iterator[Line]:
    x = _MARGIN + number * (_COLUMN + _GAP)
    y = A4[1] - _MARGIN - _SIZE
    for paragraph in letter_text(2 * seed + number, language, paragraphs=12).body:
        rows = setter.wrapped(paragraph, "Times-Roman", _SIZE, _COLUMN)
        if y - _LEADING * len(rows) < _MARGIN:
            return
        for row in rows:
            yield Line(x, y, row, "Times-Roman", _SIZE)
            y -= _LEADING
        y -= 0.5 * _LEADING


def _frame(top: float, rows: int) -> Iterator[Rule]:
    height = _ROW * rows
    for number in range(rows + 1):
        yield Rule(_TABLE_X[0], top - _ROW * number, _TABLE_X[-1] - _TABLE_X[0], 0.75)
    for x in _TABLE_X:
        yield Rule(x, top - height, 0.75, height)
