"""Documents that only tests need: pages that are laid out otherwise than a letter, hard light, a PDF with text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]  # it ships no types
from PIL import Image, ImageChops, ImageOps

from batchproc.ops.drawing import Drawn
from batchproc.ops.drawing.page import A4, Line, Typesetter, place, typesetter
from batchproc.ops.drawing.text import VOCABULARIES, Language, letter_text

_MARGIN = 60.0
_GAP = 24.0
_COLUMN = (A4[0] - 2 * _MARGIN - _GAP) / 2
_SIZE, _LEADING = 10.0, 13.0

_HEADINGS = {"eng": ("Item", "Number", "Amount"), "deu": ("Bezeichnung", "Nummer", "Betrag")}
_TABLE_X = (_MARGIN, 300.0, 400.0, A4[0] - _MARGIN)
_ROW = 22.0

_TEXT_MARGIN = 70.0
_TEXT_WIDTH = A4[0] - 2 * _TEXT_MARGIN


@dataclass(frozen=True, slots=True)
class Bar:
    """A black one whose lower left corner is at x, y."""

    x: float
    y: float
    width: float
    height: float


def columns(seed: int, language: Language = "eng", *, dpi: int = 300, skew: float = 0.0) -> Drawn:
    """A page of two columns of about 45 lines each, in paragraphs; its text is the first column, then the second."""
    with typesetter() as setter:
        pair = [list(_column(setter, seed, language, number)) for number in range(2)]
        image = setter.image(setter.page([line for column in pair for line in column], skew), dpi)
    return Drawn(image, "\n".join(line.text for column in pair for line in column) + "\n")


def table(seed: int, language: Language = "eng", *, dpi: int = 300, skew: float = 0.0, rows: int = 24) -> Drawn:
    """A table of goods, numbers and amounts, all its cells framed; its text goes row by row."""
    rng = random.Random(f"table {language} {seed}")  # a repeatable drawing, not a secret
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
        page = setter.page(lines, skew)
        for bar in _frame(top, len(cells)):
            place(page, _rule(bar), bar.x, bar.y, skew)
        pdfium.FPDFPage_GenerateContent(page)
        image = setter.image(page, dpi)
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


def _frame(top: float, rows: int) -> Iterator[Bar]:
    height = _ROW * rows
    for number in range(rows + 1):
        yield Bar(_TABLE_X[0], top - _ROW * number, _TABLE_X[-1] - _TABLE_X[0], 0.75)
    for x in _TABLE_X:
        yield Bar(x, top - height, 0.75, height)


def _rule(bar: Bar) -> pdfium.FPDF_PAGEOBJECT:
    item = pdfium.FPDFPageObj_CreateNewRect(0.0, 0.0, bar.width, bar.height)
    pdfium.FPDFPageObj_SetFillColor(item, 0, 0, 0, 255)
    pdfium.FPDFPath_SetDrawMode(item, pdfium.FPDF_FILLMODE_WINDING, False)
    return item


def faded(image: Image.Image, *, ink: int, paper: int) -> Image.Image:
    """With black as the grey level ``ink`` and white as ``paper``."""
    return image.point([round(ink + (paper - ink) * value / 255) for value in range(256)])


def shadowed(image: Image.Image, darkest: float) -> Image.Image:
    """As photographed under a lamp: light at the top left, at the bottom right only ``darkest`` (0 to 1) of it."""
    ramp = Image.linear_gradient("L").resize(image.size)
    across = Image.linear_gradient("L").transpose(Image.Transpose.ROTATE_90).resize(image.size)
    depth = Image.blend(ramp, across, 0.5)
    light = ImageOps.invert(depth.point([round(value * (1 - darkest)) for value in range(256)]))
    return ImageChops.multiply(image, light)


def stamped(image: Image.Image, text: str, dpi: int, *, ink: int = 130) -> Image.Image:
    """With a big grey stamp, askew, over the middle of the page."""
    with typesetter() as setter:
        stamp = setter.image(setter.page([Line(A4[0] / 2 - 170, A4[1] / 2, text, "Helvetica-Bold", 52)], 20.0), dpi)
    return ImageChops.multiply(image, faded(stamp.resize(image.size), ink=ink, paper=255))


def text_pdf(text: str, path: Path) -> None:
    """Write a PDF with a text layer; a form feed begins a new page, lines too long are broken.

    Raises:
        ValueError: a page has more lines than fit on it (about 45).
    """
    font, size, leading = "Helvetica", 11.0, 15.0
    with typesetter() as setter:
        for content in text.split("\f"):
            rows = [
                row for line in content.splitlines() for row in setter.wrapped(line, font, size, _TEXT_WIDTH) or [""]
            ]
            top = A4[1] - _TEXT_MARGIN
            if top - leading * len(rows) < _TEXT_MARGIN:
                raise ValueError(f"{len(rows)} lines do not fit on a page")
            page = setter.page(
                [Line(_TEXT_MARGIN, top - leading * n, row, font, size) for n, row in enumerate(rows) if row]
            )
        page.pdf.save(path)
