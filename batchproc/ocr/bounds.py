"""How much of a document may be read. All of it is computed before anything is rendered or decoded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batchproc.ocr.errors import OcrFailure

MAX_SIDE: Final = 32_767
"""Pixels: Tesseract holds coordinates in 16 bits and refuses a longer side."""

LARGEST_REDUCTION: Final = 2 / 3
"""An over-large sheet is rendered at down to this part of the wanted resolution (200 of 300 dpi still reads well)."""

NOMINAL_DPI: Final = 300
"""The resolution at which the pixels of a PDF are estimated before one is asked for."""

POINTS_PER_INCH: Final = 72


@dataclass(frozen=True)
class Bounds:
    """The most that is read of one document.

    The defaults are those of the settings `ocr.bounds`. That of a page lets a 600 dpi A3 sheet (70 million pixels)
    through, and a large drawing at 300 dpi.

    Attributes:
        max_bytes: size of the file.
        max_pages: pages of a PDF, frames of an image file.
        max_pixels: width times height of one page as decoded or rendered, and of each image within a PDF page.
        max_document_pixels: the same summed over the pages (PDF: as if all were rendered at `NOMINAL_DPI`).
        max_page_characters: characters of one page's text layer.
        max_stream_bytes: what any packed stream of a PDF may unpack to, images and attachments apart. Drawings of maps
            have pages of some ten million bytes.
    """

    max_bytes: int = 2**30
    max_pages: int = 10_000
    max_pixels: int = 120_000_000
    max_document_pixels: int = 100_000_000_000
    max_page_characters: int = 2_000_000
    max_stream_bytes: int = 2**27

    def check_bytes(self, count: int) -> None:
        """Raises OcrFailure `empty_file` for no bytes, `too_large` for too many."""
        if count == 0:
            raise OcrFailure("empty_file", "the file has no bytes")
        if count > self.max_bytes:
            raise OcrFailure("too_large", f"{count} bytes, at most {self.max_bytes} are read")

    def check_pages(self, count: int) -> None:
        """Raises OcrFailure `too_large` for too many pages."""
        if count > self.max_pages:
            raise OcrFailure("too_large", f"more than {self.max_pages} pages")

    def check_pixels(self, width: int, height: int) -> None:
        """Raises OcrFailure `too_large` for a page or image that must not be decoded."""
        if width * height > self.max_pixels:
            raise OcrFailure("too_large", f"{width} x {height} pixels, at most {self.max_pixels} are decoded")
        if max(width, height) > MAX_SIDE:
            raise OcrFailure("too_large", f"{width} x {height} pixels, a side has at most {MAX_SIDE}")

    def check_document(self, pages: Sequence[tuple[int, int] | OcrFailure]) -> None:
        """Judges a document by the pixel sizes of its pages, or what is already known to be wrong with them.

        A page that cannot be read is that page's failure, found when it is asked for. Only if none can be read
        is the document refused as a whole, for the reason of its first page.

        Raises:
            OcrFailure: that reason, or `too_large`.
        """
        self.check_pages(len(pages))
        failures = [page for page in pages if isinstance(page, OcrFailure)]
        if len(failures) == len(pages):
            raise failures[0] if failures else OcrFailure("unreadable_file", "the document has no pages")
        total = sum(page[0] * page[1] for page in pages if not isinstance(page, OcrFailure))
        if total > self.max_document_pixels:
            raise OcrFailure("too_large", f"{total} pixels in all pages, at most {self.max_document_pixels} are read")

    def render_size(self, width: float, height: float, dpi: int) -> tuple[int, int, int]:
        """The pixels of a sheet of `width` x `height` points at `dpi`, or up to a third less to keep it in bounds.

        Returns:
            Width and height in pixels, at least 1, and the resolution really used.

        Raises:
            OcrFailure: `too_large` if the sheet does not fit even then; `unreadable_file` if it has no size.
        """
        if not (0 < width < math.inf and 0 < height < math.inf):
            raise OcrFailure("unreadable_file", "the page has no size")
        fitting = min(
            POINTS_PER_INCH * math.sqrt(self.max_pixels / width / height),
            POINTS_PER_INCH * MAX_SIDE / max(width, height),
        )
        used = dpi if fitting >= dpi else math.floor(fitting)
        if used < max(1.0, dpi * LARGEST_REDUCTION):
            inches = f"{width / POINTS_PER_INCH:.0f} x {height / POINTS_PER_INCH:.0f} inches"
            raise OcrFailure("too_large", f"a page of {inches}, at {dpi} dpi more than {self.max_pixels} pixels")
        return self._pixels(width, used), self._pixels(height, used), used

    @staticmethod
    def _pixels(points: float, dpi: int) -> int:
        return max(1, round(points * dpi / POINTS_PER_INCH))
