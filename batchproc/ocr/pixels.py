"""From any pixels to grey ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from PIL import Image, ImageChops, ImageMath, ImageOps

_DEPTHS: Final = (8, 10, 12, 14, 16)
_ONLY_WHITE: Final = (255, 255)
_OPAQUE: Final = (255, 255)


@contextmanager
def any_size() -> Iterator[None]:
    """Pillow's own limit of pixels is off meanwhile, which it applies even to parts of a page: `Bounds` has decided."""
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def to_grey(image: Image.Image, *, inverted: bool = False) -> Image.Image:
    """A new image of mode "L": transparency on white, deep grey scaled to 8 bits, colour by luminance.

    Args:
        image: of any mode that Pillow reads, decoded.
        inverted: 0 is white.
    """
    if image.mode == "F" or image.mode.startswith("I"):
        grey = _without_colour_key(_from_deep(image), image)
    elif image.mode == "LAB":
        grey = image.getchannel("L")
    elif image.has_transparency_data:
        grey = _on_white(image)
    elif image.mode in ("CMYK", "HSV"):
        grey = image.convert("RGB").convert("L")
    else:
        grey = image.convert("L")
    return ImageOps.invert(grey) if inverted else grey


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode not in ("LA", "RGBA"):
        image = image.convert("RGBA")
    page = Image.new("L", image.size, 255)
    opacity = image.getchannel("A")
    page.paste(image.convert("L"), mask=opacity)
    if page.getextrema() == _ONLY_WHITE and opacity.getextrema() != _OPAQUE:
        return ImageOps.invert(opacity)  # white on nothing, meant to lie on something dark
    return page


def _from_deep(image: Image.Image) -> Image.Image:
    """16- and 32-bit or floating-point grey to 8 bits, which Pillow's own conversion would clip.

    The range is the smallest usual depth that holds all values (12-bit scanners write 16-bit files), or for
    values that are no grey levels of a usual depth, from the least to the greatest.
    """
    wide = image if image.mode == "F" else image.convert("I")
    low, high = _extrema(wide)  # of "I;16B" Pillow tells none
    if image.mode == "F" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high < 1 << _DEPTHS[-1]:
        low, high = 0.0, float(next((1 << depth) - 1 for depth in _DEPTHS if high < 1 << depth))
    scale = 255 / (high - low) if high > low else 0.0
    return wide.point(lambda value: value * scale + (0.5 - low * scale)).convert("L")


def _without_colour_key(grey: Image.Image, deep: Image.Image) -> Image.Image:
    """White where `deep` has the level that a PNG declares transparent."""
    level = deep.info.get("transparency")
    if not isinstance(level, int):
        return grey
    keyed = ImageMath.lambda_eval(
        lambda args: args["convert"]((args["deep"] == level) * 255, "L"), deep=deep.convert("I")
    )
    return ImageChops.lighter(grey, keyed)


def _extrema(image: Image.Image) -> tuple[float, float]:
    low, high = image.getextrema()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("grey levels that are no numbers")
    return float(low), float(high)
