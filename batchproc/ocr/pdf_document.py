"""An open PDF through pdfium: what it says of itself, and its pages.

pdfium is not thread-safe: a process reads PDFs in one thread only. All handles are closed in order, children first.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from batchproc.ocr import memory, pdf_scan
from batchproc.ocr.bounds import NOMINAL_DPI, Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pdf_repair import with_trailer
from batchproc.ocr.render import PdfPage
from batchproc.ocr.stream import SourceStream

MOST_KEPT: Final = 4 << 20
"""Bytes of a file that pdfium may keep: with 500 scanned pages of 20 kB a worker's 78 MiB grew by 11 % without this."""

LARGEST_PAGE: Final = 14_400
"""Points: what a page's side may be (PDF 1.7 reference, appendix C)."""

_WITH_FIELDS: Final = (raw.FORMTYPE_ACRO_FORM, raw.FORMTYPE_XFA_FOREGROUND)
"""The latter is a static XFA form, which holds its fields a second time as those of a plain one."""

logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # it warns of each XFA form that it shows the plain one only

_NEEDS_PASSWORD: Final = (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)


class PdfSource:
    """An open PDF. See `batchproc.ocr.pages.Source`."""

    media_type: Final = "application/pdf"

    def __init__(
        self, stream: io.BufferedReader[SourceStream], *, bounds: Bounds, passwords: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """
        Args:
            passwords: what to try when the PDF needs one; called only then.

        Raises:
            OcrFailure: `encrypted`, `unreadable_file` or `too_large`.
            OSError: the storage failed.
        """
        self._bounds = bounds
        self._stream = stream
        self._page: PdfPage | None = None
        self._is_mended = False
        marks = pdf_scan.marks(stream, bounds)
        try:
            self._document, self._password = _open_document(stream, passwords)
        except OcrFailure as failure:
            mended = with_trailer(stream) if failure.code == "unreadable_file" else None
            if mended is None:
                raise
            self._stream, self._is_mended = mended, True
            self._document, self._password = _open_document(mended, passwords)
        try:
            self.page_count = len(self._document)
            bounds.check_pages(self.page_count)
            bounds.check_document([self._page_size(index) for index in range(self.page_count)])
            self.title = self._title()
            self.flags = tuple(sorted(marks | self._flags()))
        except BaseException:
            self.close()
            raise

    def page(self, index: int) -> PdfPage:
        if not 0 <= index < self.page_count:
            raise IndexError(index)
        self._leave_page()
        self._forget_pages()
        try:
            with memory.room():
                page = self._document[index]
                self._page = PdfPage(page, self._bounds)
            if self._is_mended and raw.FPDFPage_CountObjects(page) == 0:
                raise OcrFailure("unreadable_file", "nothing of the page is left in a PDF whose end is missing")
        except pdfium.PdfiumError as error:
            self._stream.raw.raise_storage_error()
            raise OcrFailure("unreadable_file", "pdfium cannot load the page") from error
        return self._page

    def close(self) -> None:
        self._leave_page()
        self._document.close()

    def _forget_pages(self) -> None:
        """Opens the document afresh when much of it was read: pdfium keeps what it has read of a file, page by page."""
        if self._document.read_bytes <= MOST_KEPT:
            return
        fresh = _try(self._stream, self._password)
        if fresh is None:
            raise OcrFailure("unreadable_file", "pdfium opened the PDF once, and not again")
        self._document.close()
        self._document = fresh

    def _leave_page(self) -> None:
        if self._page is not None:
            self._page.close()
            self._page = None

    def _page_size(self, index: int) -> tuple[int, int] | OcrFailure:
        try:
            width, height = self._document.get_page_size(index)
        except pdfium.PdfiumError:
            return OcrFailure("unreadable_file", "pdfium cannot find the page")
        try:
            pixels = self._bounds.render_size(width, height, NOMINAL_DPI)
        except OcrFailure as failure:
            # A scan may show that the page is not as large as it says; that is found out when it is read.
            return (self._bounds.max_pixels, 1) if 0 < max(width, height) <= LARGEST_PAGE else failure
        return pixels[0], pixels[1]

    def _flags(self) -> set[str]:
        found = set()
        if raw.FPDF_GetSignatureCount(self._document) > 0:
            found.add("signed")
        if raw.FPDF_GetFormType(self._document) == raw.FORMTYPE_XFA_FULL:
            found.add("xfa")
        return found

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
        self.served = 0

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._readinto(buffer)
        except OSError:  # SourceStream keeps it, for raise_storage_error
            return 0
        self.served += count
        return count


class _Document(pdfium.PdfDocument):  # type: ignore[misc]  # it ships no types
    """A document that knows how much of its file was read."""

    def __init__(self, stream: _CallbackStream, password: str | None) -> None:
        self._stream = stream
        super().__init__(stream, password=password)
        if raw.FPDF_GetFormType(self) in _WITH_FIELDS:
            with suppress(pdfium.PdfiumError):  # without it the fields of its forms are not drawn
                self.init_forms()

    @property
    def read_bytes(self) -> int:
        return self._stream.served


def _open_document(
    stream: io.BufferedReader[SourceStream], passwords: Callable[[], Sequence[str]]
) -> tuple[_Document, str | None]:
    """The document and its password. Without one first: that opens what only an owner's protects from changes."""
    opened = _try(stream, None)
    if opened is not None:
        return opened, None
    given = passwords()
    for password in given:
        opened = _try(stream, password)
        if opened is not None:
            return opened, password
    tried = f"none of the {len(given)} given opens it" if given else "none was given"
    raise OcrFailure("encrypted", f"the PDF needs a password, {tried}")


def _try(stream: io.BufferedReader[SourceStream], password: str | None) -> _Document | None:
    """The opened document; None when it needs another password. pdfium tries it as UTF-8 and as Latin-1."""
    try:
        return _Document(_CallbackStream(stream), password)
    except pdfium.PdfiumError as error:
        if error.err_code in _NEEDS_PASSWORD:
            return None
        stream.raw.raise_storage_error()
        raise OcrFailure("unreadable_file", "pdfium cannot open the PDF, nor repair it") from error
