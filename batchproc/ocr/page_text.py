"""The text of one page, wherever it comes from."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final, Literal

from batchproc.ocr.blank import is_blank
from batchproc.ocr.detection import recognise_detecting
from batchproc.ocr.engine import Engine, Recognised
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Line
from batchproc.ocr.missed_words import seen_on, with_missed_words
from batchproc.ocr.mixed_page import with_images
from batchproc.ocr.pages import PageImage, SourcePage, TextLayer
from batchproc.ocr.pixels import any_size
from batchproc.ocr.reading_order import merged_text
from batchproc.ocr.recognition import recognise
from batchproc.ocr.text_layer import is_real
from batchproc.ocr.with_layout import WithLayout

PREPARATION: Final = 2
"""What is done to the pixels of a page before they are recognised, as a number: raised with each change that may change
a text, so that a revision tells by which it was read. 1 was before there was a number; 2 reduces large print."""


@dataclass(frozen=True)
class PageOptions:
    """How pages are read.

    Attributes:
        languages: the most likely first.
        mode: "skip" keeps a real text layer, and recognises images beside it. "redo" recognises every page; of a real,
            visible layer it keeps what recognition missed. "force" goes by the pixels alone, and reads also what looks
            blank.
        dpi: resolution for rendering, and above which (twice) scans are reduced.
        orientation: find pages that lie askew, on their side or head.
        detect: tell the language of each page's text, and read it with that one first; see `ocr.detection`.
    """

    languages: tuple[str, ...]
    mode: Literal["skip", "redo", "force"] = "skip"
    dpi: int = 300
    orientation: bool = True
    detect: bool = False


@dataclass(frozen=True)
class PageText:
    """What was read.

    Attributes:
        state: "text" when all of it is from the page's own layer, "ocr" when some of it was recognised, or "blank":
            decided from the pixels, so an "ocr" page may have no text. "failed" when some of it is missing, since a
            large image of the page could not be shown.
        text: lines end in line feeds.
        confidence: 0 to 100, mean over the recognised words in it; None without such.
        words: in `text`, separated by white space.
        rotation: degrees clockwise by which the page was turned to be upright, beyond what the file itself says.
        seconds: elapsed, decoding and all.
        dpi: resolution that was recognised, of the largest image where there are several; None for "text".
        skew: degrees clockwise by which the page was straightened before recognition; 0 when it was not.
        dpi_estimated: the file named no credible resolution.
        languages: what it was recognised in; empty unless its state is "ocr".
        engine_calls: how often the engine was called, also for images that turned out to hold no words.
        failure_code: what is wrong with that image, one of `batchproc.ocr.errors.FAILURE_CODES`; only with "failed".
    """

    state: Literal["text", "ocr", "blank", "failed"]
    text: str
    confidence: float | None
    words: int
    rotation: int
    seconds: float
    dpi: int | None
    skew: float = 0.0
    dpi_estimated: bool = False
    languages: tuple[str, ...] = ()
    engine_calls: int = 0
    failure_code: str | None = None


def read_page(page: SourcePage, engine: Engine, options: PageOptions) -> PageText:
    """Reads one page.

    Raises:
        OcrFailure: nothing of this page can be read.
        OSError: the storage failed.
    """
    started = time.perf_counter()
    with any_size():
        text, lost = _read_whole(page, engine, options)
    if lost is not None:
        if not text.words:
            raise lost
        text = replace(text, state="failed", failure_code=lost.code)
    return replace(text, seconds=time.perf_counter() - started)


def _read_whole(page: SourcePage, engine: Engine, options: PageOptions) -> _Found:
    found = None
    if options.mode == "skip":
        layer = page.text_layer()
        found = _kept(layer, engine, options) if layer is not None and is_real(layer) else None
    return found or _recognised(page, engine, options)


_Found = tuple[PageText, OcrFailure | None]
"""What was read, and why that is not all."""


def _kept(layer: TextLayer, engine: Engine, options: PageOptions) -> _Found | None:
    """The layer with what images add to it; None if it does not count."""
    found = with_images(layer, lambda image: _read(image, WithLayout(engine), options), dpi=options.dpi)
    if found is None:
        return None
    words = len(found.text.split())
    if found.confidence is None:
        text = PageText("text", found.text, None, words, 0, 0.0, None, engine_calls=found.engine_calls)
        return text, found.lost
    text = PageText(
        "ocr",
        found.text,
        found.confidence,
        words,
        found.rotation,
        0.0,
        found.dpi,
        found.skew,
        found.dpi_estimated,
        found.languages,
        found.engine_calls,
    )
    return text, found.lost


def _recognised(page: SourcePage, engine: Engine, options: PageOptions) -> _Found:
    """The page from its pixels."""
    image = page.image(options.dpi)
    return _from_pixels(page, image, engine, options), image.lost


def _from_pixels(page: SourcePage, image: PageImage, engine: Engine, options: PageOptions) -> PageText:
    written = _seen_layer(page, image) if options.mode == "redo" else []
    blank = is_blank(image.pixels, image.dpi)
    if blank and written:
        text = merged_text(written, ())
        return PageText("text", text, None, len(text.split()), 0, 0.0, None)
    if blank and options.mode != "force":
        return PageText("blank", "", None, 0, 0, 0.0, image.dpi, dpi_estimated=image.dpi_estimated)
    found = _read(image, WithLayout(engine) if written else engine, options)
    if written:
        found = with_missed_words(found, image, written)
    if blank and not found.words:
        return PageText(
            "blank", "", None, 0, 0, 0.0, image.dpi, dpi_estimated=image.dpi_estimated, engine_calls=found.engine_calls
        )
    return PageText(
        "ocr",
        found.text,
        found.confidence,
        found.words,
        found.rotation,
        0.0,
        image.dpi,
        found.skew,
        image.dpi_estimated,
        found.languages,
        found.engine_calls,
    )


def _read(image: PageImage, engine: Engine, options: PageOptions) -> Recognised:
    def read(languages: tuple[str, ...]) -> Recognised:
        return recognise(engine, image, languages=languages, orientation=options.orientation)

    return (
        recognise_detecting(read, options.languages, engine.loading_order)
        if options.detect
        else read(options.languages)
    )


def _seen_layer(page: SourcePage, image: PageImage) -> list[Line]:
    """The words of a real layer that are seen on the image; none if it is too much to look at."""
    try:
        layer = page.text_layer()
        placed = layer.placed() if layer is not None and is_real(layer) else None
    except OcrFailure:
        return []
    return seen_on(image, placed.visible, layer.size()[0]) if layer is not None and placed is not None else []
