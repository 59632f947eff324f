"""Nights of an archive of three tenants, with broken documents and one that hangs.

The first night is cut off by its window, the next one finishes; of a third nobody hears. Everything that batchproc says
of them has to agree with the tables.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.engine.running import Bench, bench_on
from tests.faults.invariants import assert_left_alone, assert_sound
from tests.faults.left_behind import nothing_left_behind
from tests.night import archive, hanging_handlers
from tests.night.agreement import (
    assert_check_agrees,
    assert_json_agrees,
    assert_log_agrees,
    assert_report_agrees,
    assert_report_text_agrees,
    assert_status_agrees,
    assert_summary_agrees,
    assert_textfile_agrees,
    assert_usage_agrees,
)
from tests.night.desk import Desk
from tests.night.tables import RunFacts, facts_of, fates, left_by_kind

WORKERS = 2
GRACE = 3.0
LOG = "batchproc.log"
ACCEPTED = ("encrypted",)
SHOWN_TO = 0.5
"""Seconds: the log tells the end of a window to the whole second."""
TARDINESS = 3.0
"""Seconds after the end for what runs beside these tests; alone a run has left before it."""


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes:
        documents: in all.
        window: of the first night, in seconds.
        rate: at which documents may begin in it, per second: fast machines must not finish before it ends, either.
        patience: for the second night, in seconds.
        whole: with a third night, and all that can be said of the second.
    """

    documents: int
    window: float
    rate: int
    patience: float
    whole: bool


@pytest.fixture
def bench(database_url: str, tmp_path: Path) -> Iterator[Bench]:
    with nothing_left_behind():
        made = bench_on(database_url)
        try:
            yield made
            assert_sound(made.connection)
            assert_left_alone(made.connection)
        finally:
            made.connection.close()


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(
            Size(documents=24, window=9.0, rate=2, patience=90.0, whole=False),
            id="24 documents",
            marks=pytest.mark.timeout(240),
        ),
        pytest.param(
            Size(documents=300, window=45.0, rate=4, patience=300.0, whole=True),
            id="300 documents",
            marks=[pytest.mark.long, pytest.mark.timeout(480)],
        ),
    ],
)
def test_a_night_that_is_cut_off_and_one_that_finishes(bench: Bench, tmp_path: Path, size: Size) -> None:
    textfile = tmp_path / "collector" / "batchproc.prom"
    textfile.parent.mkdir()
    desk = _desk(bench, tmp_path, textfile)
    expected = dict(archive.draw(tmp_path / "archive", size.documents))
    _at_once([functools.partial(_import, bench, desk, tmp_path / "archive" / tenant) for tenant in archive.TENANTS])

    first = _night_that_is_cut_off(bench, _desk(bench, tmp_path, textfile, rate=f"{size.rate}/s"), size, tmp_path / LOG)
    assert_check_agrees(desk, bench, code=1)
    second = _night_that_finishes(bench, desk, size)
    assert fates(bench) == {document: (fate.status, fate.code, fate.pages) for document, fate in expected.items()}
    runs = [first, second]
    if size.whole:
        runs.append(_night_that_nobody_hears_of(bench, desk, tmp_path / "archive" / "acme" / "new.pdf"))

    assert_log_agrees((tmp_path / LOG).read_text("utf-8"), bench)
    assert_textfile_agrees(textfile, bench, runs)
    reported = [first, second] if size.whole else [first]
    _at_once(
        [
            *(functools.partial(assert_report_agrees, desk, run, tmp_path / f"{run.run_id}.html") for run in reported),
            lambda: assert_report_text_agrees(desk, second),
            lambda: assert_status_agrees(desk, bench),
            lambda: assert_check_agrees(desk, bench, code=runs[-1].exit_code),
            lambda: assert_usage_agrees(desk, bench),
        ]
    )


