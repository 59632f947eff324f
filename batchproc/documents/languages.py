"""Language hints: Tesseract's names, one or several, or ``auto`` before those to choose from."""

from __future__ import annotations

import re

from batchproc.core.languages import MOST, NAME, problem

HINT_CHARACTERS = 500
LANGUAGES_PATTERN = rf"{NAME}(\+{NAME}){{0,{MOST - 1}}}"
"""What a hint such as ``deu``, ``deu+eng``, ``script/Latin`` or ``auto+deu+eng`` looks like; its names become parts of
file names."""


def split_languages(hint: str) -> tuple[str, ...]:
    """The names in a hint, each once, in order."""
    return tuple(dict.fromkeys(hint.split("+")))


def hint_problem(hint: str) -> str | None:
    """What is wrong with a hint, after the words "the languages"; None when nothing is."""
    if len(hint) > HINT_CHARACTERS or not re.fullmatch(LANGUAGES_PATTERN, hint):
        return f"must be at most {MOST} of Tesseract's names, such as deu or deu+eng"
    return problem(hint.split("+"))
