"""Scan-like documents with known text, drawn by the project itself."""

from batchproc.ops.drawing.documents import Drawn, broken_pdf, letter, pdf, save_png
from batchproc.ops.drawing.wear import scanned

__all__ = ["Drawn", "broken_pdf", "letter", "pdf", "save_png", "scanned"]
