"""The text of one page, wherever it comes from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from batchproc.ocr.engine import Engine
from batchproc.ocr.pages import SourcePage
from batchproc.ocr.pixels import is_blank
from batchproc.ocr.recognition import recognise
from batchproc.ocr.text_layer import is_good


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
        skew: degrees clockwise by which the page was straightened before recognition; 0 when it was not.
        dpi_estimated: the file named no credible resolution.
        languages: what it was recognised in; empty without OCR.
        engine_calls: how often the engine was called.
    """

    state: Literal["text", "ocr", "blank"]
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
    found = recognise(engine, image, languages=options.languages, orientation=options.orientation)
    seconds = time.perf_counter() - started
    return PageText("ocr", found.text, found.confidence, found.words, found.rotation, seconds, image.dpi)
