"""Which of the words of a text a person cares about: whole ones first, then numbers, and last what recognition made of
stains and rules.

A word here is what stands between white space, as in `diff`. The rule knows no language. Noise is named only when it is
asked for, and to hide a real loss is worse than to show noise: so noise is only what nobody could mean, and what is in
doubt is a word or a number. The one exception are ``a`` and ``I``: a lone letter is what stains become most often, and
nobody misses it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container
from enum import IntEnum
from itertools import filterfalse, pairwise

_CASED, _UNCASED, _DIGIT, _MARK = "aw0-"
_PARTS = re.compile(f"[{_CASED}{_DIGIT}]+")
_ABBREVIATION = re.compile(r"\W*([A-Z](\.|#|\+\+?)|[A-Za-z]([)\]]|[²³ªº°]|([./&'’(+=-][A-Za-z])+)|°[CF])\W*")
"""``J.`` before a surname, ``C++``, ``a)`` before a paragraph, ``m²``, ``n°``, ``°C``, ``z.B.``, ``c/o``, ``R&D``."""
_STAIN = re.compile(r"([aehjlnortuy])\1+")
"""What rings and strokes become. Who writes doubles other letters: pp., ff., mm, cc, ii, www."""
_ENDLESS = re.compile(r"([^jmxy])\1{3}", re.IGNORECASE)
"""No spelling writes a letter four times in a row. Forms do (JJJJ, YYYY), and who masks a number does (XXXX)."""
_MOST_TURNS = 2
"""From small letters to capitals: ``MacBookPro``. More are of names such as ``getUserNameById``, of longer parts."""
_SHORT_HUMP = 3
_LOOKALIKES = frozenset("IOilo01")
_MEANT_LOOKALIKES = re.compile(r"[IO]+[01]+|[01]+[lL]")
"""``I10`` is a code, ``10l`` is a volume; ``l1I`` and ``0Ol`` are neither."""
_HEXADECIMAL = re.compile(r"[a-f0-9]{4,}", re.IGNORECASE)
_LONG = 8
_LONG_PER_DIGIT = 5
"""Letters and digits: of a part as long, each fifth must be a digit to be the number of something."""
_SIZE_BESIDE_MARKS = 3
_SIGNS = frozenset("%‰§&№☐☑☒✓✔✗✘")
"""What is read as a word, beside the signs of currencies."""
_ORDINARY = _SIGNS | frozenset("+-−–—±#°()[]{}.,;:!?…/'\"’‘‚“”„«»‹›@_")
"""Marks that are written beside letters and digits; the others are what rules and stains become."""


class Likeness(IntEnum):
    """In the order in which they are shown."""

    WORD = 0
    NUMBER = 1
    NOISE = 2


def likeness(word: str, *, known: bool) -> Likeness:
    """What the word looks like, be its accents composed or not.

    ``WORD``: letters, perhaps with marks around and between them; of other letters than those of ASCII one is enough.
    ``NUMBER``: what has a digit, such as an amount, a date, the number of an account, a sentence without spaces; and
    the signs that stand at numbers. ``NOISE``: a letter of ASCII alone, or over and over; marks, alone or many about
    little; capitals and small letters in turns; a few digits amid small letters, as in ``br4vo``, or letters and
    digits that all look alike, as in ``l1I``.

    Args:
        known: a text has it more than once: then it is meant, unless it is a single letter or marks.
    """
    bare = "".join(filterfalse(_is_invisible, unicodedata.normalize("NFC", word)))
    shape = "".join(map(_shape, bare))
    meant = Likeness.NUMBER if _DIGIT in shape else Likeness.WORD
    if _UNCASED in shape:
        return meant
    parts = [bare[found.start() : found.end()] for found in _PARTS.finditer(shape)]
    if not parts:
        return Likeness.NUMBER if bare and all(map(_is_sign, bare)) else Likeness.NOISE
    if _is_stained(bare, parts):
        return Likeness.NOISE
    if _ABBREVIATION.fullmatch(bare) or any(map(_could_be_meant, parts)):
        return meant
    return meant if known and sum(map(len, parts)) > 1 else Likeness.NOISE


def by_likeness(words: Counter[str], known: Container[str]) -> dict[Likeness, list[tuple[str, int]]]:
    """The words by what they look like, each kind by how often they are there, those as frequent by the alphabet."""
    found: dict[Likeness, list[tuple[str, int]]] = {kind: [] for kind in Likeness}
    for word, times in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        found[likeness(word, known=word in known)].append((word, times))
    return found


def _is_invisible(character: str) -> bool:
    """Accents that nothing composes, soft hyphens, marks of direction."""
    category = unicodedata.category(character)
    return category[0] == "M" or category == "Cf"


def _shape(character: str) -> str:
    """What the character is to these rules, by its category. The digit of ``m²`` is a mark, ``½`` and ``①`` are digits,
    ``㎡`` is a word."""
    category = unicodedata.category(character)
    decomposition = unicodedata.decomposition(character)
    if category == "Lm" or decomposition.startswith(("<super>", "<sub>")):
        return _MARK
    if category[0] == "N":
        return _DIGIT
    if category[0] == "L":
        return _CASED if character.lower() != character.upper() else _UNCASED
    return _UNCASED if category == "So" and decomposition else _MARK


def _is_sign(character: str) -> bool:
    return character in _SIGNS or unicodedata.category(character) == "Sc"


def _is_stained(word: str, parts: list[str]) -> bool:
    """Whether there is little in it beside what nobody writes next to it."""
    size = sum(map(len, parts))
    if any(unicodedata.category(character) == "Cc" for character in word):
        return size <= _SIZE_BESIDE_MARKS
    stains = sum(not (one.isalnum() or one in _ORDINARY or _is_sign(one)) for one in word)
    stands_alone = max(map(len, parts)) >= _SIZE_BESIDE_MARKS
    # A number in a table has a rule on either side.
    return not stands_alone and stains > (size if "".join(parts).isalpha() else 2 * size)


def _could_be_meant(part: str) -> bool:
    """Whether letters, digits, or both between two marks could be anything."""
    return _could_be_word(part) if part.isalpha() else _could_be_number(part)


def _could_be_word(part: str) -> bool:
    """Of letters. A vowel is not needed: ``Krk``, ``kg``, ``GmbH``."""
    if len(part) == 1:
        return not part.isascii()
    turns = sum(before.islower() and after.isupper() for before, after in pairwise(part))
    jumbled = turns > _MOST_TURNS and len(part) < _SHORT_HUMP * (turns + 1)
    return not (jumbled or _STAIN.fullmatch(part) or _ENDLESS.search(part))


def _could_be_number(part: str) -> bool:
    """Of digits, with or without letters: ``A4``, ``H2O``, ``12h30``, a part of an IBAN, a VIN or a UUID."""
    letters = "".join(filter(str.isalpha, part))
    digits = len(part) - len(letters)
    if letters and _LOOKALIKES.issuperset(part):
        return _MEANT_LOOKALIKES.fullmatch(part) is not None
    switches = sum(one.isalpha() != other.isalpha() for one, other in pairwise(part))
    return (
        switches <= 1
        or letters.isupper()
        or digits >= len(letters)
        or (len(part) >= _LONG and _LONG_PER_DIGIT * digits >= len(part))
        or _HEXADECIMAL.fullmatch(part) is not None
    )
