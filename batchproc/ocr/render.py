"""A PDF page through pdfium: its text layer and its pixels.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

import math
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from batchproc.ocr import memory, pdf_objects
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.embedded_images import check_data, check_large, require_decodable
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Box
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.pdf_layer import PdfTextLayer
from batchproc.ocr.pdf_text import text_traits
from batchproc.ocr.sheet import true_scale
from batchproc.ocr.shown import Shown
from batchproc.ocr.text_layer import normalised_text

MAX_TEXTS: Final = 30_000
"""Text objects of a page whose text is asked for: pdfium compares each with all (4 s; 100,000 take a minute)."""

FEW_LETTERS: Final = 150
"""Of a page's own text: a header line, a number or a stamp, for which it does not count as read without its images."""

_WHITE: Final = (255, 255, 255, 255)
_NOTHING_SEEN: Final = (255, 255)


class PdfPage:
    """One page. See `batchproc.ocr.pages.SourcePage`."""

    def __init__(self, page: Any, bounds: Bounds) -> None:
        self._page = page
        self._bounds = bounds

    def text_layer(self) -> TextLayer | None:
        layer = self._layer()
        if layer is not None and _is_little(layer):
            check_large(self._page, self._bounds)
        return layer

    def image(self, dpi: int) -> PageImage:
        image = self._picture(None, dpi)
        try:
            check_large(self._page, self._bounds)
        except OcrFailure:
            layer = self._layer()
            if layer is None or _is_little(layer):
                raise
        return image

    def close(self) -> None:
        self._page.close()

    def _layer(self) -> TextLayer | None:
        if pdf_objects.has_more_texts(self._page.raw, MAX_TEXTS):
            return None
        try:
            textpage = self._page.get_textpage()
        except pdfium.PdfiumError as error:
            raise OcrFailure("unreadable_file", "pdfium cannot read the page's text") from error
        try:
            with memory.room():
                return self._read_text(textpage)
        finally:
            textpage.close()

    def _read_text(self, textpage: Any) -> TextLayer | None:
        count = textpage.count_chars()
        if count > self._bounds.max_page_characters:
            raise OcrFailure("too_large", f"a text layer of {count} characters")
        text = normalised_text(textpage.get_text_bounded())
        if not text.strip():
            return None
        traits = text_traits(textpage.raw, count, Shown.of(self._page))
        return PdfTextLayer(self._page, text, traits, self._picture)

    def _picture(self, region: Box | None, dpi: int) -> PageImage:
        """The page, or a part of it (in points as it is shown).

        Raises:
            OcrFailure: `too_large`, before any pixel is decoded.
        """
        sheet_width, sheet_height = self._page.get_size()
        scale = true_scale(self._page.raw, (sheet_width, sheet_height))
        width, height, dpi = self._bounds.render_size(sheet_width * scale, sheet_height * scale, dpi)
        most = width * height
        for image in pdf_objects.images(self._page.raw):
            self._bounds.check_pixels(image.width, image.height)
            check_data(image.item, self._bounds)
            most = max(most, image.width * image.height)
        part = (0, 0, width, height)
        if region is not None:
            across, down = width / sheet_width, height / sheet_height
            left, top = max(0, math.floor(region.left * across)), max(0, math.floor(region.top * down))
            right, bottom = min(width, math.ceil(region.right * across)), min(height, math.ceil(region.bottom * down))
            part = (left, top, max(left + 1, right), max(top + 1, bottom))
        with memory.room(memory.PER_PIXEL * most):  # without, pdfium leaves out the images, and the page is blank
            pixels = self._render((width, height), part)
            if pixels.getextrema() == _NOTHING_SEEN:
                require_decodable(image.item for image in pdf_objects.images(self._page.raw))
            return PageImage(pixels, dpi, dpi_estimated=scale != 1.0)

    def _render(self, page: tuple[int, int], part: tuple[int, int, int, int]) -> Image.Image:
        """A part of the page in grey, of the page drawn with this many pixels.

        pypdfium2's own `render` rounds sizes up, which blurs a scan by stretching it one pixel.
        """
        left, top, right, bottom = part
        width, height = right - left, bottom - top
        bitmap = pdfium.PdfBitmap.new_native(width, height, raw.FPDFBitmap_Gray)
        try:
            if not bitmap.raw:
                raise MemoryError(f"no memory for a page of {width} x {height} pixels")
            bitmap.fill_rect(_WHITE, 0, 0, width, height)
            flags = raw.FPDF_ANNOT | raw.FPDF_GRAYSCALE
            raw.FPDF_RenderPageBitmap(bitmap, self._page, -left, -top, *page, 0, flags)
            if self._page.formenv:  # form fields, which are drawn by nothing else
                raw.FPDF_FFLDraw(self._page.formenv, bitmap, self._page, -left, -top, *page, 0, flags)
            image: Image.Image = bitmap.to_pil()
            return image.copy()  # the original shares the bitmap's memory
        finally:
            bitmap.close()


def _is_little(layer: TextLayer) -> bool:
    return sum(map(str.isalnum, layer.text)) < FEW_LETTERS
