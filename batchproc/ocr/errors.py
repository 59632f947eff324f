"""What can be wrong with a document or a page, as a failure code and a detail that is safe to store."""

from __future__ import annotations

from typing import Final

FAILURE_CODES: Final = frozenset(
    {
        "too_large",  # more bytes, pages or pixels than the bounds allow
        "encrypted",  # needs a password, or another one
        "unreadable_file",  # damaged: cannot be opened, or one of its pages cannot be decoded
        "unsupported_type",  # by its content none that is read, see batchproc.ocr.formats
        "empty_file",  # has no bytes
        "missing_language",  # the engine has no data, or no usable data, for a wanted language
        "engine_failed",  # the engine gave up on a page that was decoded well
    }
)


class OcrFailure(Exception):
    """A document or page that cannot be read, now or later: trying again does not help.

    Args:
        code: one of `FAILURE_CODES`.
        detail: what happened, in words of this package and numbers only. It never quotes the document's text,
            a path or another library's message, so that it may be stored and shown.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        if code not in FAILURE_CODES:
            raise ValueError(f"{code!r} is not one of the failure codes of batchproc.ocr")
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else self.code
