"""How large a PDF page really is: scanning programs write pages of a point for a pixel, or of an inch for a sheet."""

from __future__ import annotations

from typing import Any, Final

import pypdfium2.raw as raw  # type: ignore[import-untyped]  # it ships no types

from batchproc.ocr import pdf_objects
from batchproc.ocr.bounds import POINTS_PER_INCH
from batchproc.ocr.resolution import GREATEST, LARGEST_COARSE_SHEET, credible
from batchproc.ocr.stated_resolution import Stated

WHOLE: Final = 0.9
"""The part of both sides of the page that an image takes which is the page's scan."""


def true_scale(page: Any, size: tuple[float, float]) -> float:
    """By what the size of a page, in points, must be multiplied to be believed; 1 for nearly all.

    Only the scan of a page tells, and only if there is nothing else on it: the resolution that comes of its pixels and
    the page's size is believed, or estimated, as that of an image file (`batchproc.ocr.resolution.credible`).
    """
    scan = _only_image(page)
    if scan is None or scan.width == 0 or scan.height == 0:
        return 1.0
    # A page may be turned: then the box, as it is written, lies the other way than the page, as it is shown.
    box = sorted((scan.box[2] - scan.box[0], scan.box[3] - scan.box[1]))
    sides = sorted(size)
    if any(side < WHOLE * whole for side, whole in zip(box, sides, strict=True)):
        return 1.0
    shorter, longer = sorted((scan.width, scan.height))
    stated = shorter * POINTS_PER_INCH / sides[0], longer * POINTS_PER_INCH / sides[1]
    if sides[1] <= LARGEST_COARSE_SHEET * POINTS_PER_INCH and max(stated) <= GREATEST:
        return 1.0  # a usual sheet; its scan may well be poor
    found = credible((shorter, longer), Stated(stated))
    return max(stated) / max(found.horizontal, found.vertical) if found.estimated else 1.0


def _only_image(page: Any) -> pdf_objects.PlacedImage | None:
    if raw.FPDFPage_CountObjects(page) != 1:
        return None
    return next(pdf_objects.images(page), None)
