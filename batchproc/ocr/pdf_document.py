"""An open PDF through pdfium: what it says of itself, and its pages.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

import io
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from batchproc.ocr import memory
from batchproc.ocr.bounds import NOMINAL_DPI, Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.render import PdfPage
from batchproc.ocr.stream import SourceStream

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
