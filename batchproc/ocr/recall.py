"""How much of a known text was read."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_WORD = re.compile(r"\w+")


def word_recall(truth: str, text: str) -> float:
    """The share of the words of `truth` that are in `text`, 0 to 1, each as often as it occurs; 1 if there are none.

    Words are runs of letters, digits and underscores, lower-cased; their order does not count.
    """
    wanted = _words(truth)
    return (wanted & _words(text)).total() / wanted.total() if wanted else 1.0


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(unicodedata.normalize("NFC", text).lower()))
