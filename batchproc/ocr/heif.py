"""HEIC and HEIF, which Pillow reads with pillow-heif: the extra `heic`. Its wheels carry libheif and libde265."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

from batchproc.ocr.errors import OcrFailure


def require() -> None:
    """Teaches Pillow to read them.

    Raises:
        OcrFailure: `unsupported_type`, the extra is not installed.
    """
    if not _taught():
        raise OcrFailure("unsupported_type", "HEIC is read by an extra: pip install 'batchproc[heic]'")


@cache
def _taught() -> bool:
    if importlib.util.find_spec("pillow_heif") is None:
        return False
    plugin = importlib.import_module("pillow_heif")
    # One thread, as all native code in a worker; of a file only its pictures.
    plugin.register_heif_opener(decode_threads=1, thumbnails=False, depth_images=False, aux_images=False)
    return True
