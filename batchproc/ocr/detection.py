"""Reading a page in the language that its own text is found to be in."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from typing import Any, Final

from batchproc.core.languages import AUTO, DETECTION_PACKAGE, remedy
from batchproc.ocr.engine import Recognised
from batchproc.ocr.errors import OcrFailure

LEAST_LETTERS: Final = 40
"""Of shorter texts no language is told. Of 800 snippets of English and German letters, umlauts read as plain letters,
none of 40 letters and more was taken for the wrong one of two or of five candidates, whatever the confidence; of 10
letters 72 were."""

LEAST_CONFIDENCE: Final = 0.9
"""By lingua's measure, 0 to 1. Of those snippets 98 % of 40 letters and all of 60 reach it between two candidates, 69 %
and 93 % between five; no wrong one does, not even of 10 letters."""

MOST_LOSS: Final = 2.0
"""The mean confidence that the second reading may be below the first. It says nothing of umlauts: German letters read
with English first had 95 with 7 % of their umlauts lost, and 95 with none lost; read in English alone it was
5 to 7 less, while English letters lost at most one read in German alone."""

_READ_CHARACTERS: Final = 20_000

# Tesseract's names of lingua's languages, where they are not ISO 639-3. Two scripts of one language are one to lingua.
_ISO_CODES: Final = {
    "chi_sim": "ZHO",
    "chi_tra": "ZHO",
    "frk": "DEU",
    "deu_latf": "DEU",
    "srp_latn": "SRP",
    "aze_cyrl": "AZE",
    "nor": "NOB",
}
_VERTICAL: Final = "_vert"


def is_installed() -> bool:
    """Whether languages can be told at all: by the extra ``auto``."""
    return importlib.util.find_spec("lingua") is not None


def require() -> None:
    """Raises OcrFailure `missing_language` unless languages can be told."""
    _lingua()


def version() -> str:
    """What tells them, such as "lingua 2.1.1": another one may tell another language."""
    return f"lingua {metadata.version(DETECTION_PACKAGE)}"


def recognise_detecting(
    read: Callable[[tuple[str, ...]], Recognised],
    candidates: tuple[str, ...],
    loading_order: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> Recognised:
    """A page as read with its own language first.

    It is read with the candidates as they are, and once more, with the detected one in front, if that was not there:
    the others stay, for pages of two languages. Too little text, one that is doubtful or in none of the candidates
    that lingua knows leave it at the first reading. The second one counts unless it is the worse.

    Args:
        read: recognises the page in these languages.
        candidates: at least one, the most likely first.
        loading_order: the order in which the engine tries languages; where that stays, a second reading would be the
            first one again.

    Raises:
        OcrFailure: what ``read`` raises; `missing_language` where lingua is not installed.
    """
    first = read(candidates)
    detected = detect(first.text, candidates)
    if detected is None or detected == candidates[0]:
        return first
    again = (detected, *(language for language in candidates if language != detected))
    if loading_order(again) == loading_order(candidates):
        return replace(first, languages=again)
    second = read(again)
    calls = first.engine_calls + second.engine_calls
    return replace(second if _is_no_worse(second, first) else first, engine_calls=calls)


def detect(text: str, candidates: Sequence[str]) -> str | None:
    """That one of the candidates which the text is in; None when that cannot be told.

    Raises:
        OcrFailure: `missing_language`: lingua is not installed.
    """
    codes = {language: code for language in candidates if (code := iso_code(language)) is not None}
    if len(set(codes.values())) < 2 or sum(map(str.isalpha, text)) < LEAST_LETTERS:
        return None
    found = _detector(tuple(sorted(set(codes.values())))).compute_language_confidence_values(text[:_READ_CHARACTERS])
    if not found or found[0].value < LEAST_CONFIDENCE:
        return None
    best = found[0].language.iso_code_639_3.name
    return next(language for language, code in codes.items() if code == best)


def iso_code(language: str) -> str | None:
    """Lingua's ISO 639-3 code of a language as Tesseract names it; None where it has none, as of scripts.

    Raises:
        OcrFailure: `missing_language`: lingua is not installed.
    """
    name = language.removesuffix(_VERTICAL)
    code = _ISO_CODES.get(name, name.upper())
    return code if code in _known_codes() else None


def _is_no_worse(second: Recognised, first: Recognised) -> bool:
    if second.confidence is None or first.confidence is None:
        return False
    return second.confidence >= first.confidence - MOST_LOSS


@lru_cache(maxsize=1)
def _known_codes() -> frozenset[str]:
    return frozenset(language.iso_code_639_3.name for language in _lingua().Language.all())


@lru_cache(maxsize=4)
def _detector(codes: tuple[str, ...]) -> Any:
    """Loads the models of these languages alone, when it first detects."""
    lingua = _lingua()
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_3(
        *(getattr(lingua.IsoCode639_3, code) for code in codes)
    ).build()


def _lingua() -> Any:
    try:
        import lingua  # the extra; when it is first needed
    except ImportError:
        raise OcrFailure("missing_language", f"the detection of languages is not installed: {remedy([AUTO])}") from None
    return lingua
