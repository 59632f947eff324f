"""Scan-like documents with known text, drawn by the project itself."""

from batchproc.ops.drawing.documents import Drawn, broken_pdf, letter, pdf, save_png, text_pdf
from batchproc.ops.drawing.layouts import columns, table
from batchproc.ops.drawing.wear import faded, scanned, shadowed, stamped

__all__ = [
    "Drawn",
    "broken_pdf",
    "columns",
    "faded",
    "letter",
    "pdf",
    "save_png",
    "scanned",
    "shadowed",
    "stamped",
    "table",
    "text_pdf",
]
