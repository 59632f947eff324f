"""Recognising the pixels of a page, however it lies."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from PIL import Image

from batchproc.ocr.engine import Engine, Recognised
from batchproc.ocr.pages import PageImage

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


def recognise(engine: Engine, image: PageImage, *, languages: tuple[str, ...], orientation: bool) -> Recognised:
    """The best recognition; its rotation is the degrees clockwise by which the page was turned to be upright.

    Looking for the orientation first would cost every page a sixth of its time. So a page is read as it lies, and only
    if that gives doubtful words is it turned: as the engine says, else by 180 degrees, since Tesseract reads lines that
    run downwards anyway and with that all four are covered. The higher confidence wins.
    """
    first = engine.recognise(image.pixels, dpi=image.dpi, languages=languages)
    if not orientation or first.confidence is None or first.confidence >= SURE:
        return first
    turn = 180
    guess = engine.orientation(image.pixels, image.dpi)
    if guess is not None and guess.confidence >= TRUSTED_ORIENTATION:
        if guess.degrees == first.rotation:
            return first
        turn = guess.degrees or turn
    turned = image.pixels.transpose(_TURNS[turn])
    second = engine.recognise(turned, dpi=image.dpi, languages=languages)
    if second.confidence is not None and second.confidence >= first.confidence + BETTER:
        return replace(second, rotation=(turn + second.rotation) % 360)
    return first