def _at_once(parts: Sequence[Callable[[], None]]) -> None:
    """Commands that are in nobody's way, two at a time: most of a command is its start."""
    with ThreadPoolExecutor(WORKERS) as pool:
        for part in [pool.submit(part) for part in parts]:
            part.result()


def _import(bench: Bench, desk: Desk, folder: Path) -> None:
    bench.tenant(folder.name)
    imported = desk.does("import", str(folder), "--tenant", folder.name, "--json").json
    assert (len(imported["documents"]), imported["rejected"]) == (len(list(folder.iterdir())), [])


def _desk(bench: Bench, folder: Path, textfile: Path, rate: str | None = None) -> Desk:
    ocr = {"stall_timeout": 4.0, "base": 0.1, "cap": 0.1} | ({"rate": rate} if rate else {})
    settings = {
        "handlers": [hanging_handlers.__name__],
        "pool": {"shutdown_grace": GRACE, "workers": WORKERS},
        "dispatch": {"poll_interval": 0.2, "lease": 10.0, "drain_wait": 30.0},
        "run": {"accept_codes": list(ACCEPTED)},
        "ocr": {
            "languages": ["eng"],
            "dpi": archive.DPI,
            "orientation": False,
            "bounds": {"max_pixels": archive.MAX_PIXELS},
        },
        "kinds": {"ocr": ocr},
        "logging": {"file": str(folder / LOG)},
        "metrics": {"textfile": str(textfile)},
    }
    return Desk(bench.url, folder / ("slow.yaml" if rate else "site.yaml"), settings)


def _night_that_is_cut_off(bench: Bench, desk: Desk, size: Size, log: Path) -> RunFacts:
    ended = desk.runs("--until", f"+{size.window:g}s", "--exclusive", deadline_seconds=size.window + 60)
    facts, left = facts_of(bench, 1), left_by_kind(bench)
    end = _end_of_window(log.read_text("utf-8"))
    sys.stdout.write(f"{ended.out}gone {ended.gone_at - end:+.1f} s from the end of its window of {size.window:g} s\n")
    assert ended.err == ""
    assert -GRACE - SHOWN_TO <= ended.gone_at - end <= SHOWN_TO + TARDINESS
    assert left["ocr"] > 0
    assert facts.counts["claimed"] > 0
    assert (ended.code, facts.exit_code) == (1, _exit_code(facts))
    assert_summary_agrees(ended.out, facts, left, ACCEPTED)
    assert bench.rows("select count(*) from batchproc.nodes") == [(0,)]
    return facts


def _night_that_finishes(bench: Bench, desk: Desk, size: Size) -> RunFacts:
    ended = desk.runs("--exclusive", "--json", deadline_seconds=size.patience)
    facts = facts_of(bench, 2)
    sys.stdout.write(ended.out)
    assert ended.err == ""
    assert left_by_kind(bench) == Counter()
    assert (ended.code, facts.exit_code) == (1, _exit_code(facts))
    assert_json_agrees(ended.json, facts, Counter(), WORKERS)
    assert (ended.json["window_ended"], ended.json["nights_left"]) == (False, None)
    return facts


def _night_that_nobody_hears_of(bench: Bench, desk: Desk, scan: Path) -> RunFacts:
    """All that comes of it is a code that is accepted."""
    archive.encrypted(scan, 7_777_777)
    desk.does("import", str(scan), "--tenant", "acme")
    ended = desk.runs(deadline_seconds=60)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    facts = facts_of(bench, 3)
    assert (facts.codes, facts.exit_code) == ({"encrypted": 1}, _exit_code(facts))
    return facts


def _end_of_window(log: str) -> float:
    """When the run said that it would be gone, in seconds since 1970."""
    found = re.search(r"this run is gone at (\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) ", log)
    assert found is not None, log
    return datetime.fromisoformat(found[1]).astimezone().timestamp()


def _exit_code(facts: RunFacts) -> int:
    """What the tables say that it has to be."""
    return 1 if facts.partial or facts.codes.keys() - set(ACCEPTED) else 0
