"""Whether the text that a PDF page brings along is text at all, and its cleaning."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from batchproc.ocr.pages import TextLayer

LEGIBLE_SHARE: Final = 0.5
"""Part of the characters that must be letters or digits; less comes from fonts without a Unicode mapping."""

MAX_UNMAPPED: Final = 0.3
MAX_MISSHAPEN: Final = 0.5

ENOUGH_TO_COUNT: Final = 20
"""Characters from which on a text repeats itself only if it is none: one glyph for all, or two."""

FEWEST_KINDS: Final = 4

ENOUGH_LATIN: Final = 80
VOWEL_SHARE: Final = 0.22
"""Part of the letters a to z that are vowels (y too, accents apart). English, German, French, Italian, Spanish and
Portuguese texts had 0.36 to 0.49; the English ones with their letters 29 places off, as fonts leave them that number
their glyphs without a mapping, 0.15 to 0.19."""

_ENOUGH_TO_JUDGE: Final = 20_000

_LEADER = re.compile(r"([^\w\s])\1{2,}")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\uffff]")
_HYPHEN_AT_LINE_END = re.compile("[\x02\ufffe]\n?")
_TRAILING_BLANKS = re.compile(r"[^\S\n]+(?=\n|$)")


def normalised_text(text: str) -> str:
    """`text` with line feeds as its only line ends and without what PostgreSQL or a terminal chokes on.

    NUL, other control characters and lone surrogates are dropped, form feeds become line feeds (they separate pages
    elsewhere). pdfium joins a word that is hyphenated at a line's end by a mark: the hyphen and the line end come back.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").replace("\v", "\n")
    text = _HYPHEN_AT_LINE_END.sub("-\n", text)
    return _TRAILING_BLANKS.sub("", _CONTROL.sub("", text)).strip("\n")


def is_real(layer: TextLayer) -> bool:
    """Whether the layer is text, and not what a broken font or a careless program left.

    It is not when it is mostly neither letters nor digits (leaders such as "....." apart), without Unicode values, of
    no readable size, one glyph over and over, or Latin letters that make no language. Even one word can be real.
    Whether it is all that the page shows is another question: see `batchproc.ocr.mixed_page`.
    """
    marks = [character for character in _LEADER.sub("", layer.text) if not character.isspace()]
    legible = [character for character in marks if _is_legible(character)]
    if not legible or len(legible) < LEGIBLE_SHARE * len(marks):
        return False
    if layer.unmapped > MAX_UNMAPPED or layer.misshapen > MAX_MISSHAPEN:
        return False
    if len(legible) >= ENOUGH_TO_COUNT and len(set(legible)) < FEWEST_KINDS:
        return False
    return not _is_no_language(legible)


def _is_legible(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _is_no_language(legible: list[str]) -> bool:
    letters = unicodedata.normalize("NFD", "".join(legible[:_ENOUGH_TO_JUDGE])).lower()
    latin = [letter for letter in letters if "a" <= letter <= "z"]
    if len(latin) < ENOUGH_LATIN or 2 * len(latin) < len(letters):
        return False
    return sum(letter in "aeiouy" for letter in latin) < VOWEL_SHARE * len(latin)
