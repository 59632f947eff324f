"""What a document offers once it is open: pages with a text layer, an image, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from PIL import Image


@dataclass(frozen=True)
class TextLayer:
    """The text that a page brings along, and what tells whether it can be trusted.

    Attributes:
        text: as `normalised_text` leaves it; never only blanks.
        image_share: part of the page, 0 to 1, that images cover. 0 when it was not worth finding out.
        hidden: most characters are invisible, as OCR programs write them behind a scan.
        unmapped: part of the characters, 0 to 1, for which the PDF itself names no Unicode value.
    """

    text: str
    image_share: float = 0.0
    hidden: bool = False
    unmapped: float = 0.0


@dataclass(frozen=True)
class PageImage:
    """The pixels of a page.

    Attributes:
        pixels: mode "L", 0 black to 255 white, square pixels, transparency on white, turned as the file says.
        dpi: resolution of `pixels` in dots per inch.
        dpi_estimated: the file names none, or an absurd one.
    """

    pixels: Image.Image
    dpi: int
    dpi_estimated: bool = False


class SourcePage(Protocol):
    """One page. Valid until the next call of its source's `page` or `close`."""

    def text_layer(self) -> TextLayer | None:
        """The page's own text, or None when it has none.

        Raises:
            OcrFailure: `too_large` or `unreadable_file`.
        """

    def image(self, dpi: int) -> PageImage:
        """The page as pixels, rendered at `dpi`; a scanned image keeps its own resolution unless far from useful.

        Raises:
            OcrFailure: `too_large`, before any pixel is decoded; `unreadable_file`.
        """


class Source(Protocol):
    """An open document.

    Attributes:
        media_type: by content, as `batchproc.ocr.source.media_type` names it.
        page_count: at least 1. A page that is counted may still turn out unreadable.
        title: the title in a PDF's metadata, as it stands there; None when there is none.
        flags: oddities worth keeping with the document; none are found yet.
    """

    @property
    def media_type(self) -> str: ...

    @property
    def page_count(self) -> int: ...

    @property
    def title(self) -> str | None: ...

    @property
    def flags(self) -> tuple[str, ...]: ...

    def page(self, index: int) -> SourcePage:
        """The page with this index, from 0. The page given before becomes invalid.

        Raises:
            OcrFailure: `unreadable_file`.
            IndexError: there is no such page.
        """

    def close(self) -> None:
        """Lets go of everything but the caller's own stream. May be called twice."""
