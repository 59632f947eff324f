"""Taxonomy rules as they are written in a file, and what they find."""

from __future__ import annotations

from batchproc.handlers.rules.patterns import SearchText
from batchproc.handlers.rules.reading import read
from batchproc.handlers.rules.taxonomy import Finding, TaxonomyRule, apply


def problems(rules: str) -> list[str]:
    return list(read(rules.encode(), "tax.yaml", TaxonomyRule).problems)


def find(rule: str, *pages: str) -> Finding | None:
    """What the one rule, written as a flow mapping, finds in the pages."""
    file = read(f"version: v1\nrules:\n  - {rule}\n".encode(), "tax.yaml", TaxonomyRule)
    assert not file.problems
    return apply(file.rules[0], SearchText(pages))


def matches(match: str, *pages: str) -> bool:
    return find(f"{{name: r, match: {match}, tags: t}}", *pages) is not None


def test_a_finding_has_rule_version_reason_tags_and_title() -> None:
    finding = find(
        r"{name: bill, match: {any: [Bill, {regex: 'No (?P<no>\d+)'}]}, tags: [b, c d], title: 'Bill {no}'}",
        "page one",
        "the bill, No 12",
    )
    assert finding is not None
    assert finding.version.startswith("v1+")
    assert len(finding.version) == len("v1+") + 12
    assert finding == Finding("bill", finding.version, "literal 'Bill' on page 2", ("b", "c d"), "Bill 12")


def test_a_title_that_cannot_be_filled_is_none() -> None:
    finding = find(r"{name: bill, match: {any: [Bill, {regex: 'No (?P<no>\d+)'}]}, title: 'Bill {no}'}", "the bill")
    assert finding is not None
    assert finding.title is None


def test_a_reason_quotes_the_pattern_and_not_the_document() -> None:
    finding = find(r"{name: r, match: {regex: 'secret \w+'}, tags: t}", "secret BIRTHDAY")
    assert finding is not None
    assert finding.reason == r"regex 'secret \w+' on page 1"


def test_match_types_combine() -> None:
    assert matches("word", "a Word")
    assert matches("{literal: word}", "words")
    assert not matches("{literal: word, whole_word: true}", "words")
    assert matches("{any: [x, word]}", "words")
    assert not matches("{whole_word: true, any: [x, word]}", "words")
    assert matches("{whole_word: true, any: [x, {literal: word, whole_word: false}]}", "words")
    assert not matches("{case_sensitive: true, all: [word]}", "Word")
    assert matches("{all: [one, {any: [two, three]}], none: [four]}", "three one")
    assert not matches("{all: [one, {any: [two, three]}], none: [four]}", "three one four")
    assert matches("{literal: one, regex: 't.o'}", "one two")
    assert not matches("{literal: one, regex: 't.o'}", "one")
    assert matches("{all: [one, two]}", "two", "one")


def test_first_pages_bounds_what_is_looked_at() -> None:
    assert find("{name: r, match: word, tags: t, first_pages: 1}", "", "word") is None
    assert find("{name: r, match: word, tags: t, first_pages: 2}", "", "word") is not None


def test_names_every_mistake_at_its_line() -> None:
    text = r"""version: 1.5
rulez: 1
rules:
  - name: bad name
    match: {regex: "("}
    tags: [no, "a "]
    titel: x
  - name: a
    match:
      any:
        - {litteral: x}
        - {regex: "a*"}
        - {regex: "b", whole_word: true}
        - 2024
        - ""
    title: "x {y.z}"
  - name: a
    match: {}
    tags: []
  - name: b
    match: {none: [{regex: '(?P<q>x)'}]}
    title: "{q}"
  - {name: c, match: x}
  - {name: d, tags: x}
  - {name: e, enabled: false}
  - 7
"""
    assert problems(text) == [
        "tax.yaml:1: version: must be text; put it in quotes",
        "tax.yaml:2: rulez: is unknown, did you mean rules?",
        "tax.yaml:4: rules[0].name: must be at most 63 letters, digits, and _ . - after the first",
        "tax.yaml:5: rules[0].match.regex: is not a regular expression: "
        "missing ), unterminated subpattern at position 0",
        "tax.yaml:6: rules[0].tags[0]: must be text; put it in quotes",
        "tax.yaml:6: rules[0].tags[1]: must be at most 63 letters, digits, spaces and _ . : / & + -, "
        "none of them outside",
        "tax.yaml:7: rules[0].titel: is unknown, did you mean title?",
        "tax.yaml:11: rules[1].match.any[0].litteral: is unknown, did you mean literal?",
        "tax.yaml:12: rules[1].match.any[1].regex: matches empty text, and so every document: "
        "let it ask for at least one character",
        r"tax.yaml:13: rules[1].match.any[2]: whole_word is for literals: write \b at the ends of the regex",
        "tax.yaml:14: rules[1].match.any[3]: must hold names and values",
        "tax.yaml:15: rules[1].match.any[4].literal: must hold something to look for",
        "tax.yaml:16: rules[1].title: has a lone brace at character 3: write {name}, or double it",
        "tax.yaml:17: rules[2].name: another rule above is named a too",
        "tax.yaml:18: rules[2].match: needs one of literal, regex, any, all, none",
        "tax.yaml:19: rules[2].tags: must not be empty",
        "tax.yaml:20: rules[3]: title uses {q}, but no regex of the rule (outside of none) has such a group",
        "tax.yaml:23: rules[4]: needs tags or title, or it would do nothing",
        "tax.yaml:24: rules[5]: needs match",
        "tax.yaml:26: rules[7]: must hold names and values",
    ]


def test_an_empty_file_has_no_rules() -> None:
    file = read(b"# nothing yet\n", "tax.yaml", TaxonomyRule)
    assert not file.rules
    assert not file.problems
