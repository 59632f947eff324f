"""A PDF whose end is missing, so that nothing says which is its catalog: pdfium finds all objects, but not that one."""

from __future__ import annotations

import io
import re
from typing import Final

from batchproc.ocr.pdf_scan import windows
from batchproc.ocr.stream import SourceReader, SourceStream

_CATALOG: Final = re.compile(
    rb"(?<!\d)(\d{1,10})\s+(\d{1,5})\s+obj\b(?:(?!\bendobj\b|\bobj\b|\bstream\b).){0,2000}?/Type\s*/Catalog(?![A-Za-z])",
    re.DOTALL,
)
_ENCRYPTION: Final = re.compile(rb"/Filter\s*/Standard(?![A-Za-z])")


def with_trailer(stream: io.BufferedReader[SourceStream]) -> io.BufferedReader[SourceStream] | None:
    """The file with a trailer that names its last catalog; None where there is none to name.

    An object that is cut in two is not ended: pdfium would show half an image as if it were whole. Nor is there one
    for an encrypted file: the trailer that is lost said how, and without it pdfium would show what makes no sense.
    """
    found: tuple[bytes, ...] | None = None
    for _, window in windows(stream):
        if _ENCRYPTION.search(window):
            return None
        if b"/Catalog" in window:
            for catalog in _CATALOG.finditer(window):
                found = catalog.groups()
    if found is None:
        return None
    return SourceReader(stream.raw.extended(b"\ntrailer\n<</Root %b %b R>>\n%%%%EOF\n" % found))
