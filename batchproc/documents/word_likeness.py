"""Which of the words of a text a person cares about: whole ones first, then numbers, and last what recognition made of
stains and rules.

A word here is what stands between white space, as in `diff`. The rule knows no language, and only its order is shown: a
rare abbreviation that is taken for noise costs a look with ``--all``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container
from enum import IntEnum
from itertools import pairwise

_CONSONANTS = frozenset("bcdfghjklmnpqrstvwxz")
_LONGEST_ABBREVIATION = 5
"""Letters: ``HTML`` has no vowel and is none of the words that stains become, which are seldom in capitals."""
_MOST_REPEATS = re.compile(r"(.)\1{3}")
"""No spelling writes a letter four times in a row; three it does, as in ``Schifffahrt``."""
_PARTS = re.compile(r"\0+")
_LETTERS, _DIGITS = "a", "0"


class Likeness(IntEnum):
    """In the order in which they are shown."""

    WORD = 0
    NUMBER = 1
    NOISE = 2


def likeness(word: str, *, known: bool) -> Likeness:
    """What the word looks like.

    ``WORD``: letters, two or more, perhaps with marks around and between them, that can be spoken or are an
    abbreviation in capitals. ``NUMBER``: digits, amounts, dates, and what joins letters and digits once in each of its
    parts, as in ``A4`` or ``RE-2024/17``. ``NOISE``: a single character, marks alone, digits and letters mixed.

    Args:
        known: a text has it more than once: then letters are a word whatever they look like, and a mixture is taken for
            a number such as that of an account.
    """
    shape = "".join(map(_shape, word))
    plain = shape.replace("\0", "")
    if _is_marks(word, plain) or (len(plain) == 1 and not _is_whole(word)):
        return Likeness.NOISE
    if _DIGITS not in plain:
        return Likeness.WORD if known or _speaks(word, shape) else Likeness.NOISE
    mixed = any(_switches(part) > 1 for part in _PARTS.split(shape))
    return Likeness.NUMBER if known or not mixed else Likeness.NOISE


def by_likeness(words: Counter[str], known: Container[str]) -> dict[Likeness, list[tuple[str, int]]]:
    """The words by what they look like, each kind by how often they are there, those as frequent by the alphabet."""
    found: dict[Likeness, list[tuple[str, int]]] = {kind: [] for kind in Likeness}
    for word, times in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        found[likeness(word, known=word in known)].append((word, times))
    return found


def _shape(character: str) -> str:
    """Of a letter ``a``, of a digit ``0``, of any other character NUL. Marks on letters belong to them."""
    category = unicodedata.category(character)
    if category[0] in "LM":
        return _LETTERS
    return _DIGITS if category[0] == "N" else "\0"


def _is_marks(word: str, plain: str) -> bool:
    """Whether there is little else in it, or what nobody prints."""
    unprintable = any(unicodedata.category(character) in ("Cc", "Co", "Cs", "Cn") for character in word)
    return unprintable or not plain or 2 * len(plain) < len(word)


def _is_whole(word: str) -> bool:
    """Whether a character of it is a word of its own, as in Chinese."""
    return any(unicodedata.east_asian_width(character) == "W" and character.isalpha() for character in word)


def _switches(part: str) -> int:
    """How often letters and digits follow one another."""
    return sum(one != other for one, other in pairwise(part))


def _speaks(word: str, shape: str) -> bool:
    """Whether one of the parts of the word could be one, and none is a jumble."""
    parts = [word[found.start() : found.end()] for found in re.finditer(f"{_LETTERS}+", shape)]
    jumbled = any(_is_jumbled(part) for part in parts)
    return not jumbled and any(_could_be_word(part) for part in parts)


def _is_jumbled(part: str) -> bool:
    """Capitals within the word, beyond one as in ``GmbH``, or a letter over and over."""
    capitals = sum(before.islower() and after.isupper() for before, after in pairwise(part))
    return capitals > 1 or _MOST_REPEATS.search(part) is not None


def _could_be_word(part: str) -> bool:
    if len(part) < 2:
        return _is_whole(part)
    if part.isupper() and len(part) <= _LONGEST_ABBREVIATION:
        return True
    letters = {unicodedata.normalize("NFD", letter)[0] for letter in part.lower()}
    return len(letters) > 1 and not letters <= _CONSONANTS
