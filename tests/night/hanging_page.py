"""Makes one page hang in a worker; imported through the setting ``handlers``.

The page shows itself by its width, which no other page of the archive has.
"""

from __future__ import annotations

import ctypes
from typing import Any

from PIL import Image

from batchproc.ocr.engine import Recognised
from batchproc.ocr.tesseract import TesseractEngine

MODULE = __name__
WIDTH = 777

_recognise = TesseractEngine.recognise


def _recognise_or_hang(engine: TesseractEngine, image: Image.Image, **options: Any) -> Recognised:
    if image.width == WIDTH:
        # In C, with the GIL held: no signal handler and no thread of Python runs any more.
        ctypes.PyDLL(None).sleep(600)
    return _recognise(engine, image, **options)


def install() -> None:
    """For workers alone: the test that imports this module reads pages as they are."""
    TesseractEngine.recognise = _recognise_or_hang  # type: ignore[method-assign,assignment]
