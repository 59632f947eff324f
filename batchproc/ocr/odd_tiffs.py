"""TIFFs with a page that Pillow cannot read, or would read wrong: all of their pages are read through libtiff."""

from __future__ import annotations

import io
from typing import Final

from batchproc.ocr import libtiff, memory, tiff
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.images import decoding
from batchproc.ocr.pages import PageImage
from batchproc.ocr.resolution import credible, squared, useful
from batchproc.ocr.stream import SourceStream


class OddTiffSource:
    """An open TIFF. See `batchproc.ocr.pages.Source`."""

    media_type: Final = "image/tiff"
    title: Final = None
    flags: Final[tuple[str, ...]] = ()

    def __init__(self, stream: io.BufferedReader[SourceStream], *, bounds: Bounds) -> None:
        """
        Raises:
            OcrFailure: `unreadable_file` or `too_large`.
            OSError: the storage failed.
        """
        self._stream = stream
        self._bounds = bounds
        self._pages = self._directories()
        self.page_count = len(self._pages)
        bounds.check_document([page if isinstance(page, OcrFailure) else page.size for page in self._pages])

    def page(self, index: int) -> OddTiffPage:
        if not 0 <= index < self.page_count:
            raise IndexError(index)
        found = self._pages[index]
        if isinstance(found, OcrFailure):
            raise found
        return OddTiffPage(self._stream, found, self._bounds)

    def close(self) -> None:
        """There is nothing to close: each page opens the file for itself."""

    def _directories(self) -> list[libtiff.Directory | OcrFailure]:
        """After one that is damaged the next is unknown: it counts as a page, that fails, and is the last."""
        tiff.prepare()
        chain = tiff.Chain(self._stream)
        found: list[libtiff.Directory | OcrFailure] = []
        while chain.has_next and len(found) <= self._bounds.max_pages:
            try:
                chain.follow(has_frame=True)
            except OcrFailure as failure:
                return [*found, failure]
            found.append(self._judged(len(found)))
        return found

    def _judged(self, index: int) -> libtiff.Directory | OcrFailure:
        try:
            directory = libtiff.directory(self._stream, index)
            self._bounds.check_pixels(*directory.size)
            self._bounds.check_pixels(*directory.block)
        except OcrFailure as failure:
            return failure
        return directory


class OddTiffPage:
    """One directory. See `batchproc.ocr.pages.SourcePage`."""

    def __init__(self, stream: io.BufferedReader[SourceStream], directory: libtiff.Directory, bounds: Bounds) -> None:
        self._stream = stream
        self._directory = directory
        self._bounds = bounds

    def text_layer(self) -> None:
        return None

    def image(self, dpi: int) -> PageImage:
        width, height = self._directory.size
        with memory.room(memory.PER_PIXEL * width * height), decoding(self._stream):
            grey = libtiff.grey(self._stream, self._directory.index)
        resolution = credible(grey.size, self._directory.stated)
        return useful(squared(grey, resolution), wanted=dpi, max_pixels=self._bounds.max_pixels)
