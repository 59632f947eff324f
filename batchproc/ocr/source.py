"""Opening a document by its content."""

from __future__ import annotations

import io
from typing import BinaryIO, Final

from batchproc.ocr import memory
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.images import ImageSource
from batchproc.ocr.pages import PageImage, Source, SourcePage, TextLayer
from batchproc.ocr.pdf_document import PdfSource
from batchproc.ocr.stream import SourceStream

__all__ = ["HEAD_BYTES", "PageImage", "Source", "SourcePage", "TextLayer", "media_type", "open_source"]

HEAD_BYTES: Final = 1024
"""How much of a file's beginning `media_type` wants to see."""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),  # BigTIFF
    (b"MM\x00+", "image/tiff"),
)


def media_type(head: bytes) -> str | None:
    """The media type of a file that begins with `head` (its first `HEAD_BYTES`), or None when it is none that is read.

    Names and extensions say nothing. A PDF may have other bytes before its header, which readers look for in the first
    1,024 (PDF 1.7 reference, appendix H, note 13).
    """
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return name
    return "application/pdf" if b"%PDF-" in head[:HEAD_BYTES] else None


def open_source(data: BinaryIO | int, *, bounds: Bounds, password: str | None = None) -> Source:
    """Opens a document for reading its pages.

    Args:
        data: a stream or descriptor of a regular file that the caller has opened read-only and keeps open until the
            source is closed. It is read from its beginning whatever its position; nothing is opened by name.
        bounds: what is refused.
        password: for an encrypted PDF.

    Raises:
        OcrFailure: `empty_file`, `too_large`, `unsupported_type`, `encrypted` or `unreadable_file`.
        OSError: the storage failed, not the file.
    """
    stream = SourceStream(data)
    bounds.check_bytes(stream.size)
    buffered = io.BufferedReader(stream, buffer_size=1 << 16)
    kind = media_type(buffered.read(HEAD_BYTES))
    if kind is None:
        raise OcrFailure("unsupported_type", "by its content no PDF, TIFF, PNG, JPEG or GIF")
    with memory.room():
        if kind == "application/pdf":
            return PdfSource(buffered, bounds=bounds, password=password)
        return ImageSource(buffered, kind, bounds=bounds)
