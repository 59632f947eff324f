"""What a monitoring system is told of the nights, and the line that it reads."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batchproc.ops.status_check import Level, judge, unknown
from batchproc.queue.inspection_night import Nights
from batchproc.queue.nights import Kept

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
AGE = 26 * 3600.0
WELL = Nights(
    now=NOW,
    good_run=12,
    good_at=NOW - timedelta(hours=2),
    good_code=0,
    last_run=12,
    last_started=NOW - timedelta(hours=10),
    last_at=NOW - timedelta(hours=2),
    last_code=0,
    going=0,
    waiting=3,
    waiting_since=NOW - timedelta(minutes=1),
    braked=[],
)
LINE = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN) - [^|\n]+( \| \w+=\d+s?(;\d*)*( \w+=\d+s?(;\d*)*)*)?")


def test_a_good_night() -> None:
    verdict = judge(WELL, AGE)
    assert verdict.level is Level.OK
    assert verdict.line(AGE) == (
        "OK - run 12 ended 2 h 00 min ago with 0; 3 due jobs wait"
        " | success_age=7200s;;93600 longest_wait=60s;93600 waiting=3 without_handler=0 kept=0"
    )


def test_what_somebody_keeps_back_is_told_and_no_fault() -> None:
    kept = (
        Kept("paused", None, "ocr", None, "moved", 7),
        Kept("limit", "acme", None, None, None, 3),
        Kept("paused", None, None, 9, None, 2),
    )
    verdict = judge(replace(WELL, kept=kept, kept_jobs=10), AGE)
    assert verdict.level is Level.OK
    assert verdict.text.endswith(
        "; 10 jobs wait for somebody:"
        " kind ocr is paused (7), tenant acme has a limit of 0 (3), campaign 9 is paused (2)"
    )
    assert verdict.line(AGE).endswith(" waiting=3 without_handler=0 kept=10")
    assert verdict.plain()["kept_by"][0] == kept[0]._asdict()
    many = judge(replace(WELL, kept=kept * 3, kept_jobs=30, last_code=1), AGE)
    assert (many.level, many.text.count("has a limit"), many.text[-6:]) == (Level.WARNING, 2, "4 more")
    thousands = judge(replace(WELL, kept=kept * 3, kept_more=9991, kept_jobs=20_000), AGE)
    assert thousands.text.endswith(", 9,995 more")
    assert thousands.plain()["kept_by_more"] == 9991


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"good_at": NOW - timedelta(hours=27)}, Level.CRITICAL, "no run has ended well for 27 h 00 min"),
        ({"good_at": NOW - timedelta(hours=27), "going": 1}, Level.OK, "1 run goes on"),
        ({"good_run": None, "good_at": None, "last_run": None, "last_code": None}, Level.CRITICAL, "ever ended well"),
        ({"last_run": 13, "last_code": 3}, Level.CRITICAL, "run 13 ended with 3"),
        ({"last_run": 13, "last_at": None, "last_code": None}, Level.CRITICAL, "run 13 was lost with its node"),
        ({"last_code": 1, "good_code": 1}, Level.WARNING, "run 12 ended with 1"),
        ({"braked": ["ocr (source_missing)"]}, Level.CRITICAL, "the brake has paused ocr (source_missing)"),
        ({"waiting_since": NOW - timedelta(hours=30)}, Level.WARNING, "a due job waits for 30 h 00 min"),
        (
            {"without_handler": {"slow": 2, "mail": 1}},
            Level.WARNING,
            "a handler for what waits: 1 mail job, 2 slow jobs",
        ),
        ({"waiting_since": None, "waiting": 0}, Level.OK, "0 due jobs wait"),
        ({"waiting_since": None, "waiting": 1}, Level.OK, "1 due job waits"),
    ],
)
def test_what_is_wrong_is_named_with_its_level(changes: dict[str, Any], level: Level, text: str) -> None:
    verdict = judge(replace(WELL, **changes), AGE)
    assert verdict.level is level
    assert text in verdict.text
    assert LINE.fullmatch(verdict.line(AGE))


def test_the_worst_comes_first_and_counts() -> None:
    verdict = judge(replace(WELL, last_code=1, braked=["ocr (poison)"]), AGE)
    assert verdict.level is Level.CRITICAL
    assert verdict.text.index("brake") < verdict.text.index("ended with 1")


def test_what_nobody_can_tell_is_unknown_and_one_line() -> None:
    verdict = unknown("cannot connect:\n  refused | by nobody")
    assert (verdict.level, verdict.line(AGE)) == (Level.UNKNOWN, "UNKNOWN - cannot connect: refused / by nobody")
    assert verdict.plain() == {"status": "unknown", "code": 3, "text": "cannot connect: refused / by nobody"}
