"""The text of one page, wherever it comes from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal

from PIL import Image

from batchproc.ocr.engine import Engine, Recognised
from batchproc.ocr.pages import PageImage, SourcePage
from batchproc.ocr.pixels import is_blank
from batchproc.ocr.text_layer import is_good

SURE: Final = 65.0
"""A mean confidence from which on a page is taken to be upright. Measured with English data alone and with German: 72
readings of upright drawn letters, clean and noisy, gave 88 or more, 72 of lying ones 50 or less; upright pages of
numbers, capitals and codes 68 or more, lying ones 53 or less. It cannot help with pages of only 0, 1, 6, 8, 9, which
read either way (87 to 92 when lying), and pages so noisy that hardly a word is found in any direction."""

BETTER: Final = 10.0
"""The gain in confidence that a turned page must bring."""

TRUSTED_ORIENTATION: Final = 5.0
"""Confidence from which on an engine's orientation is believed. On readable drawn pages at 300 dpi (reduced to 150, as
`TesseractEngine` does) wrong ones had 2.0 at most, on unreadable ones 3.5."""

_TURNS: Final = {
    90: Image.Transpose.ROTATE_270,  # Pillow's names count anticlockwise
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class PageOptions:
    """How pages are read.

    Attributes:
        languages: the most likely first.
        mode: "skip" keeps a good text layer, "redo" recognises in any case.
        dpi: resolution for rendering, and above which (twice) scans are reduced.
        orientation: find pages that lie on their side or head.
    """

    languages: tuple[str, ...]
    mode: Literal["skip", "redo"] = "skip"
    dpi: int = 300
    orientation: bool = True


@dataclass(frozen=True)
class PageText:
    """What was read.

    Attributes:
        state: "text" from the page's own layer, "ocr", or "blank": decided from the pixels, so an "ocr" page may have
            no text.
        text: lines end in line feeds.
        confidence: 0 to 100; None without words and for text layers.
        words: separated by white space.
        rotation: degrees clockwise by which the page was turned to be upright, beyond what the file itself says.
        seconds: elapsed, decoding and all.
        dpi: resolution that was recognised; None for text layers.
    """

    state: Literal["text", "ocr", "blank"]
    text: str
    confidence: float | None
    words: int
    rotation: int
    seconds: float
    dpi: int | None


def read_page(page: SourcePage, engine: Engine, options: PageOptions) -> PageText:
    """Reads one page.

    Raises:
        OcrFailure: this page cannot be read.
        OSError: the storage failed.
    """
    started = time.perf_counter()
    layer = page.text_layer() if options.mode == "skip" else None
    if layer is not None and is_good(layer):
        return PageText("text", layer.text, None, len(layer.text.split()), 0, time.perf_counter() - started, None)
    image = page.image(options.dpi)
    if is_blank(image.pixels, image.dpi):
        return PageText("blank", "", None, 0, 0, time.perf_counter() - started, image.dpi)
    found, turned = _recognise(engine, image, options)
    rotation = (turned + found.rotation) % 360
    seconds = time.perf_counter() - started
    return PageText("ocr", found.text, found.confidence, found.words, rotation, seconds, image.dpi)


def _recognise(engine: Engine, image: PageImage, options: PageOptions) -> tuple[Recognised, int]:
    """The best recognition, and the degrees by which the page was turned for it.

    Looking for the orientation first would cost every page a sixth of its time. So a page is read as it lies, and only
    if that gives doubtful words is it turned: as the engine says, else by 180 degrees, since Tesseract reads lines that
    run downwards anyway and with that all four are covered. The higher confidence wins.
    """
    first = engine.recognise(image.pixels, dpi=image.dpi, languages=options.languages)
    if not options.orientation or first.confidence is None or first.confidence >= SURE:
        return first, 0
    turn = 180
    guess = engine.orientation(image.pixels, image.dpi)
    if guess is not None and guess.confidence >= TRUSTED_ORIENTATION:
        if guess.degrees == first.rotation:
            return first, 0
        turn = guess.degrees or turn
    turned = image.pixels.transpose(_TURNS[turn])
    second = engine.recognise(turned, dpi=image.dpi, languages=options.languages)
    if second.confidence is not None and second.confidence >= first.confidence + BETTER:
        return second, turn
    return first, 0
