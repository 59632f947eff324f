"""Patterns, templates and the text they are searched in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchproc.handlers.rules import patterns, template
from batchproc.handlers.rules.patterns import AllOf, AnyOf, Literal, NoneOf, Regex, SearchText, named_groups

PAGES = ["RECHNUNG Nr\n  4711\nStraße und\nCaf\u00e9", "Betrag: 12,50\nzahl\u00adbar sofort, oﬀen"]
TEXT = SearchText(PAGES)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (Literal("Rechnung"), "literal 'Rechnung' on page 1"),
        (Literal("rechnung nr 4711"), "literal 'rechnung nr 4711' on page 1"),
        (Literal("STRASSE UND CAFÉ"), "literal 'STRASSE UND CAFÉ' on page 1"),
        (Literal("cafe\u0301"), "literal 'cafe\u0301' on page 1"),
        (Literal("zahlbar"), "literal 'zahlbar' on page 2"),
        (Literal("offen"), "literal 'offen' on page 2"),
        (Literal("Rechnung", case_sensitive=True), None),
        (Literal("RECHNUNG", case_sensitive=True), "literal 'RECHNUNG' on page 1"),
        (Literal("zahl"), "literal 'zahl' on page 2"),
        (Literal("zahl", whole_word=True), None),
        (Literal("betrag", whole_word=True), "literal 'betrag' on page 2"),
        (Literal("4711 straße", whole_word=True), "literal '4711 straße' on page 1"),
        (Regex(r"^betrag: (\d+)"), r"regex '^betrag: (\d+)' on page 2"),
        (Regex(r"^betrag", case_sensitive=True), None),
        (Regex(r"4711$"), "regex '4711$' on page 1"),
        (AnyOf((Literal("nothing"), Literal("betrag"), Literal("rechnung"))), "literal 'betrag' on page 2"),
        (AnyOf((Literal("nothing"), Literal("no"))), None),
        (
            AllOf((Literal("betrag"), Literal("rechnung"))),
            "literal 'betrag' on page 2 and literal 'rechnung' on page 1",
        ),
        (AllOf((Literal("betrag"), Literal("nothing"))), None),
        (NoneOf((Literal("nothing"), Regex("no such"))), "none of 2 exclusions"),
        (NoneOf((Literal("nothing"), Literal("betrag"))), None),
    ],
)
def test_finds_and_says_why(pattern: patterns.Pattern, reason: str | None) -> None:
    assert pattern.find(TEXT) == reason


def test_the_second_of_two_places_may_be_the_whole_word() -> None:
    assert Literal("bill", whole_word=True).find(SearchText(["billing, then a bill"])) == "literal 'bill' on page 1"


def test_the_first_pages_alone() -> None:
    assert Literal("betrag").find(TEXT.first(1)) is None
    assert Literal("betrag").find(TEXT.first(2)) is not None
    assert Literal("betrag").find(TEXT.first(None)) is not None


def test_a_text_is_bounded_and_says_so() -> None:
    long_page = "x" * (patterns.MAX_PAGE_CHARACTERS + 1)
    text = SearchText([long_page] * 30)
    assert text.truncated
    assert sum(map(len, text.pages)) == patterns.MAX_TEXT_CHARACTERS
    assert not SearchText(["short"]).truncated
    # One character that NFKC makes eighteen of.
    assert len(SearchText(["\ufdfa" * patterns.MAX_PAGE_CHARACTERS]).pages[0]) == patterns.MAX_PAGE_CHARACTERS


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=20), max_size=3), st.text(min_size=1, max_size=5))
def test_all_any_and_none_agree_with_their_parts(pages: list[str], word: str) -> None:
    text = SearchText(pages)
    parts = (Literal(word + "!"), Literal("a"))
    found = [part.find(text) is not None for part in parts]
    assert (AllOf(parts).find(text) is not None) == all(found)
    assert (AnyOf(parts).find(text) is not None) == any(found)
    assert (NoneOf(parts).find(text) is None) == any(found)


def test_groups_come_from_the_first_match_that_has_them_all() -> None:
    text = SearchText(["No 1 without", "No 2 of May, No 3 of June"])
    pattern = Regex(r"No (?P<number>\d)(?: of (?P<month>\w+))?")
    assert named_groups(pattern, text) == {"number": "2", "month": "May"}
    assert named_groups(pattern, SearchText(["No 7"])) == {"number": "7"}


def test_groups_come_from_every_part_but_exclusions() -> None:
    pattern = AllOf(
        (
            AnyOf((Literal("No"), Regex(r"No (?P<number>\d)"))),
            Regex(r"(?P<number>\d) of (?P<month>\w+)"),
            NoneOf((Regex(r"(?P<secret>xyz)"),)),
        )
    )
    assert named_groups(pattern, SearchText(["No 1, 2 of May"])) == {"number": "1", "month": "May"}


def test_groups_are_bounded() -> None:
    assert named_groups(Regex(r"(?P<all>x+)"), SearchText(["x" * 5000])) == {"all": "x" * 100}


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet="ab ", max_size=600))
def test_reasons_are_bounded(pattern: str) -> None:
    assert len(patterns.bounded_reason(pattern)) <= patterns.REASON_CHARACTERS


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Invoice {number}", "Invoice 4{711}"),
        ("{number}/{ number2}".replace(" ", ""), None),
        ("{{number}} {empty}".replace(" {empty}", ""), "{number}"),
        ("{number}{number}", "4{711}4{711}"),
        ("none at all", "none at all"),
        ("{empty}", None),
    ],
)
def test_templates_are_filled_with_names_alone(text: str, filled: str | None) -> None:
    assert template.fill(text, {"number": "4{711}", "empty": ""}) == filled


@pytest.mark.parametrize("text", ["{", "}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}", "{}", "{{a}", "{__class__.x}"])
def test_templates_have_no_other_language(text: str) -> None:
    with pytest.raises(ValueError, match="lone brace"):
        template.names(text)
