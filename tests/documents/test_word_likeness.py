"""What of two texts a person cares about: words, then numbers, then noise; nothing is left out or counted twice."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.documents.diff import repeated
from batchproc.documents.word_likeness import Likeness, by_likeness, likeness

WORD, NUMBER, NOISE = Likeness
SPOKEN = st.from_regex(r"[bdfklmnprst]?[aeiouäöüé][bdfklmnprst]", fullmatch=True)
WORDS = st.lists(SPOKEN, min_size=1, max_size=4).map("".join)
ANY = st.text(st.characters(exclude_categories=["Z"]), min_size=1, max_size=12).filter(lambda w: w.split() == [w])
MARKS = st.text(st.characters(categories=["P", "Sk", "Sm", "Cc"], exclude_characters="%‰§&"), min_size=1, max_size=12)
LATIN = """Rechnung Krk prst smrt Strč skrz crwth été é à Noël Nguyễn Œuvre GmbH StGB LStDV kg ml ft nr. Mrs html www
    pp. ff. iii xii z.B. c/o R&D n/a U.S. C++ getUserNameById MacBookPro LaTeX TT.MM.JJJJ XXXX info4you@acme.de
    Einleitung..........5 ___ja___ \uf0b7Posten Wort\u00adteil"""
OTHER_CASED = """договор в я „и“, тыс млн кв Й 5-го σύμβαση ο η պայմանագիր և ხელშეკრულება"""
UNCASED = """見積書 「書」 日 コーヒー ﾊﾟ 契約番号 한국어 계약 สัญญา عقد و חוזה ב अनुबंध ㎡ 合计500元整 第3章 ข้อ3บทที่4
    見積書は2024年3月15日に発行されました。 가나다2024년3월 الفقرة3من"""
NUMBERS = """GB82WEST12345698765432 NL91ABNA0417164300 IE29AIBK93115212345678 NL123456789B01 1HGCM82633A004352 A12B
    550e8400-e29b-41d4-a716-446655440000 f4ce1d2b-bfa3-4c1d-9f3e-deadbeefcafe 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa
    0x1F B2B H2O i18n 12h30 2x4x6 1,5l 10l I10 100m2 №5 5€ €5 5% 5,- -3 12,-- 85m² 8. (1) XXXX1234 ٣ १२३ 20°C
    \uf0b71.204,50"""
VOCABULARY = " ".join((LATIN, OTHER_CASED, UNCASED, NUMBERS)).split()
GARBAGE = (
    """| || ~_ _ l1I|l1 .,;' . : ' — -|- =~ a I s, ‘e i' R| ee nn lll O0l 0Ol1 |l| e~ • © * ~a|= '| ----~- '_' N-"""
)
LETTERS_WITHOUT_CASE = st.characters(categories=["Lo"], exclude_characters="ªº").filter(
    lambda letter: letter.lower() == letter.upper()
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Rechnung", "und", "der", "(Vertrag)", "„Angebot“,", "Schifffahrt", "Angstschweiß", "d'accord"], WORD),
        (["HTML", "PostgreSQL", "McDonald", "E-Mail", "info@acme.de", "Straße", "naïve", "Œuvre"], WORD),
        (["договор", "σύμβαση", "عقد", "契約書", "書", "अनुबंध", "חוזה"], WORD),
        (["\ue000ab", "J.", "x)", "(e)", "m²", "°C"], WORD),
        (["2024", "12.03.2024", "1.204,50", "€1,204.50", "A4", "10kg", "RE-2024/17", "DE89370400440532013000"], NUMBER),
        (["7", "1.", "5€", "5%", "5,-", "-3", "±5", "12,--", "85m²", "½", "①", "§", "€", "☒", "|5|"], NUMBER),
        (["a", "(a", "|", "~", "...", "—", "²", "\x1b[31m", "\ue000\ue001", "\u0301"], NOISE),
        (["br4vo", "1nv0ice", "O0l1", "~~ab~|", "~=~5|", "rEcHnUng", "iiii", "lll", "ee", "aaaab"], NOISE),
    ],
)
def test_words_as_texts_have_them(words: list[str], expected: Likeness) -> None:
    assert {word: likeness(word, known=False) for word in words} == dict.fromkeys(words, expected)


def test_what_a_text_has_more_than_once_is_meant() -> None:
    assert {word: likeness(word, known=True) for word in ("ee", "br4vo", "a", "|", "--")} == {
        "ee": WORD,
        "br4vo": NUMBER,
        "a": NOISE,
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


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_what_somebody_writes_is_never_noise(form: Literal["NFC", "NFD"]) -> None:
    assert [word for word in VOCABULARY if likeness(unicodedata.normalize(form, word), known=False) is NOISE] == []


def test_what_stains_and_rules_become_is_noise() -> None:
    assert [word for word in GARBAGE.split() if likeness(word, known=False) is not NOISE] == []


@given(st.text(st.characters(categories=["L", "Nd", "P"])), LETTERS_WITHOUT_CASE, st.text(st.sampled_from("日ก7A|")))
def test_a_letter_of_a_script_without_spaces_is_never_noise(before: str, letter: str, after: str) -> None:
    assert likeness(before + letter + after, known=False) is not NOISE


@given(st.sampled_from("€$£%‰+-±§№"), st.integers(0, 9), st.booleans())
def test_one_digit_with_a_sign_is_a_number(sign: str, digit: int, before: bool) -> None:
    assert likeness(f"{sign}{digit}" if before else f"{digit}{sign}", known=False) is NUMBER


@given(st.from_regex(r"[A-HJ-NP-Z]{2}[0-9]{2}[A-HJ-NP-Z0-9]{4,30}", fullmatch=True) | st.uuids().map(str))
def test_numbers_of_accounts_and_things_are_numbers(number: str) -> None:
    assert likeness(number, known=False) is NUMBER


@given(ANY)
def test_accents_count_the_same_composed_or_not(word: str) -> None:
    composed, apart = (unicodedata.normalize(form, word) for form in ("NFC", "NFD"))
    assert likeness(composed, known=False) is likeness(apart, known=False)


@given(ANY)
def test_what_is_known_is_never_less_than_what_is_not(word: str) -> None:
    assert likeness(word, known=True) <= likeness(word, known=False)
    if likeness(word, known=False) is WORD:
        assert not any(character.isdecimal() for character in word)


@given(st.dictionaries(ANY | WORDS, st.integers(1, 9)), st.sets(ANY | WORDS, max_size=3))
def test_each_word_is_of_one_kind_the_most_frequent_first(words: dict[str, int], known: set[str]) -> None:
    found = by_likeness(Counter(words), known)
    assert Counter(word for kind in found.values() for word, _ in kind) == Counter(list(words))
    assert {word: times for kind in found.values() for word, times in kind} == words
    for kind, told in found.items():
        assert told == sorted(told, key=lambda one: (-one[1], one[0]))
        assert all(likeness(word, known=word in known) is kind for word, _ in told)
