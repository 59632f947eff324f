"""What lies on a PDF page, read from pdfium's objects without rendering: images, texts, outlines.

Works on raw pdfium handles: a drawing can have half a million objects, for which pypdfium2's wrappers are too slow.
Places are in the page's own points, from its lower left corner.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types

from batchproc.ocr.errors import OcrFailure

MAX_NESTING: Final = 40
"""Of forms within forms: pdfium itself draws no deeper ones."""

MAX_OBJECTS: Final = 2_000_000
"""Objects of a page that are looked at: two to four seconds."""

Matrix = tuple[float, float, float, float, float, float]
PointBox = tuple[float, float, float, float]
"""Left, bottom, right, top."""

_IDENTITY: Final[Matrix] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class PlacedImage:
    """An image on a page: its own size in pixels, and its place.

    `item` is pdfium's own handle, valid as long as the page is. `order` counts the page's objects as they are painted.
    """

    width: int
    height: int
    box: PointBox
    item: Any = field(default=None, compare=False, repr=False)
    order: int = 0


def images(page: Any) -> Iterator[PlacedImage]:
    """The images of a page, also those within form objects, without decoding them.

    Raises:
        OcrFailure: `too_large`, the page has more than `MAX_OBJECTS` objects.
    """
    for order, (kind, item, outer) in enumerate(objects(page)):
        if kind == raw.FPDF_PAGEOBJ_IMAGE and (found := placed_image(item, outer, order)) is not None:
            yield found


def objects(page: Any) -> Iterator[tuple[int, Any, Matrix]]:
    """Kind, handle and outer matrix of all objects but forms, whose own objects come in their place, as painted.

    Raises:
        OcrFailure: `too_large`, the page has more than `MAX_OBJECTS` objects.
    """
    left = [MAX_OBJECTS]
    for index in range(raw.FPDFPage_CountObjects(page)):
        yield from _leaves(raw.FPDFPage_GetObject(page, index), _IDENTITY, MAX_NESTING, left)


def placed_image(item: Any, outer: Matrix, order: int) -> PlacedImage | None:
    """None for an image whose size pdfium cannot tell."""
    width, height = ctypes.c_uint(), ctypes.c_uint()
    if not raw.FPDFImageObj_GetImagePixelSize(item, width, height):
        return None
    return PlacedImage(width.value, height.value, placed_box(item, outer), item, order)


def placed_box(item: Any, outer: Matrix) -> PointBox:
    """Where an object is on the page."""
    return _transformed(_bounds_of(item), outer)


def has_more_texts(page: Any, most: int) -> bool:
    """Whether there are more text objects than that.

    Raises:
        OcrFailure: `too_large`, the page has more than `MAX_OBJECTS` objects.
    """
    found = (kind for kind, _, _ in objects(page) if kind == raw.FPDF_PAGEOBJ_TEXT)
    return next(islice(found, most, None), None) is not None


def address(item: Any) -> int:
    """What tells one of pdfium's handles from another; 0 for none."""
    return ctypes.cast(item, ctypes.c_void_p).value or 0


def texts(page: Any, *, but: Collection[int] = ()) -> list[Any]:
    """The text objects of a page, apart from those with an address in `but`."""
    return [
        item for kind, item, _ in objects(page) if kind == raw.FPDF_PAGEOBJ_TEXT and not (but and address(item) in but)
    ]


@contextmanager
def without(items: Collection[Any]) -> Iterator[None]:
    """While this lasts, the page is rendered without these objects, and none of them is decoded.

    A text page that is loaded meanwhile lacks them too.
    """
    for item in items:
        raw.FPDFPageObj_SetIsActive(item, False)
    try:
        yield
    finally:
        for item in items:
            raw.FPDFPageObj_SetIsActive(item, True)


def _leaves(item: Any, outer: Matrix, nesting: int, left: list[int]) -> Iterator[tuple[int, Any, Matrix]]:
    kind = raw.FPDFPageObj_GetType(item)
    left[0] -= 1
    if left[0] < 0:
        raise OcrFailure("too_large", f"a page of more than {MAX_OBJECTS} objects")
    if kind != raw.FPDF_PAGEOBJ_FORM:
        yield kind, item, outer
    elif nesting > 0:
        inner = _multiplied(_matrix_of(item), outer)
        for index in range(raw.FPDFFormObj_CountObjects(item)):
            yield from _leaves(raw.FPDFFormObj_GetObject(item, index), inner, nesting - 1, left)


def _bounds_of(item: Any) -> PointBox:
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


def _transformed(box: PointBox, matrix: Matrix) -> PointBox:
    left, bottom, right, top = box
    a, b, c, d, e, f = matrix
    corners = [(left, bottom), (left, top), (right, bottom), (right, top)]
    xs = [a * x + c * y + e for x, y in corners]
    ys = [b * x + d * y + f for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)
