"""From any pixels to grey ones, and whether there is anything on them."""

from __future__ import annotations

import math
from typing import Final

from PIL import Image, ImageChops, ImageFilter, ImageOps

_DEPTHS: Final = (8, 10, 12, 14, 16)

BLANK_DPI: Final = 75
"""Blankness is judged at this resolution: averaging takes scanner noise away, and leaves a letter its strokes."""

BACKGROUND_RADIUS: Final = 12
"""Pixels at `BLANK_DPI`: paper is what is around a mark, so uneven light or a coloured sheet is not one."""

MARK_CONTRAST: Final = 16
"""Grey levels by which a mark differs from the paper around it."""

LEAST_MARKS: Final = 8
"""Pixels at `BLANK_DPI`: a ten-point digit has a dozen, a speck of dust one or two."""


def to_grey(image: Image.Image, *, inverted: bool = False) -> Image.Image:
    """A new image of mode "L": transparency on white, deep grey scaled to 8 bits, colour by luminance.

    Args:
        image: of any mode that Pillow reads, decoded.
        inverted: 0 is white.
    """
    if image.mode == "F" or image.mode.startswith("I"):
        grey = _from_deep(image)
    elif image.mode == "LAB":
        grey = image.getchannel("L")
    elif image.has_transparency_data:
        grey = _on_white(image)
    elif image.mode in ("CMYK", "HSV"):
        grey = image.convert("RGB").convert("L")
    else:
        grey = image.convert("L")
    return ImageOps.invert(grey) if inverted else grey


def is_blank(image: Image.Image, dpi: int) -> bool:
    """Whether nothing is on a page (mode "L") but a few specks. In doubt it is not blank: that costs only a read.

    Edges of a scanner's shadow and dust count as marks; a uniformly dark page is blank.
    """
    factor = max(1, round(dpi / BLANK_DPI))
    small = image.reduce(factor)
    paper = small.filter(ImageFilter.BoxBlur(BACKGROUND_RADIUS))
    marks = ImageChops.difference(small, paper).histogram()[MARK_CONTRAST:]
    return sum(marks) < LEAST_MARKS


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode not in ("LA", "RGBA"):
        image = image.convert("RGBA")
    page = Image.new("L", image.size, 255)
    page.paste(image.convert("L"), mask=image.getchannel("A"))
    return page


def _from_deep(image: Image.Image) -> Image.Image:
    """16- and 32-bit or floating-point grey to 8 bits, which Pillow's own conversion would clip.

    The range is the smallest usual depth that holds all values (12-bit scanners write 16-bit files), or for
    values that are no grey levels of a usual depth, from the least to the greatest.
    """
    low, high = _extrema(image)
    wide = image if image.mode == "F" else image.convert("I")
    if image.mode == "F" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high < 1 << _DEPTHS[-1]:
        low, high = 0.0, float(next((1 << depth) - 1 for depth in _DEPTHS if high < 1 << depth))
    scale = 255 / (high - low) if high > low else 0.0
    return wide.point(lambda value: value * scale + (0.5 - low * scale)).convert("L")


def _extrema(image: Image.Image) -> tuple[float, float]:
    low, high = image.getextrema()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("grey levels that are no numbers")
    return float(low), float(high)
