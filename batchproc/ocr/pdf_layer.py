"""The text layer of a PDF page, and what the page shows besides it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from batchproc.ocr import memory, pdf_objects
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.coverage import Coverage
from batchproc.ocr.embedded_images import lost_image
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Box
from batchproc.ocr.pages import PageImage, PlacedText
from batchproc.ocr.pdf_text import TextTraits, read_lines, unmapped_texts
from batchproc.ocr.shown import Shown

MAX_PLACED: Final = 100_000
"""Characters whose places are looked up, at 8 microseconds each. A newspaper's page has 30,000."""

COVERING_SHARE: Final = 0.5
"""Part of the page from which on an image over text is a scan, which some OCR program wrote that for. A smaller one is
a label: see `batchproc.ocr.mixed_page`."""

FEW_LETTERS: Final = 150
"""A page with fewer, but many outlines, is one whose text was turned into outlines, page numbers or so apart."""

MANY_SEGMENTS: Final = 1000
"""Of outlines: some 60 letters, which have about 16 each."""

LETTER_SEGMENTS: Final = 8
"""An outline with fewer is a rule, a box or a check mark."""

_MAX_COVERING: Final = 100
_MAX_ANNOTATIONS: Final = 10_000
_FAINTEST: Final = 8  # of 255, opacity
_UNSEEN: Final = (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
_WITH_TEXT: Final = (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP)
_WITHOUT_TEXT: Final = (
    raw.FPDF_ANNOT_LINK,
    raw.FPDF_ANNOT_POPUP,
    raw.FPDF_ANNOT_HIGHLIGHT,
    raw.FPDF_ANNOT_UNDERLINE,
    raw.FPDF_ANNOT_SQUIGGLY,
    raw.FPDF_ANNOT_STRIKEOUT,
)
_EMPTY_TEXT: Final = 2  # bytes: the end of an UTF-16 text


@dataclass
class _Contents:
    """What lies on a page.

    Attributes:
        coverage: by everything that may show text which is not in the layer.
        outlines: what outlines of letters may cover, and `segments`, how many lines and curves they are made of.
        covering: large opaque images, by their place in the order of painting.
        first_text: the place in that order of the first text object.
    """

    coverage: Coverage
    outlines: Coverage
    covering: list[tuple[int, Box]] = field(default_factory=list)
    first_text: int | None = None
    segments: int = 0


class PdfTextLayer:
    """See `batchproc.ocr.pages.TextLayer`."""

    def __init__(
        self, page: Any, text: str, traits: TextTraits, render: Callable[[Box, int], PageImage], bounds: Bounds
    ) -> None:
        self.text: Final = text
        self.unmapped: Final = traits.unmapped
        self.misshapen: Final = traits.misshapen
        self._page = page
        self._shown = Shown.of(page)
        self._render = render
        self._bounds = bounds
        self._unmapped: frozenset[int] = frozenset()

    def size(self) -> tuple[float, float]:
        return self._shown.width, self._shown.height

    def image_regions(self) -> tuple[Box, ...]:
        return self._contents.coverage.regions()

    def picture(self, region: Box, dpi: int, *, with_text: bool = False) -> PageImage:
        if with_text:
            return self._render(region, dpi)
        with pdf_objects.without(pdf_objects.texts(self._page.raw, but=self._unmapped)):
            return self._render(region, dpi)

    def lost_image(self, is_read: Callable[[Box], bool]) -> OcrFailure | None:
        return lost_image(self._page, self._bounds, is_read)

    def placed(self) -> PlacedText | None:
        hides = self._hiding()
        with memory.room():
            try:
                textpage = self._page.get_textpage()
            except pdfium.PdfiumError as error:
                raise OcrFailure("unreadable_file", "pdfium cannot read the page's text") from error
            try:
                count = textpage.count_chars()
                if count > MAX_PLACED:
                    return None
                self._unmapped = unmapped_texts(textpage.raw, count) if self.unmapped else frozenset()
                unmapped = self._unmapped
                return read_lines(
                    textpage.raw,
                    count,
                    self._shown,
                    hides,
                    lambda owner: bool(unmapped) and pdf_objects.address(owner) in unmapped,
                )
            finally:
                textpage.close()

    @cached_property
    def _contents(self) -> _Contents:
        found = _Contents(Coverage(self.size()), Coverage(self.size()))
        letters = sum(map(str.isalnum, self.text[: 10 * FEW_LETTERS]))
        for order, (kind, item, outer) in enumerate(pdf_objects.objects(self._page.raw)):
            if kind == raw.FPDF_PAGEOBJ_IMAGE:
                self._see_image(found, item, outer, order)
            elif kind == raw.FPDF_PAGEOBJ_TEXT and found.first_text is None:
                found.first_text = order
            elif kind == raw.FPDF_PAGEOBJ_PATH and letters < FEW_LETTERS:
                self._see_outline(found, item, outer)
        extent = found.outlines.extent() if found.segments >= MANY_SEGMENTS else None
        if extent is not None:
            found.coverage.add(extent)
        for box in self._annotations():
            found.coverage.add(box)
        return found

    def _see_image(self, found: _Contents, item: Any, outer: pdf_objects.Matrix, order: int) -> None:
        image = pdf_objects.placed_image(item, outer, order)
        if image is None:
            return
        box = self._shown.box(*image.box)
        found.coverage.add(box)
        large = box.area >= COVERING_SHARE * self._shown.width * self._shown.height
        if large and len(found.covering) < _MAX_COVERING and not raw.FPDFPageObj_HasTransparency(item):
            found.covering.append((order, box))

    def _see_outline(self, found: _Contents, item: Any, outer: pdf_objects.Matrix) -> None:
        segments = raw.FPDFPath_CountSegments(item)
        if segments >= LETTER_SEGMENTS:
            found.segments += segments
            found.outlines.add(self._shown.box(*pdf_objects.placed_box(item, outer)))

    def _annotations(self) -> list[Box]:
        """Where notes are that are drawn and may hold text, which is in no layer: form fields, stamps, watermarks."""
        boxes = []
        for index in range(min(_MAX_ANNOTATIONS, raw.FPDFPage_GetAnnotCount(self._page.raw))):
            note = raw.FPDFPage_GetAnnot(self._page.raw, index)
            try:
                edges = raw.FS_RECTF()
                if _may_hold_text(note) and raw.FPDFAnnot_GetRect(note, edges):
                    boxes.append(self._shown.box(edges.left, edges.bottom, edges.right, edges.top))
            finally:
                raw.FPDFPage_CloseAnnot(note)
        return boxes

    def _hiding(self) -> Callable[[Any, Box], bool]:
        """What tells whether a character at some place, of some text object, cannot be seen."""
        contents = self._contents
        first = contents.first_text
        covering = [(order, box) for order, box in contents.covering if first is not None and order > first]
        orders = _orders_of_text(self._page.raw) if covering else {}
        unseen: dict[int, bool] = {}

        def is_hidden(owner: Any, place: Box) -> bool:
            key = pdf_objects.address(owner)
            if key not in unseen:
                unseen[key] = bool(key) and _is_unseen(owner)
            if unseen[key] or not covering:
                return unseen[key]
            x, y = place.centre
            painted = orders.get(key, len(orders))
            return any(
                order > painted and box.left <= x <= box.right and box.top <= y <= box.bottom for order, box in covering
            )

        return is_hidden


def _may_hold_text(note: Any) -> bool:
    kind = raw.FPDFAnnot_GetSubtype(note)
    if kind in _WITH_TEXT:
        return True
    appearance = raw.FPDFAnnot_GetAP(note, raw.FPDF_ANNOT_APPEARANCEMODE_NORMAL, None, 0)
    return kind not in _WITHOUT_TEXT and bool(appearance > _EMPTY_TEXT)


def _orders_of_text(page: Any) -> dict[int, int]:
    return {
        pdf_objects.address(item): order
        for order, (kind, item, _) in enumerate(pdf_objects.objects(page))
        if kind == raw.FPDF_PAGEOBJ_TEXT
    }


def _is_unseen(text: Any) -> bool:
    if raw.FPDFTextObj_GetTextRenderMode(text) in _UNSEEN:
        return True
    red, green, blue, opacity = (ctypes.c_uint(255) for _ in range(4))
    return bool(raw.FPDFPageObj_GetFillColor(text, red, green, blue, opacity)) and opacity.value < _FAINTEST
