"""Scan-like documents with known text, drawn by the project itself."""

from batchproc.ops.drawing.documents import Drawn, broken_pdf, letter, pdf, save_png, text_pdf

__all__ = ["Drawn", "broken_pdf", "letter", "pdf", "save_png", "text_pdf"]
