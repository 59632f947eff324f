"""A PDF page through pdfium: its text layer and its pixels.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from batchproc.ocr import memory, pdf_objects, right_to_left
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.embedded_images import check_size, lost_image, require_decodable
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Box
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.pdf_layer import MAX_PLACED, PdfTextLayer
from batchproc.ocr.pdf_text import text_in_order, text_traits
from batchproc.ocr.sheet import true_scale
from batchproc.ocr.shown import Shown
from batchproc.ocr.text_layer import normalised_text

MAX_TEXTS: Final = 30_000
"""Text objects of a page whose text is asked for: pdfium compares each with all (4 s; 100,000 take a minute)."""

_WHITE: Final = (255, 255, 255, 255)
_NOTHING_SEEN: Final = (255, 255)


class PdfPage:
    """One page. See `batchproc.ocr.pages.SourcePage`."""

    def __init__(self, page: Any, bounds: Bounds) -> None:
        self._page = page
        self._bounds = bounds

    def image(self, dpi: int) -> PageImage:
        return replace(self._picture(None, dpi), lost=lost_image(self._page, self._bounds))

    def close(self) -> None:
        self._page.close()

    def text_layer(self) -> TextLayer | None:
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
        shown = Shown.of(self._page)
        text = normalised_text(textpage.get_text_bounded())
        if count <= MAX_PLACED and right_to_left.HAS_LETTERS.search(text):
            text = normalised_text(text_in_order(textpage.raw, count, shown))
        if not text.strip():
            return None
        traits = text_traits(textpage.raw, count, shown)
        return PdfTextLayer(self._page, text, traits, self._picture, self._bounds)

    def _picture(self, region: Box | None, dpi: int) -> PageImage:
        """The page, or a part of it (in points as it is shown), without images that are too large.

        Raises:
            OcrFailure: `too_large`, before any pixel is decoded, the page is, or nothing is seen without such images;
                `unreadable_file`, nothing is seen without images that cannot be decoded.
        """
        sheet_width, sheet_height = self._page.get_size()
        scale = true_scale(self._page.raw, (sheet_width, sheet_height))
        width, height, dpi = self._bounds.render_size(sheet_width * scale, sheet_height * scale, dpi)
        most, too_large = self._judge_images()
        part = (0, 0, width, height)
        if region is not None:
            across, down = width / sheet_width, height / sheet_height
            left, top = max(0, math.floor(region.left * across)), max(0, math.floor(region.top * down))
            right, bottom = min(width, math.ceil(region.right * across)), min(height, math.ceil(region.bottom * down))
            part = (left, top, max(left + 1, right), max(top + 1, bottom))
        # Without the room pdfium leaves out the images, and the page is blank.
        with (
            memory.room(memory.PER_PIXEL * max(most, width * height)),
            pdf_objects.without([item for item, _ in too_large]),
        ):
            pixels = self._render((width, height), part)
            if pixels.getextrema() == _NOTHING_SEEN:
                for _, failure in too_large:
                    raise failure
                require_decodable(image.item for image in pdf_objects.images(self._page.raw))
            return PageImage(pixels, dpi, dpi_estimated=scale != 1.0)

    def _judge_images(self) -> tuple[int, list[tuple[Any, OcrFailure]]]:
        """The pixels of the largest image that can be decoded, and the images that cannot for their size."""
        most, too_large = 0, []
        for image in pdf_objects.images(self._page.raw):
            try:
                check_size(image, self._bounds)
                most = max(most, image.width * image.height)
            except OcrFailure as failure:
                too_large.append((image.item, failure))
        return most, too_large

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
