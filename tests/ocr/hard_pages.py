"""Drawn pages of mixed difficulty, with what is written on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from PIL import Image

from batchproc.ops import drawing
from batchproc.ops.drawing import Drawn
from batchproc.ops.drawing.text import Language
from tests.drawing import columns, faded, shadowed, stamped, table

_ANTICLOCKWISE = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}


@dataclass(frozen=True)
class HardPage:
    """A page to draw.

    Attributes:
        harder: the bare engine must come out below, that is how hard it is.
        error_rate: the most that is allowed.
    """

    draw: Callable[[], Drawn]
    language: Language = "eng"
    dpi: int = 300
    harder: bool = False
    error_rate: float = 0.05


def _letter(seed: int, language: Language, **options: float) -> Callable[[], Drawn]:
    return lambda: drawing.letter(seed, language, **options)  # type: ignore[arg-type]  # dpi is whole


def _lying(draw: Callable[[], Drawn], degrees: int) -> Callable[[], Drawn]:
    """Turned anticlockwise: by as many degrees clockwise it is upright again."""
    return lambda: _on(draw(), lambda image: image.transpose(_ANTICLOCKWISE[degrees]))


def _worn(draw: Callable[[], Drawn], wear: Callable[[Image.Image], Image.Image]) -> Callable[[], Drawn]:
    return lambda: _on(draw(), wear)


def _on(drawn: Drawn, change: Callable[[Image.Image], Image.Image]) -> Drawn:
    return replace(drawn, image=change(drawn.image))


def _faint(image: Image.Image) -> Image.Image:
    return drawing.scanned(faded(image, ink=190, paper=215), 1, 0.3, 300)


def _grey(image: Image.Image) -> Image.Image:
    return drawing.scanned(faded(image, ink=150, paper=190), 2, 0.3, 300)


def _lamp_lit(image: Image.Image) -> Image.Image:
    return shadowed(image, 0.4)


def _lamp_lit_grey(image: Image.Image) -> Image.Image:
    return drawing.scanned(shadowed(faded(image, ink=160, paper=220), 0.4), 1, 0.5, 300)


def _stamped(image: Image.Image) -> Image.Image:
    return stamped(image, "RECEIVED", 300)


PAGES = {
    "clean": HardPage(_letter(1, "eng"), error_rate=0.02),
    "clean, German": HardPage(_letter(1, "deu"), "deu", error_rate=0.02),
    "noise": HardPage(_letter(2, "eng", noise=1.0)),
    "noise, German": HardPage(_letter(2, "deu", noise=1.0), "deu"),
    "heavy noise": HardPage(_letter(2, "eng", noise=1.6), harder=True),
    "150 dpi": HardPage(_letter(3, "eng", dpi=150), dpi=150, error_rate=0.02),
    "150 dpi, noise, German": HardPage(_letter(3, "deu", dpi=150, noise=0.6), "deu", 150),
    "150 dpi, skew": HardPage(_letter(4, "eng", dpi=150, noise=0.6, skew=-3), dpi=150, harder=True),
    "skew": HardPage(_letter(3, "eng", skew=3)),
    "skew, noise, German": HardPage(_letter(3, "deu", noise=1.0, skew=-3), "deu", harder=True),
    "great skew": HardPage(_letter(5, "deu", skew=-6), "deu", harder=True),
    "askew by 10": HardPage(_letter(5, "deu", skew=10), "deu", harder=True),
    "askew by 15": HardPage(_letter(6, "eng", skew=-15), harder=True),
    "askew by 30, noise": HardPage(_letter(7, "eng", noise=0.6, skew=30), harder=True),
    "askew by 44": HardPage(_letter(8, "eng", skew=-44), harder=True),
    "columns, askew by 20": HardPage(lambda: columns(3, "deu", skew=20), "deu", harder=True),
    "table, askew by 25": HardPage(lambda: table(3, skew=-25), harder=True),
    "columns": HardPage(lambda: columns(1), error_rate=0.02),
    "columns, skew": HardPage(lambda: columns(2, "deu", skew=-3), "deu", harder=True),
    "table": HardPage(lambda: table(1)),
    "table, skew": HardPage(lambda: table(2, "deu", skew=3), "deu", harder=True),
    "stamp": HardPage(_worn(_letter(1, "eng"), _stamped), error_rate=0.2),
    "stamp, skew": HardPage(_worn(_letter(1, "eng", skew=3), _stamped), error_rate=0.2),
    "low contrast": HardPage(_worn(_letter(1, "eng"), _faint), harder=True),
    "low contrast, German": HardPage(_worn(_letter(4, "deu"), _grey), "deu", harder=True),
    "low contrast, skew": HardPage(_worn(_letter(7, "eng", skew=3), _grey), harder=True),
    "faint, no noise": HardPage(
        _worn(_letter(6, "eng"), lambda image: faded(image, ink=205, paper=215)), error_rate=0.02
    ),
    "shadow": HardPage(_worn(_letter(1, "eng"), _lamp_lit), harder=True),
    "shadow, low contrast": HardPage(_worn(_letter(1, "eng"), _lamp_lit_grey), harder=True),
    "rotated 90": HardPage(_lying(_letter(5, "deu"), 90), "deu", harder=True),
    "rotated 180": HardPage(_lying(_letter(5, "eng"), 180), harder=True),
    "rotated 270": HardPage(_lying(_letter(5, "eng"), 270)),  # which Tesseract reads by itself
    "rotated 270, skew": HardPage(_lying(_letter(5, "eng", skew=-3), 270), harder=True),
    "columns rotated 90": HardPage(_lying(lambda: columns(5), 90), harder=True),
    "table rotated 180": HardPage(_lying(lambda: table(5), 180), harder=True),
}
