"""Whatever a handler gives: what is stored fits, and PostgreSQL can hold it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.limits import (
    CODE,
    DETAIL_CHARACTERS,
    RESULT_BYTES,
    Cleaner,
    ResultTooLarge,
    bounded_json,
    bounded_text,
    clean_text,
    clean_value,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)


def storable(text: str) -> bool:
    return "\0" not in text and text.encode("utf-8", "ignore").decode() == text


@given(ANY_TEXT)
def test_cleaning_takes_out_and_counts_what_cannot_be_stored(text: str) -> None:
    cleaned, removed = clean_text(text)
    assert storable(cleaned)
    assert len(cleaned) + removed == len(text)
    assert cleaned == "".join(character for character in text if storable(character))


def test_a_character_outside_the_basic_plane_is_no_pair_of_surrogates() -> None:
    assert clean_text("a\0b\ud800c😀") == ("abc😀", 2)


@given(VALUES)
def test_a_clean_value_is_stored_as_it_is(value: Any) -> None:
    cleaned = clean_value(value)
    assert all(storable(text) for text in texts_of(cleaned))
    assert clean_value(cleaned) == cleaned
    if all(storable(text) for text in texts_of(value)):
        assert cleaned == value


def test_bytes_are_the_text_they_are_and_all_that_is_taken_out_is_counted() -> None:
    cleaner = Cleaner()
    assert cleaner.value({"a\0": [b"x\xff\0y", "\ud800"], "b": ("c", {"d"})}) == {"a": ["xy", ""], "b": ["c", ["d"]]}
    assert cleaner.stripped == 4


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts_of(part)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_cleaning_makes_tuples_lists_and_every_key_a_text() -> None:
    assert clean_value({1: ("a\0", {"k\ud8ff": None})}) == {"1": ["a", {"k": None}]}


@given(st.dictionaries(ANY_TEXT, VALUES, max_size=3))
def test_a_bounded_object_is_ascii_and_means_the_same(value: dict[str, Any]) -> None:
    stored = bounded_json(json.dumps(value))
    assert stored.isascii()
    assert "\\u0000" not in stored.replace("\\\\", "")
    assert json.loads(stored) == clean_value(value)


@pytest.mark.parametrize(
    "text", ["[]", "null", '"x"', "3", "", "{", '{"a": NaN}', '{"a": [-Infinity]}', '{"a": 1e999}']
)
def test_what_is_no_plain_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its texts are json's own
        bounded_json(text)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_a_value_error_like_everything_else(opening: str) -> None:
    deep = '{"a":' + opening * 20_000 + "1" + {"[": "]", '{"a":': "}"}[opening] * 20_000 + "}"
    with pytest.raises(ValueError, match="nested too deeply"):
        bounded_json(deep)


def test_a_hundred_levels_are_stored() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"a": [value]}
    assert json.loads(bounded_json(json.dumps(value))) == value


def test_a_result_is_64_kilobytes_at_most() -> None:
    fits = json.dumps({"a": "x" * (RESULT_BYTES - len('{"a": ""}'))})
    assert len(bounded_json(fits)) == RESULT_BYTES
    with pytest.raises(ResultTooLarge, match="65537 bytes"):
        bounded_json(fits.replace("x", "xx", 1))
    with pytest.raises(ResultTooLarge):
        bounded_json(json.dumps({"a": "\u20ac" * (RESULT_BYTES // 6 + 1)}))


@given(ANY_TEXT, st.integers(1, 40))
def test_a_bounded_text_is_clean_and_short_and_shows_where_it_was_cut(text: str, limit: int) -> None:
    bounded = bounded_text(text, limit)
    cleaned, _ = clean_text(text)
    assert bounded is not None
    if len(cleaned) <= limit:
        assert bounded == cleaned
    else:
        assert bounded == cleaned[: limit - 1] + "…"
        assert len(bounded) == limit


def test_no_text_stays_none() -> None:
    assert bounded_text(None, DETAIL_CHARACTERS) is None


@pytest.mark.parametrize("code", ["timeout", "a", "x9_", "a" * 63])
def test_a_code_is_lower_case_snake_case(code: str) -> None:
    assert CODE.match(code)


@pytest.mark.parametrize("code", ["", "Timeout", "9a", "_a", "a-b", "a b", "a" * 64, "timeout\n", "tímeout"])
def test_what_is_no_code_does_not_pass_for_one(code: str) -> None:
    assert not CODE.match(code)
