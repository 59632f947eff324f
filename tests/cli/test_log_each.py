"""Many lines in one call: what is written is what a call for each would write."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from loguru import logger

from batchproc import log

LINES: list[log.Line] = [
    ("completed after 0.03 s", {"job_id": 7, "kind": "ocr", "attempt": 1}),
    ("a {brace}, <red>markup</red> and 100 %", {"job_id": 8, "tenant": "acme"}),
    ("two\nlines \x1b[31m", {"note": "also\nforged"}),
    ("postgresql://me:kQ7-geheim@host/db", {"password": "kQ7-geheim", "token_count": 3}),
]
_TIME = re.compile(r'^\S+ \S+ |"time": "[^"]*", ')


@pytest.fixture(autouse=True)
def _restored_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level
    logger.remove()
    logger.configure(extra={}, patcher=lambda record: None)


def written(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().splitlines()


@pytest.mark.parametrize("form", ["human", "json"])
def test_each_line_is_as_if_it_had_been_written_alone(tmp_path: Path, form: Literal["human", "json"]) -> None:
    log.setup("info", form, tmp_path / "together", context={"slot": 3}, stderr=False)
    log.each(lambda: LINES)
    log.setup("info", form, tmp_path / "alone", context={"slot": 3}, stderr=False)
    for line in LINES:
        log.each([line].copy)

    together, alone = written(tmp_path, "together"), written(tmp_path, "alone")

    assert len(together) == len(LINES)
    assert [_TIME.sub("", line) for line in together] == [_TIME.sub("", line) for line in alone]
    assert "geheim" not in "".join(together)
    if form == "json":
        shown = json.loads(together[0])
        assert (shown["message"], shown["job_id"], shown["slot"]) == ("completed after 0.03 s", 7, 3)
        assert shown["logger"] == __name__
    else:
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info ", line) for line in together)


def test_nothing_is_written_of_nothing_and_what_nobody_reads_is_not_even_made(tmp_path: Path) -> None:
    made: list[list[log.Line]] = []

    def told(*lines: log.Line) -> list[log.Line]:
        made.append(list(lines))
        return made[-1]

    log.setup("warning", "human", tmp_path / "log", stderr=False)
    log.each(lambda: told(*LINES))
    log.setup("info", "human", tmp_path / "log", stderr=False)
    log.each(told)

    assert (made, written(tmp_path, "log")) == ([[]], [])
