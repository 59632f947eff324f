"""Workflow rules as they are written in a file, and when they fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from batchproc.handlers.rules.reading import read
from batchproc.handlers.rules.workflow import Enqueue, Facts, Firing, WorkflowRule, apply

FACTS = Facts(
    document_id=7,
    tags=frozenset({"invoice", "acme"}),
    title="Invoice 4711",
    file_name="Rechnung_März.PDF",
    media_type="application/pdf",
    language="auto+eng+deu",
    page_count=3,
    external_id="X-1",
)


def fire(rule: str, facts: Facts = FACTS) -> Firing | None:
    """What the one rule, written as a flow mapping, does with a document."""
    file = read(f"version: v1\nrules:\n  - {rule}\n".encode(), "flow.yaml", WorkflowRule)
    assert not file.problems
    return apply(file.rules[0], facts)


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("{}", "when always"),
        ("{tags: invoice}", "when tags"),
        ("{tags: [invoice, other]}", None),
        ("{tags: {any: [other, acme]}}", "when tags"),
        ("{tags: {any: other}}", None),
        ("{tags: {none: other}}", "when tags"),
        ("{tags: {all: invoice, none: acme}}", None),
        ("{title: invoice}", "when literal 'invoice' in the title"),
        ("{title: {regex: '^\\d'}}", None),
        ("{file_name: 'rechnung_*.pdf'}", "when file_name"),
        ("{file_name: ['*.tif', '*.pdf']}", "when file_name"),
        ("{file_name: '*.tif'}", None),
        ("{media_type: 'application/*'}", "when media_type"),
        ("{media_type: image/*}", None),
        ("{language: deu}", "when language"),
        ("{language: fra}", None),
        ("{language: auto}", None),
        ("{page_count: {min: 3, max: 3}}", "when page_count"),
        ("{page_count: {min: 4}}", None),
        ("{page_count: {max: 2}}", None),
        ("{external_id: true}", "when external_id"),
        ("{external_id: false}", None),
        ("{tags: acme, title: invoice, page_count: {max: 9}}", "when tags, literal 'invoice' in the title, page_count"),
        ("{tags: acme, title: letter}", None),
    ],
)
def test_conditions(when: str, reason: str | None) -> None:
    firing = fire(f"{{name: r, when: {when}, do: [{{tag: t}}]}}")
    assert (firing and firing.reason) == reason


@pytest.mark.parametrize(
    ("when", "lacks"),
    [
        ("{title: invoice}", {"title": None}),
        ("{media_type: '*'}", {"media_type": None}),
        ("{language: '*'}", {"language": None}),
        ("{language: '*'}", {"language": "auto"}),
        ("{page_count: {}}", {"page_count": None}),
        ("{external_id: true}", {"external_id": None}),
    ],
)
def test_what_is_not_known_meets_no_condition(when: str, lacks: dict[str, Any]) -> None:
    rule = f"{{name: r, when: {when}, do: [{{tag: t}}]}}"
    assert fire(rule) is not None
    assert fire(rule, replace(FACTS, **lacks)) is None


def test_actions() -> None:
    firing = fire(
        r"{name: r, when: {title: {regex: 'Invoice (?P<number>\d+)'}}, do: ["
        "{tag: [a, b]}, {tag: [b, c]},"
        "{set_field: {name: number, value: '{number} of {file_name}'}},"
        "{set_field: {name: number, value: second}},"
        "{set_field: {name: pages, value: '{page_count}'}},"
        "{enqueue: {kind: thumbnail, args: {size: 256, deep: [1, {x: null}]}}}]}"
    )
    assert firing is not None
    assert firing.tags == ("a", "b", "c")
    assert firing.fields == {"number": "4711 of Rechnung_März.PDF", "pages": "3"}
    assert firing.jobs == (Enqueue(kind="thumbnail", args={"size": 256, "deep": [1, {"x": None}]}),)


def test_a_field_whose_value_is_not_known_is_left_alone() -> None:
    rule = "{name: r, when: {}, do: [{set_field: {name: ref, value: 'ref {external_id}'}}]}"
    firing = fire(rule, replace(FACTS, external_id=None))
    assert firing is not None
    assert firing.fields == {}


def test_names_every_mistake_at_its_line() -> None:
    text = b"""version: 2024-05-01
rules:
  - name: a
    when: {tag: x, page_count: {min: 3, max: 1}, external_id: 1, title: {regex: "(?P<n>x)"}}
    do:
      - tag: x
        enqueue: {kind: ocr}
      - enqueue: {kind: workflow}
      - enqueue: {kind: classify, args: {trigger: upload}}
      - enqueue: {kind: ocr, args: {since: 2024-05-01}}
      - enqueue: {kind: ocr, args: {factor: .nan}}
      - set_field: {name: pdf_title, value: "{n} {m}"}
      - set_field: {name: Number, value: "{n"}
  - name: c
    when: {}
    do: [{set_field: {name: x, value: "{m}"}}]
  - name: d
    when: {}
  - name: e
    do: [{tag: x}]
  - {name: f, enabled: false}
"""
    assert list(read(text, "flow.yaml", WorkflowRule).problems) == [
        "flow.yaml:1: version: must be text; put it in quotes",
        "flow.yaml:4: rules[0].when.page_count: min must not be more than max",
        "flow.yaml:4: rules[0].when.external_id: must be true or false",
        "flow.yaml:4: rules[0].when.tag: is unknown, did you mean tags?",
        "flow.yaml:6: rules[0].do[0]: needs exactly one of tag, set_field, enqueue",
        "flow.yaml:8: rules[0].do[1].enqueue: must not lead to workflow again: "
        "neither kind workflow nor an arg named trigger",
        "flow.yaml:9: rules[0].do[2].enqueue: must not lead to workflow again: "
        "neither kind workflow nor an arg named trigger",
        "flow.yaml:10: rules[0].do[3].enqueue.args.since: must be a JSON value; put dates in quotes",
        "flow.yaml:11: rules[0].do[4].enqueue: args must not hold NaN or an infinity",
        "flow.yaml:12: rules[0].do[5].set_field.name: is written by batchproc itself: "
        "choose a name that does not begin with pdf_",
        "flow.yaml:13: rules[0].do[6].set_field.name: must be at most 63 lower-case letters, digits and _, "
        "a letter first",
        "flow.yaml:13: rules[0].do[6].set_field.value: has a lone brace at character 1: write {name}, or double it",
        "flow.yaml:14: rules[1]: a value uses {m}, which is neither a group of its title regex nor one of "
        "document_id, external_id, file_name, language, media_type, page_count, title",
        "flow.yaml:17: rules[2]: needs do",
        "flow.yaml:19: rules[3]: needs when; {} means always",
    ]


def test_a_condition_left_empty_does_not_mean_always() -> None:
    text = b"version: 1\nrules:\n  - name: a\n    when:\n      tags:\n      title: x\n    do:\n      - tag:\n"
    assert list(read(text, "flow.yaml", WorkflowRule).problems)[:2] == [
        "flow.yaml:5: rules[0].when.tags: has no value: give one, or leave the key out",
        "flow.yaml:8: rules[0].do[0].tag: has no value: give one, or leave the key out",
    ]
    kept = b"version: 1\nrules:\n  - {name: a, when: {}, do: [{enqueue: {kind: k, args: {x: null}}}]}\n"
    assert not read(kept, "flow.yaml", WorkflowRule).problems
