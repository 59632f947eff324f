"""What lies on a PDF page, read from pdfium's objects without rendering: its images, and how its text was written.

Works on raw pdfium handles: a drawing can have half a million objects, for which pypdfium2's wrappers are too slow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types

MAX_NESTING: Final = 8
SAMPLED_CHARACTERS: Final = 200

Matrix = tuple[float, float, float, float, float, float]
Box = tuple[float, float, float, float]

_IDENTITY: Final[Matrix] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class PlacedImage:
    """An image on a page: its own size in pixels, its place in the page's points (left, bottom, right, top)."""

    width: int
    height: int
    box: Box


@dataclass(frozen=True)
class TextTraits:
    """How text was written: mostly invisibly (`hidden`); the part without Unicode mapping (`unmapped`, 0 to 1)."""

    hidden: bool
    unmapped: float


def images(page: Any) -> Iterator[PlacedImage]:
    """The images of a page, also those within form objects, without decoding them."""
    for index in range(raw.FPDFPage_CountObjects(page)):
        yield from _images_of(raw.FPDFPage_GetObject(page, index), _IDENTITY, MAX_NESTING)


def image_share(page: Any, page_box: Box) -> float:
    """The part of the page, 0 to 1, that images cover (strips are added up, so overlaps count twice)."""
    left, bottom, right, top = page_box
    area = (right - left) * (top - bottom)
    if area <= 0:
        return 0.0
    covered = 0.0
    for image in images(page):
        width = min(image.box[2], right) - max(image.box[0], left)
        height = min(image.box[3], top) - max(image.box[1], bottom)
        covered += max(0.0, width) * max(0.0, height)
    return min(1.0, covered / area)


def text_traits(textpage: Any, count: int) -> TextTraits:
    """Judged by a sample of the `count` characters of a text page."""
    seen = hidden = unmapped = 0
    for index in range(0, count, max(1, count // SAMPLED_CHARACTERS)):
        if raw.FPDFText_IsGenerated(textpage, index) == 1:  # blanks and line ends that pdfium adds
            continue
        seen += 1
        unmapped += raw.FPDFText_HasUnicodeMapError(textpage, index) == 1
        owner = raw.FPDFText_GetTextObject(textpage, index)
        hidden += bool(owner) and raw.FPDFTextObj_GetTextRenderMode(owner) == raw.FPDF_TEXTRENDERMODE_INVISIBLE
    return TextTraits(hidden=hidden * 2 > seen, unmapped=unmapped / seen if seen else 0.0)


def _images_of(item: Any, outer: Matrix, nesting: int) -> Iterator[PlacedImage]:
    kind = raw.FPDFPageObj_GetType(item)
    if kind == raw.FPDF_PAGEOBJ_IMAGE:
        width, height = ctypes.c_uint(), ctypes.c_uint()
        if raw.FPDFImageObj_GetImagePixelSize(item, width, height):
            yield PlacedImage(width.value, height.value, _transformed(_bounds_of(item), outer))
    elif kind == raw.FPDF_PAGEOBJ_FORM and nesting > 0:
        inner = _multiplied(_matrix_of(item), outer)
        for index in range(raw.FPDFFormObj_CountObjects(item)):
            yield from _images_of(raw.FPDFFormObj_GetObject(item, index), inner, nesting - 1)


def _bounds_of(item: Any) -> Box:
    edges = [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(item, *edges)
    left, bottom, right, top = (edge.value for edge in edges)
    return left, bottom, right, top


def _matrix_of(item: Any) -> Matrix:
    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, found):
        return _IDENTITY
    return found.a, found.b, found.c, found.d, found.e, found.f


def _multiplied(first: Matrix, then: Matrix) -> Matrix:
    """The matrix that applies `first`, then `then` (PDF 1.7 reference, 4.2.3)."""
    a, b, c, d, e, f = first
    p, q, r, s, t, u = then
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _transformed(box: Box, matrix: Matrix) -> Box:
    left, bottom, right, top = box
    a, b, c, d, e, f = matrix
    corners = [(left, bottom), (left, top), (right, bottom), (right, top)]
    xs = [a * x + c * y + e for x, y in corners]
    ys = [b * x + d * y + f for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)
