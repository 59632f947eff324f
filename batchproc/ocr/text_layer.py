"""Whether the text that a PDF page brings along can stand for what is seen on it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from batchproc.ocr.pages import TextLayer

SCAN_SHARE: Final = 0.5
"""A page that images cover to this part is taken for a scan."""

FEW_ON_SCAN: Final = 150
"""Visible characters over a scan: fewer are a stamp, a court's or a scanner's line, not the page's text."""

FEW_HIDDEN: Final = 20
"""Invisible characters over a scan: written by an OCR program, so even a little is all that it found."""

LEGIBLE_SHARE: Final = 0.5
"""Part of the characters that must be letters or digits; less comes from fonts without a Unicode mapping."""

MAX_UNMAPPED: Final = 0.3

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


def is_good(layer: TextLayer) -> bool:
    """Whether the layer can be kept instead of recognising the page.

    Not good are rubbish (mostly neither letters nor digits, leaders such as "....." apart, or mostly unmapped), and a
    few characters over an image that fills the page. On a page without such an image even one word is all there is.
    """
    marks = [character for character in _LEADER.sub("", layer.text) if not character.isspace()]
    legible = sum(map(_is_legible, marks))
    if legible == 0 or legible < LEGIBLE_SHARE * len(marks) or layer.unmapped > MAX_UNMAPPED:
        return False
    if layer.image_share < SCAN_SHARE:
        return True
    return legible >= (FEW_HIDDEN if layer.hidden else FEW_ON_SCAN)


def _is_legible(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character).startswith("M")
