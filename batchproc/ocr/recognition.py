"""Recognising the pixels of a page, however it lies and whatever the light was.

A page that is level, upright and well lit is handed over as it is, and read once. More is done only to pages that show
a need of it, cheap evidence first: the light, the direction of the lines and their skew are found from the pixels in
some milliseconds, and only words that are doubtful lead to a second reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from PIL import Image

from batchproc.ocr.engine import Engine, Recognised
from batchproc.ocr.light import evened, is_poor
from batchproc.ocr.pages import PageImage
from batchproc.ocr.skew import Lines, find_lines, find_steep_lines, straightened

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

CLEAR_LINES: Final = 20.0
"""Confidence of lines from which on no steeper ones are looked for. On drawn pages askew by more than can be found near
level, what was found there (of tables: they have lines in many directions) had 12 at most, the right lines 27 to
150."""

LEAST_SKEW: Final = 1.0
"""Degrees from which on a page is straightened. Below, Tesseract read the drawn letters, columns and tables as well as
level ones, and turning the pixels costs a fifth of a second."""

_TURNS: Final = {
    90: Image.Transpose.ROTATE_270,  # Pillow's names count anticlockwise
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


def recognise(engine: Engine, image: PageImage, *, languages: tuple[str, ...], orientation: bool) -> Recognised:
    """The best recognition, with how the page was turned and straightened for it.

    Args:
        orientation: find pages that lie askew, on their side or head; else the page is read as it lies.
    """
    pixels = evened(image.pixels, image.dpi) if is_poor(image.pixels, image.dpi) else image.pixels
    page = PageImage(pixels, image.dpi)
    if not orientation:
        return _read(engine, page, languages)
    lines = find_lines(pixels, image.dpi)
    level, before = _levelled(engine, page, lines)
    first = _read(engine, level, languages)
    if before.skew and not _is_sure(first):
        # Few words, a table or a drawing can look askew and be level.
        as_it_lies = _read(engine, page, languages)
        calls = first.engine_calls + as_it_lies.engine_calls
        if (as_it_lies.confidence or 0.0) > (first.confidence or 0.0):
            level, before, first = page, _Before(), as_it_lies
        first = replace(first, engine_calls=calls)
    steep = None if _is_sure(first) else _steeper(pixels, image.dpi, lines)
    if steep is not None:
        other, other_before = _levelled(engine, page, steep)
        second = _read(engine, other, languages)
        calls = first.engine_calls + second.engine_calls
        if (second.confidence or 0.0) >= (first.confidence or 0.0) + BETTER:
            level, before, first = other, other_before, second
        first = replace(first, engine_calls=calls)
    found = _upright(engine, level, first, languages)
    return replace(found, rotation=(before.rotation + found.rotation) % 360, skew=before.skew)


@dataclass(frozen=True)
class _Before:
    """How a page was turned before it was read: degrees clockwise."""

    rotation: int = 0
    skew: float = 0.0


def _levelled(engine: Engine, page: PageImage, lines: Lines | None) -> tuple[PageImage, _Before]:
    """The page with its lines level, from left to right, and how it was turned for it."""
    if lines is None:
        return page, _Before()
    rotation, skew = 0, 0.0
    if abs(lines.degrees) >= LEAST_SKEW:
        skew = lines.degrees
        page = PageImage(straightened(page.pixels, skew), page.dpi)
    if lines.downwards:
        page, rotation = _on_its_feet_or_head(engine, page)
    return page, _Before(rotation, skew)


def _steeper(pixels: Image.Image, dpi: int, lines: Lines | None) -> Lines | None:
    """Lines that are clearer than those which were found near level, and further from it."""
    if lines is not None and lines.confidence >= CLEAR_LINES:
        return None
    steep = find_steep_lines(pixels, dpi)
    return steep if lines is None or (steep is not None and steep.confidence > lines.confidence) else None


def _is_sure(found: Recognised) -> bool:
    return found.confidence is not None and found.confidence >= SURE


def _upright(engine: Engine, page: PageImage, first: Recognised, languages: tuple[str, ...]) -> Recognised:
    """The page as it was read first, or if that gave doubtful words, turned; the higher confidence wins.

    It is turned as the engine says, else by 180 degrees: Tesseract reads lines that run downwards anyway, and with that
    all four are covered. Asking for the orientation first would cost every page a sixth of its time.
    """
    if first.confidence is None or _is_sure(first):
        return first
    turn = 180
    guess = engine.orientation(page.pixels, page.dpi)
    if guess is not None and guess.confidence >= TRUSTED_ORIENTATION:
        if guess.degrees == first.rotation:
            return first
        turn = guess.degrees or turn
    second = _read(engine, _turned(page, turn), languages)
    if second.confidence is not None and second.confidence >= first.confidence + BETTER:
        found = replace(second, rotation=(turn + second.rotation) % 360)
    else:
        found = first
    return replace(found, engine_calls=first.engine_calls + second.engine_calls)


def _on_its_feet_or_head(engine: Engine, page: PageImage) -> tuple[PageImage, int]:
    """A page whose lines run downwards, turned, and by how much: as the engine says, which knows level lines best."""
    turned = _turned(page, 270)
    guess = engine.orientation(turned.pixels, turned.dpi)
    if guess is not None and guess.degrees == 180 and guess.confidence >= TRUSTED_ORIENTATION:
        return _turned(page, 90), 90
    return turned, 270


def _read(engine: Engine, page: PageImage, languages: tuple[str, ...]) -> Recognised:
    return replace(engine.recognise(page.pixels, dpi=page.dpi, languages=languages), languages=languages)


def _turned(page: PageImage, degrees: int) -> PageImage:
    return replace(page, pixels=page.pixels.transpose(_TURNS[degrees]))
