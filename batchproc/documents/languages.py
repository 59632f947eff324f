"""Language hints: Tesseract's names, one or several."""

from __future__ import annotations

_NAME = r"[A-Za-z][A-Za-z0-9_]*(/[A-Za-z0-9_]+)?"
LANGUAGES_PATTERN = rf"{_NAME}(\+{_NAME})*"
"""What a hint such as ``deu``, ``deu+eng`` or ``script/Latin`` looks like; its names become parts of file names."""


def split_languages(hint: str) -> tuple[str, ...]:
    """The names in a hint, each once, in order."""
    return tuple(dict.fromkeys(hint.split("+")))
