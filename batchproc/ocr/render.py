"""PDF pages through pdfium: their text layer and their pixels.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

import io
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from batchproc.ocr import memory, pdf_objects
from batchproc.ocr.bounds import NOMINAL_DPI, Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.stream import SourceStream
from batchproc.ocr.text_layer import FEW_ON_SCAN, normalised_text

_WHITE: Final = (255, 255, 255, 255)
_NEEDS_PASSWORD: Final = (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)


class PdfSource:
    """An open PDF. See `batchproc.ocr.pages.Source`."""

    media_type: Final = "application/pdf"
    flags: Final[tuple[str, ...]] = ()

    def __init__(self, stream: io.BufferedReader[SourceStream], *, bounds: Bounds, password: str | None = None) -> None:
        """
        Raises:
            OcrFailure: `encrypted`, `unreadable_file` or `too_large`.
            OSError: the storage failed.
        """
        self._bounds = bounds
        self._stream = stream
        self._page: PdfPage | None = None
        self._document = _open_document(stream, password)
        try:
            self.page_count = len(self._document)
            bounds.check_pages(self.page_count)
            bounds.check_document([self._page_size(index) for index in range(self.page_count)])
            self.title = self._title()
        except BaseException:
            self.close()
            raise

    def page(self, index: int) -> PdfPage:
        if not 0 <= index < self.page_count:
            raise IndexError(index)
        self._leave_page()
        try:
            with memory.room():
                self._page = PdfPage(self._document[index], self._bounds)
        except pdfium.PdfiumError as error:
            self._stream.raw.raise_storage_error()
            raise OcrFailure("unreadable_file", "pdfium cannot load the page") from error
        return self._page

    def close(self) -> None:
        self._leave_page()
        self._document.close()

    def _leave_page(self) -> None:
        if self._page is not None:
            self._page.close()
            self._page = None

    def _page_size(self, index: int) -> tuple[int, int] | OcrFailure:
        try:
            width, height = self._document.get_page_size(index)
            pixels = self._bounds.render_size(width, height, NOMINAL_DPI)
        except pdfium.PdfiumError:
            return OcrFailure("unreadable_file", "pdfium cannot find the page")
        except OcrFailure as failure:
            return failure
        return pixels[0], pixels[1]

    def _title(self) -> str | None:
        try:
            title: str = self._document.get_metadata_value("Title")
        except UnicodeDecodeError:
            return None
        return title or None


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


class _CallbackStream:
    """What pdfium calls back from C, where an exception would only be printed: a failed read becomes a short one."""

    def __init__(self, stream: io.BufferedReader[SourceStream]) -> None:
        self.seek = stream.seek
        self.tell = stream.tell
        self.read = stream.read
        self._readinto = stream.readinto

    def readinto(self, buffer: Any) -> int:
        try:
            return self._readinto(buffer)
        except OSError:  # SourceStream keeps it, for raise_storage_error
            return 0


def _open_document(stream: io.BufferedReader[SourceStream], password: str | None) -> Any:
    try:
        return pdfium.PdfDocument(_CallbackStream(stream), password=password)
    except pdfium.PdfiumError as error:
        if error.err_code in _NEEDS_PASSWORD:
            given = "the given one does not open it" if password else "none was given"
            raise OcrFailure("encrypted", f"the PDF needs a password, {given}") from error
        stream.raw.raise_storage_error()
        raise OcrFailure("unreadable_file", "pdfium cannot open the PDF, nor repair it") from error
