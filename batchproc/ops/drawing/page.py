"""Typesetting for drawn documents: lines of text on A4, as a picture.

The fonts are the standard ones that every PDF reader brings along, so none has to be installed. PDFium both makes and
renders the pages; it must not be used by two threads at once. Lengths are in points (1/72 inch), y counts upwards
from the bottom of the page.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pypdfium2  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]
from PIL import Image

A4 = (595.28, 841.89)
"""Width and height, points."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text whose baseline begins at x, y. ``font`` is a standard one such as Helvetica or Times-Roman."""

    x: float
    y: float
    text: str
    font: str
    size: float


class Typesetter:
    """A PDF in the making, page by page. To be closed; see `typesetter`."""

    def __init__(self) -> None:
        self._document = pypdfium2.PdfDocument.new()
        self._fonts: dict[str, pdfium.FPDF_FONT] = {}
        self._widths: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        """Free what PDFium holds."""
        for font in self._fonts.values():
            pdfium.FPDFFont_Close(font)
        self._document.close()

    def width(self, text: str, font: str, size: float) -> float:
        """How long the text is when set in that font, points."""
        return sum(self._glyph_width(font, character) for character in text) * size

    def wrapped(self, text: str, font: str, size: float, width: float) -> list[str]:
        """The text as lines of at most that width, broken between words."""
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width(longer, font, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def page(self, lines: Sequence[Line], skew: float = 0.0) -> pypdfium2.PdfPage:
        """Append an A4 page, everything on it turned counterclockwise about its centre by ``skew`` degrees."""
        page = self._document.new_page(*A4)
        for line in lines:
            place(page, self._text(line), line.x, line.y, skew)
        pdfium.FPDFPage_GenerateContent(page)
        return page

    def image(self, page: pypdfium2.PdfPage, dpi: int) -> Image.Image:
        """The page as a picture of mode L that does not depend on the document any more."""
        rendered: Image.Image = page.render(scale=dpi / 72, grayscale=True).to_pil()
        return rendered.crop((0, 0, round(A4[0] * dpi / 72), round(A4[1] * dpi / 72)))

    def _text(self, line: Line) -> pdfium.FPDF_PAGEOBJECT:
        item = pdfium.FPDFPageObj_CreateTextObj(self._document, self._font(line.font), line.size)
        encoded = ctypes.create_string_buffer(line.text.encode("utf-16-le") + b"\0\0")
        pdfium.FPDFText_SetText(item, ctypes.cast(encoded, pdfium.FPDF_WIDESTRING))
        return item

    def _font(self, name: str) -> pdfium.FPDF_FONT:
        if name not in self._fonts:
            self._fonts[name] = pdfium.FPDFText_LoadStandardFont(self._document, name.encode())
        return self._fonts[name]

    def _glyph_width(self, font: str, character: str) -> float:
        key = (font, character)
        if key not in self._widths:
            width = ctypes.c_float()
            pdfium.FPDFFont_GetGlyphWidth(self._font(font), ord(character), 1.0, width)
            self._widths[key] = width.value
        return self._widths[key]


def place(page: pypdfium2.PdfPage, item: pdfium.FPDF_PAGEOBJECT, x: float, y: float, skew: float) -> None:
    """Put an object at x, y on an A4 page, turned with it by ``skew`` degrees; its content is then to be generated."""
    cosine, sine = math.cos(math.radians(skew)), math.sin(math.radians(skew))
    middle_x, middle_y = A4[0] / 2, A4[1] / 2
    x, y = x - middle_x, y - middle_y
    moved = (x * cosine - y * sine + middle_x, x * sine + y * cosine + middle_y)
    pdfium.FPDFPageObj_Transform(item, cosine, sine, -sine, cosine, *moved)
    pdfium.FPDFPage_InsertObject(page, item)


@contextmanager
def typesetter() -> Iterator[Typesetter]:
    """A `Typesetter`, closed at the end."""
    setter = Typesetter()
    try:
        yield setter
    finally:
        setter.close()
