"""What the years and the copier do to a page: for any picture of mode L, repeatable."""

from __future__ import annotations

import random
from statistics import NormalDist

from PIL import Image, ImageChops, ImageDraw, ImageFilter


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
