"""Scan-like documents with known text, drawn by the project itself: for ``demo``, ``bench ocr`` and the tests.

Everything is repeatable: the same arguments give the same text, picture and file, byte for byte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from batchproc.ops.drawing.page import A4, Line, Typesetter, typesetter
from batchproc.ops.drawing.text import Language, LetterText, letter_text
from batchproc.ops.drawing.wear import scanned

_MARGIN = 70.0
_WIDTH = A4[0] - 2 * _MARGIN
_BODY_END = 150.0
_FIXED_DATE = time.struct_time((2024, 1, 1, 0, 0, 0, 0, 1, 0))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture of mode L and what is written on it: lines, with an empty one between paragraphs."""

    image: Image.Image
    text: str


def letter(
    seed: int,
    language: Language = "eng",
    *,
    dpi: int = 300,
    noise: float = 0.0,
    skew: float = 0.0,
    paragraphs: int = 4,
) -> Drawn:
    """An A4 letter of about 270 to 390 words with letterhead, address, date, subject and signature.

    Args:
        seed: another seed is another letter.
        language: ``eng`` or ``deu``, as Tesseract names them.
        dpi: pixels per inch: at 300 the picture has 2480 x 3508 of them.
        noise: 0 is a clean page, 1 a bad copy that can still be read well: grain, blur and specks.
        skew: degrees that the text is turned by, counterclockwise.
        paragraphs: of the body; those that do not fit on the page are left out, also of the text.
    """
    with typesetter() as setter:
        lines = list(_letter_lines(setter, letter_text(seed, language, paragraphs), seed))
        image = setter.image(setter.page(lines, skew), dpi)
    if noise > 0:
        image = scanned(image, seed, noise, dpi)
    return Drawn(image, _text_of(lines))


def save_png(image: Image.Image, path: Path, dpi: int = 300) -> None:
    """Write a PNG that states its resolution."""
    image.save(path, "PNG", dpi=(dpi, dpi), compress_level=4)


def pdf(pages: Sequence[Image.Image], path: Path, dpi: int = 300) -> None:
    """Write a scanned PDF: a picture on each page and no text layer."""
    first, *others = pages
    # Without these, Pillow writes the name of the file as the title, and the time.
    fixed = {"title": "", "creationDate": _FIXED_DATE, "modDate": _FIXED_DATE}
    first.save(path, "PDF", resolution=dpi, save_all=True, append_images=others, **fixed)


def broken_pdf(path: Path) -> None:
    """Write what is left of a PDF that was cut off in its first picture: it cannot be repaired."""
    picture = random.Random(1).randbytes(4000)  # noqa: S311  # stands for image data
    head = b"%PDF-1.4\n1 0 obj\n<< /Type /XObject /Subtype /Image /Width 2480 /Height 3508 /ColorSpace /DeviceGray\n"
    path.write_bytes(head + b"/BitsPerComponent 8 /Filter /DCTDecode /Length 400000 >>\nstream\n" + picture)


def _letter_lines(setter: Typesetter, letter: LetterText, seed: int) -> Iterator[Line]:
    plain, bold = (("Helvetica", "Helvetica-Bold"), ("Times-Roman", "Times-Bold"))[seed % 2]
    size, leading = 11.0, 15.0
    y = A4[1] - _MARGIN

    yield Line(_MARGIN, y, letter.sender[0], bold, 17)
    yield Line(_MARGIN, y - 18, "  ".join(letter.sender[1:]), plain, 9)
    y -= 70
    for row in letter.address:
        yield Line(_MARGIN, y, row, plain, size)
        y -= leading
    yield Line(A4[0] - _MARGIN - setter.width(letter.date, plain, size), y - 10, letter.date, plain, size)
    y -= 45
    yield Line(_MARGIN, y, letter.subject, bold, size)
    y -= 2 * leading
    yield Line(_MARGIN, y, letter.greeting, plain, size)
    y -= 1.6 * leading
    for paragraph in letter.body:
        rows = setter.wrapped(paragraph, plain, size, _WIDTH)
        if y - leading * len(rows) < _BODY_END:
            break
        for row in rows:
            yield Line(_MARGIN, y, row, plain, size)
            y -= leading
        y -= 0.6 * leading
    farewell, name, role = letter.closing
    for gap, row in ((0.0, farewell), (3.0, name), (1.0, role)):
        y -= gap * leading
        yield Line(_MARGIN, y, row, plain, size)


def _text_of(lines: Sequence[Line]) -> str:
    rows: list[str] = []
    above: Line | None = None
    for line in lines:
        if above is not None and above.y - line.y > 1.5 * line.size:
            rows.append("")
        rows.append(line.text)
        above = line
    return "\n".join(rows) + "\n"
