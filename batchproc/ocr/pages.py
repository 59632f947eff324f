"""What a document offers once it is open: pages with a text layer, an image, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Box, Line


@dataclass(frozen=True)
class PageImage:
    """The pixels of a page.

    Attributes:
        pixels: mode "L", 0 black to 255 white, square pixels, transparency on white, turned as the file says.
        dpi: resolution of `pixels` in dots per inch.
        dpi_estimated: the file names none, or an absurd one.
        lost: what is wrong with a large image that belongs to the page and is not shown; None when all are.
    """

    pixels: Image.Image
    dpi: int
    dpi_estimated: bool = False
    lost: OcrFailure | None = None


@dataclass(frozen=True)
class PlacedText:
    """The lines of a text layer by whether they are seen. Places are in points of the page as it is shown.

    Attributes:
        visible: what is drawn, unless something was drawn over it.
        hidden: invisible or covered, as OCR programs write it behind, or in front of, a scan.
        unmapped: letters left out, since what they say is not known; `TextLayer.picture` shows them.
    """

    visible: tuple[Line, ...]
    hidden: tuple[Line, ...]
    unmapped: int = 0


class TextLayer(Protocol):
    """The text that a page brings along. Valid as long as its page.

    Attributes:
        text: as `normalised_text` leaves it; never only blanks. What lies outside the page is no part of it.
        unmapped: part of the characters, 0 to 1, for which the PDF itself names no Unicode value.
        misshapen: part of the letters, 0 to 1, that nobody could read: on one spot, or of an absurd size.
    """

    @property
    def text(self) -> str: ...

    @property
    def unmapped(self) -> float: ...

    @property
    def misshapen(self) -> float: ...

    def size(self) -> tuple[float, float]:
        """Width and height of the page as it is shown, in points."""

    def image_regions(self) -> tuple[Box, ...]:
        """Where the page shows more than this text, in points: images and the like, if they can hold a word.

        Raises:
            OcrFailure: `too_large`.
        """

    def placed(self) -> PlacedText | None:
        """Where the text stands; None for so much of it that finding out would take too long.

        Raises:
            OcrFailure: `unreadable_file`.
        """

    def picture(self, region: Box, dpi: int, *, with_text: bool = False) -> PageImage:
        """A part of the page as pixels, without this text as a rule.

        Raises:
            OcrFailure: `too_large`, before any pixel is decoded, or `unreadable_file`. An image that is too large, or
                cannot be decoded, is left out, unless nothing is seen without.
        """

    def lost_image(self, is_read: Callable[[Box], bool]) -> OcrFailure | None:
        """What is wrong with a large image of the page that is not shown, or only a part of it; None if all are.

        Args:
            is_read: whether this text says what stands in an image at this place, which then is no loss.
        """


class SourcePage(Protocol):
    """One page. Valid until the next call of its source's `page` or `close`."""

    def text_layer(self) -> TextLayer | None:
        """The page's own text, or None when it has none, or in too many pieces to be looked at.

        Raises:
            OcrFailure: `too_large`, for its text; `unreadable_file`.
        """

    def image(self, dpi: int) -> PageImage:
        """The page as pixels, rendered at `dpi`; a scanned image keeps its own resolution unless far from useful.

        Raises:
            OcrFailure: `too_large`, before any pixel is decoded; `unreadable_file`. An image on the page that is
                either is left out, unless nothing is seen without: see `PageImage.lost`.
        """


class Source(Protocol):
    """An open document.

    Attributes:
        media_type: by content, as `batchproc.ocr.source.media_type` names it.
        page_count: at least 1. A page that is counted may still turn out unreadable.
        title: the title in a PDF's metadata, as it stands there; None when there is none.
        flags: oddities worth keeping with the document, in alphabetical order: "portfolio" (a PDF that is a folder of
            other files, of which only the cover sheet is read), "signed" (it has digital signatures), "xfa" (a dynamic
            form, of which only the page that asks to wait can be read).
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
