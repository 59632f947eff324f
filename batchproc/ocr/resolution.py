"""Dots per inch: what to believe of a file's own, and when to change it before recognition."""

from __future__ import annotations

from typing import Final

from PIL import Image

from batchproc.ocr.pages import PageImage

LEAST: Final = 70
GREATEST: Final = 2400
"""Tesseract's own limits of what is credible (`kMinCredibleResolution` and `kMaxCredibleResolution`)."""

SHEET: Final = (8.27, 11.69)
"""Inches: A4, taken for the size of a page that names no resolution."""

LARGEST_SHEET: Final = 48.0
"""Inches: no side of an A0 sheet is longer."""

LARGEST_COARSE_SHEET: Final = 17.0
"""Inches: a longer side at a screen's resolution is a camera's picture with a made-up value."""

COARSE: Final = 150
"""Below this, letters are too small: enlarging a 72 dpi magazine page took word recall from 0.64 to 0.93, a letter's
from 0.92 to 0.98; at 150 it changed nothing."""

ENLARGED: Final = 200
"""Enlarging further than to this cost time and gained nothing."""

_ESTIMATES: Final = (70, 600)


def credible(size: tuple[int, int], stated: tuple[float, float] | None) -> tuple[float, float]:
    """The horizontal and vertical resolution of an image of `size` pixels: as stated, or estimated if absurd."""
    if stated is not None and all(LEAST <= value <= GREATEST for value in stated):
        longest = max(size[0] / stated[0], size[1] / stated[1])
        if longest <= (LARGEST_COARSE_SHEET if min(stated) < COARSE else LARGEST_SHEET):
            return stated
    estimate = max(min(size) / SHEET[0], max(size) / SHEET[1])
    estimate = min(max(estimate, _ESTIMATES[0]), _ESTIMATES[1])
    return estimate, estimate


def squared(image: Image.Image, resolution: tuple[float, float]) -> tuple[Image.Image, int]:
    """The image with square pixels (a fax has 204 x 98 dots per inch), and its resolution."""
    horizontal, vertical = resolution
    finer = max(resolution)
    if finer < 1.1 * min(resolution):
        return image, round(finer)
    width = round(image.width * finer / horizontal)
    height = round(image.height * finer / vertical)
    return image.resize((width, height), Image.Resampling.BICUBIC), round(finer)


def useful(image: Image.Image, dpi: int, *, wanted: int, max_pixels: int) -> PageImage:
    """The image at a resolution that reads well: much finer than `wanted` is reduced, coarse is enlarged if it fits.

    Reducing 600 to 300 dpi halves the time and leaves recall within 0.005.
    """
    if dpi >= 2 * wanted:
        factor = dpi // wanted
        return PageImage(image.reduce(factor), round(dpi / factor))
    if dpi < COARSE <= wanted:
        target = min(ENLARGED, wanted)
        width, height = (round(side * target / dpi) for side in image.size)
        if width * height <= max_pixels:
            return PageImage(image.resize((width, height), Image.Resampling.BICUBIC), target)
    return PageImage(image, dpi)
