"""What the years and the copier do to a page: for any picture of mode L, repeatable."""

from __future__ import annotations

import random
from statistics import NormalDist

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

from batchproc.ops.drawing.page import A4, Line, typesetter


def scanned(image: Image.Image, seed: int, noise: float, dpi: int) -> Image.Image:
    """As a scanner would see it: blurred, on grey paper, with specks and grain.

    Args:
        noise: 0 is clean, 1 a bad copy that can still be read well.
    """
    rng = random.Random(seed)  # noqa: S311  # a repeatable drawing, not a secret
    image = image.filter(ImageFilter.GaussianBlur(0.6 * noise * dpi / 300))
    draw = ImageDraw.Draw(image)
    for _ in range(round(400 * noise)):
        x, y = rng.randrange(image.width), rng.randrange(image.height)
        draw.rectangle((x, y, x + rng.randrange(2), y + rng.randrange(2)), fill=rng.choice((40, 255)))
    grain = Image.frombytes("L", image.size, rng.randbytes(image.width * image.height))
    normal = NormalDist(128, 25 * noise)
    grain = grain.point([round(min(255, max(0, normal.inv_cdf((value + 0.5) / 256)))) for value in range(256)])
    return ImageChops.add(image, grain, offset=-128 - round(12 * noise))


def faded(image: Image.Image, *, ink: int, paper: int) -> Image.Image:
    """With black as the grey level ``ink`` and white as ``paper``."""
    return image.point([round(ink + (paper - ink) * value / 255) for value in range(256)])


def shadowed(image: Image.Image, darkest: float) -> Image.Image:
    """As photographed under a lamp: light at the top left, at the bottom right only ``darkest`` (0 to 1) of it."""
    ramp = Image.linear_gradient("L").resize(image.size)
    across = Image.linear_gradient("L").transpose(Image.Transpose.ROTATE_90).resize(image.size)
    depth = Image.blend(ramp, across, 0.5)
    light = ImageOps.invert(depth.point([round(value * (1 - darkest)) for value in range(256)]))
    return ImageChops.multiply(image, light)


def stamped(image: Image.Image, text: str, dpi: int, *, ink: int = 130) -> Image.Image:
    """With a big grey stamp, askew, over the middle of the page."""
    with typesetter() as setter:
        stamp = setter.image(setter.page([Line(A4[0] / 2 - 170, A4[1] / 2, text, "Helvetica-Bold", 52)], 20.0), dpi)
    return ImageChops.multiply(image, faded(stamp.resize(image.size), ink=ink, paper=255))
