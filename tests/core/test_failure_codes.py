"""A code that nobody declares is told from those that are, with the one that was probably meant."""

from __future__ import annotations

import pytest

from batchproc.core.failure_codes import RESERVED, known_codes, unknown_accepted, unknown_code
from batchproc.core.job import KindSpec

SCAN = KindSpec("scan", failure_codes=frozenset({"encrypted", "too_large"}))
STAMP = KindSpec("stamp", failure_codes=frozenset({"no_ink"}))


def test_known_are_the_reserved_codes_and_those_of_all_kinds() -> None:
    assert known_codes([SCAN, STAMP]) == RESERVED | {"encrypted", "too_large", "no_ink"}
    assert known_codes([]) == RESERVED


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("encrypted", None),
        ("stalled", None),
        ("encryptd", "no kind declares the failure code encryptd: encrypted is the nearest"),
        ("qqqqqq", "no kind declares the failure code qqqqqq"),
    ],
)
def test_the_nearest_code_is_named(code: str, told: str | None) -> None:
    assert unknown_code(code, known_codes([SCAN])) == told


def test_each_accepted_code_that_nobody_declares_is_told_of() -> None:
    assert unknown_accepted(("encrypted", "no_inc", "poison"), [SCAN, STAMP]) == (
        "run.accept_codes: no kind declares the failure code no_inc: no_ink is the nearest",
    )
    assert unknown_accepted((), []) == ()
