"""One of a thing is not called as many of them are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import batchproc
from batchproc.core.counted import counted, waiting

PACKAGE = Path(batchproc.__file__).parent
_PLURAL = re.compile(r"\{[^{}\"']+\} (?:due )?(?:jobs|documents|files|tenants|runs|campaigns)\b(?! a )")
_SPOKEN = re.compile(r"click\.echo\(|status\.show\(|told=|text = ")


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1000, "1,000 jobs"), (12345, "12,345 jobs")]
)
def test_a_number_goes_with_its_word(number: int, told: str) -> None:
    assert counted(number, "job") == told


def test_what_waits_agrees_with_its_number() -> None:
    assert [waiting(1), waiting(2), waiting(1, "due")] == ["1 job waits", "2 jobs wait", "1 due job waits"]


def test_no_command_says_1_jobs() -> None:
    """Whatever a command prints of a number that may be 1 is told by ``counted``."""
    found = [
        f"{path.name}:{number}"
        for path in sorted((PACKAGE / "cli").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _SPOKEN.search(line) and _PLURAL.search(line)
    ]
    assert found == []
