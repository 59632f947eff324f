"""What a campaign made of the texts before it, summed up from readings and put into lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.documents.readings import Reading
from batchproc.ops.campaign_result import MOST_CHANGED, SAME, STEPS, collected, lines, plain

READ = Reading(
    document_id=1,
    tenant_id=1,
    tenant="acme",
    path=b"a.pdf",
    before_revision=1,
    before_confidence=80.0,
    before_failed=0,
    before_words=100,
    comparable=True,
    revision_id=2,
    confidence=80.0,
    failed_pages=0,
    page_count=2,
    verdict="newest",
    current=True,
    seconds=1.5,
    words_gained=0,
    words_lost=0,
)
FIRST = replace(
    READ, before_revision=None, before_confidence=None, before_failed=None, before_words=0, words_gained=40,
    verdict="first", comparable=False,
)  # fmt: skip


def test_a_campaign_that_read_nothing_has_nothing_to_tell() -> None:
    result = collected([])
    assert lines(result) == []
    assert (plain(result)["documents"], result.is_pilot) == (0, False)


def test_confidences_that_look_the_same_are_the_same() -> None:
    changes = [(80.0, 80.04), (80.0, 80.06), (80.0, 75.0), (None, 80.0), (80.0, None), (99.9, 100.0)]
    readings = [replace(READ, before_confidence=before, confidence=after) for before, after in changes]
    found = collected(readings).confidences
    assert (found.up, found.down, found.same, found.unknown) == (2, 1, 1, 2)
    assert [found.points_up, found.points_down] == pytest.approx([0.2, 5.0])
    assert found.changes == [0, 1, 0, 0, 1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        (80.0, 70.0, 0), (80.0, 70.1, 1), (80.0, 75.0, 1), (80.0, 75.1, 2), (80.0, 78.0, 2), (80.0, 78.1, 3),
        (80.0, 79.9, 3), (80.0, 80.0, 4), (80.0, 80.04, 4), (80.0, 80.1, 5), (80.0, 81.9, 5), (80.0, 82.0, 6),
        (80.0, 85.0, 7), (80.0, 89.96, 8), (80.0, 100.0, 8), (0.0, 100.0, 8), (100.0, 0.0, 0),
    ],
)  # fmt: skip
def test_a_change_is_counted_by_how_much_it_is_and_whether_it_is_of_one_scale(
    before: float, after: float, place: int
) -> None:
    for comparable in (True, False):
        reading = replace(READ, before_confidence=before, confidence=after, comparable=comparable)
        found = collected([reading]).confidences
        one, none = (found.changes, found.changes_of_others)[:: 1 if comparable else -1]
        assert [i for i, count in enumerate(one) if count] == [place]
        assert not any(none)


def test_first_texts_are_compared_with_nothing() -> None:
    result = collected([FIRST, replace(READ, words_gained=3, words_lost=5, failed_pages=1)])
    assert (result.documents, result.compared, result.first_texts, result.first_words) == (2, 1, 1, 40)
    assert (result.words_before, result.words_gained, result.words_lost) == (100, 3, 5)
    assert result.confidences.measured == 1
    assert lines(result) == [
        "read          2 documents, 4 pages; 2 became current",
        "first texts   1 document, 40 words",
        "words         3 gained, 5 lost of 100",
        "confidence    up 0, down 0, same 1",
        "failed pages  0 before, 1 after",
    ]


def test_a_pilot_and_what_is_not_of_one_scale_say_so() -> None:
    pilots = [
        replace(READ, verdict="pilot", current=False, comparable=False, confidence=85.5),
        replace(READ, verdict="pilot", current=False),
    ]
    result = collected(pilots)
    assert result.is_pilot
    assert lines(result) == [
        "read          2 documents, 4 pages, as a pilot: none became current",
        "words         0 gained, 0 lost of 200",
        "confidence    up 1 (+5.5), down 0, same 1",
        "              1 of them by another engine or data: not one scale",
    ]


def test_what_is_current_no_more_is_told() -> None:
    result = collected([READ, replace(READ, current=False), replace(READ, verdict="not_better", current=False)])
    assert lines(result)[0] == "read          3 documents, 6 pages; 2 became current, 1 still are"
    assert plain(result)["verdicts"] == {"newest": 2, "not_better": 1}


def test_the_documents_that_changed_most_are_named_worst_first() -> None:
    readings = [
        replace(READ, document_id=number, words_lost=number % 30, words_gained=number % 7) for number in range(1, 91)
    ]
    result = collected([FIRST, *readings])
    lost = [(reading.words_lost, reading.document_id) for reading in result.most_lost]
    assert lost == sorted(((n % 30, n) for n in range(1, 91)), key=lambda one: (-one[0], one[1]))[:MOST_CHANGED]
    assert [reading.words_gained for reading in result.most_gained] == [6] * 10
    assert all(reading.before_revision is not None for reading in result.most_gained), "no first texts"
    assert collected([READ]).most_lost == []


CONFIDENCE = st.none() | st.floats(0, 100)
WORDS = st.integers(0, 10**12)
READINGS = st.builds(
    replace,
    st.sampled_from([READ, FIRST]),
    document_id=st.integers(1, 2**63 - 1),
    before_confidence=CONFIDENCE,
    confidence=CONFIDENCE,
    words_gained=WORDS,
    words_lost=WORDS,
    verdict=st.sampled_from(["newest", "pilot", "person", "restored", "reverted", "first"]),
    current=st.booleans(),
)


@given(st.lists(READINGS, max_size=30, unique_by=lambda reading: reading.document_id))
def test_sums_agree_and_lines_fit_a_screen(readings: list[Any]) -> None:
    result = collected(readings)
    found = result.confidences
    assert found.measured + found.unknown == result.compared == result.documents - result.first_texts
    assert (sum(found.changes), len(found.changes)) == (found.comparable, 2 * len(STEPS) + 3)
    every = [one + other for one, other in zip(found.changes, found.changes_of_others, strict=True)]
    assert (sum(every[:SAME]), every[SAME], sum(every[SAME + 1 :])) == (found.down, found.same, found.up)
    assert sum(result.verdicts.values()) == result.documents
    assert all(len(line) <= 80 for line in lines(result))
    assert json.loads(json.dumps(plain(result)))["words"]["gained"] == result.words_gained
