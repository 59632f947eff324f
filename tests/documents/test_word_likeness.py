"""What of two texts a person cares about: words, then numbers, then noise; nothing is left out or counted twice."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.documents.diff import repeated
from batchproc.documents.word_likeness import Likeness, by_likeness, likeness

WORD, NUMBER, NOISE = Likeness
SPOKEN = st.from_regex(r"[bdfklmnprst]?[aeiouäöüé][bdfklmnprst]", fullmatch=True)
WORDS = st.lists(SPOKEN, min_size=1, max_size=4).map("".join)
ANY = st.text(st.characters(exclude_categories=["Z"]), min_size=1, max_size=12).filter(lambda w: w.split() == [w])
MARKS = st.text(st.characters(categories=["P", "S", "Cc"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Rechnung", "und", "der", "(Vertrag)", "„Angebot“,", "Schifffahrt", "Angstschweiß", "d'accord"], WORD),
        (["HTML", "PostgreSQL", "McDonald", "E-Mail", "info@acme.de", "Straße", "naïve", "Œuvre"], WORD),
        (["договор", "σύμβαση", "عقد", "契約書", "書", "अनुबंध", "חוזה"], WORD),
        (["2024", "12.03.2024", "1.204,50", "€1,204.50", "A4", "10kg", "RE-2024/17", "DE89370400440532013000"], NUMBER),
        (["a", "7", "|", "~", "...", "—", "1.", "x)", "\x1b[31m", "\ue000ab"], NOISE),
        (["br4vo", "1nv0ice", "O0l1", "~~ab~|", "rEcHnUng", "iiii", "lll", "rn", "tlh", "aaaab"], NOISE),
    ],
)
def test_words_as_texts_have_them(words: list[str], expected: Likeness) -> None:
    assert {word: likeness(word, known=False) for word in words} == dict.fromkeys(words, expected)


def test_what_a_text_has_more_than_once_is_meant() -> None:
    assert {word: likeness(word, known=True) for word in ("GmbH", "rn", "br4vo", "7", "|", "--")} == {
        "GmbH": WORD,
        "rn": WORD,
        "br4vo": NUMBER,
        "7": NOISE,
        "|": NOISE,
        "--": NOISE,
    }
    assert repeated({1: "GmbH und Co", 2: "die GmbH"}) == {"GmbH"}


@given(WORDS, st.sampled_from(["{}", "{},", "({})", "„{}“", "{}!"]))
def test_what_can_be_spoken_is_a_word_in_any_case(word: str, around: str) -> None:
    for cased in (word.lower(), word.title(), word.upper()):
        assert likeness(around.format(cased), known=False) is WORD


@given(MARKS)
def test_marks_alone_are_noise_however_often_they_are_there(marks: str) -> None:
    assert likeness(marks, known=True) is NOISE


@given(ANY)
def test_what_is_known_is_never_less_than_what_is_not(word: str) -> None:
    assert likeness(word, known=True) <= likeness(word, known=False)
    if likeness(word, known=False) is WORD:
        assert not any(unicodedata.category(character)[0] == "N" for character in word)


@given(st.dictionaries(ANY | WORDS, st.integers(1, 9)), st.sets(ANY | WORDS, max_size=3))
def test_each_word_is_of_one_kind_the_most_frequent_first(words: dict[str, int], known: set[str]) -> None:
    found = by_likeness(Counter(words), known)
    assert Counter(word for kind in found.values() for word, _ in kind) == Counter(list(words))
    assert {word: times for kind in found.values() for word, times in kind} == words
    for kind, told in found.items():
        assert told == sorted(told, key=lambda one: (-one[1], one[0]))
        assert all(likeness(word, known=word in known) is kind for word, _ in told)
