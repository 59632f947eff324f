"""The resolution that an image file names, as its header has it, credible or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import ExifTags, Image

_CENTIMETRES = 3
_PER_INCH = 2.54

Pair = tuple[float, float]


@dataclass(frozen=True)
class Stated:
    """What a file says, horizontal and vertical.

    Attributes:
        dpi: dots per inch. A TIFF that names numbers without a unit mostly means these.
        aspect: dots per some unit that is not named, so only their ratio has a meaning.
    """

    dpi: Pair | None = None
    aspect: Pair | None = None

    def turned(self) -> Stated:
        """The same for the image turned by a quarter."""
        return Stated(_turned(self.dpi), _turned(self.aspect))


def stated_by(image: Image.Image) -> Stated:
    """What `image`, opened by Pillow, says of itself; values of the wrong type or number are left out."""
    info = image.info
    dpi = _pair(info.get("dpi")) or _pair(info.get("resolution")) or _of_exif(image)
    density = info.get("jfif_density") if info.get("jfif_unit") == 0 else info.get("aspect")
    return Stated(dpi, _pair(density))


def _of_exif(image: Image.Image) -> Pair | None:
    """What WebP and PNG leave to EXIF (EXIF 2.3, tags 282, 283 and 296)."""
    exif = image.getexif()
    found = _pair((exif.get(ExifTags.Base.XResolution), exif.get(ExifTags.Base.YResolution)))
    if found is not None and exif.get(ExifTags.Base.ResolutionUnit) == _CENTIMETRES:
        return found[0] * _PER_INCH, found[1] * _PER_INCH
    return found


def _pair(values: Any) -> Pair | None:
    try:
        horizontal, vertical = (float(value) for value in values)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return horizontal, vertical


def _turned(pair: Pair | None) -> Pair | None:
    return None if pair is None else (pair[1], pair[0])
