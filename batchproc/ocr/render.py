"""A PDF page through pdfium: its text layer and its pixels.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from batchproc.ocr import memory, pdf_objects
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.text_layer import FEW_ON_SCAN, normalised_text

_WHITE: Final = (255, 255, 255, 255)


class PdfPage:
    """One page. See `batchproc.ocr.pages.SourcePage`."""

    def __init__(self, page: Any, bounds: Bounds) -> None:
        self._page = page
        self._bounds = bounds

    def text_layer(self) -> TextLayer | None:
        try:
            textpage = self._page.get_textpage()
        except pdfium.PdfiumError as error:
            raise OcrFailure("unreadable_file", "pdfium cannot read the page's text") from error
        try:
            with memory.room():
                return self._read_text(textpage)
        finally:
            textpage.close()

    def image(self, dpi: int) -> PageImage:
        sheet_width, sheet_height = self._page.get_size()
        width, height, dpi = self._bounds.render_size(sheet_width, sheet_height, dpi)
        most = width * height
        for image in pdf_objects.images(self._page.raw):
            self._bounds.check_pixels(image.width, image.height)
            most = max(most, image.width * image.height)
        with memory.room(memory.PER_PIXEL * most):  # without, pdfium leaves out the images, and the page is blank
            return PageImage(self._render(width, height), dpi)

    def close(self) -> None:
        self._page.close()

    def _read_text(self, textpage: Any) -> TextLayer | None:
        count = textpage.count_chars()
        if count > self._bounds.max_page_characters:
            raise OcrFailure("too_large", f"a text layer of {count} characters")
        text = normalised_text(textpage.get_text_bounded())
        if not text.strip():
            return None
        traits = pdf_objects.text_traits(textpage.raw, count)
        few = count < 2 * FEW_ON_SCAN  # blanks are counted too; more characters are good whatever lies behind them
        share = pdf_objects.image_share(self._page.raw, self._page.get_bbox()) if few else 0.0
        return TextLayer(text, image_share=share, hidden=traits.hidden, unmapped=traits.unmapped)

    def _render(self, width: int, height: int) -> Image.Image:
        """The page in grey. pypdfium2's own `render` rounds sizes up, which blurs a scan by stretching it one pixel."""
        bitmap = pdfium.PdfBitmap.new_native(width, height, raw.FPDFBitmap_Gray)
        try:
            if not bitmap.raw:
                raise MemoryError(f"no memory for a page of {width} x {height} pixels")
            bitmap.fill_rect(_WHITE, 0, 0, width, height)
            flags = raw.FPDF_ANNOT | raw.FPDF_GRAYSCALE
            raw.FPDF_RenderPageBitmap(bitmap, self._page, 0, 0, width, height, 0, flags)
            image: Image.Image = bitmap.to_pil()
            return image.copy()  # the original shares the bitmap's memory
        finally:
            bitmap.close()
