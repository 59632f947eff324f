"""Settings that are read again: what takes effect at once, and what is named as waiting for the next start."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from batchproc.core.errors import UsageError
from batchproc.engine.reloading import Reloading, flat
from batchproc.settings import Settings
from tests.engine.running import Bench
from tests.faults.command import Run, started, started_run
from tests.waiting import wait_until


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    heard: list[str] = []
    sink = logger.add(lambda line: heard.append(str(line).strip()), format="{level} {message}")
    yield heard
    logger.remove(sink)


class Reread:
    """Reloading of two settings, with what they were changed to."""

    def __init__(self, before: Settings) -> None:
        self.now: Settings | Exception = before
        self.taken: list[Any] = []
        self.reloading = Reloading(before, self._read, {"pool.nice": self._take, "run.accept_codes": self._take})

    def _read(self) -> Settings:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    def _take(self, changed: Settings) -> None:
        if changed.pool.nice == 19:
            raise UsageError("as nice as that")
        self.taken.append((changed.pool.nice, changed.run.accept_codes))

    def reload(self, now: Settings | Exception) -> None:
        self.now = now
        self.reloading.reload()


def test_what_can_be_taken_over_is_and_the_rest_is_named(lines: list[str]) -> None:
    reread = Reread(settings())
    reread.reload(settings(pool={"nice": 3, "workers": 4}, ocr={"dpi": 200}, kinds={"ocr": {"timeout": 9.0}}))
    assert reread.taken == [(3, ())]
    assert lines == [
        "INFO the settings were read again, pool.nice changed",
        "WARNING from the next start on only: kinds.ocr.timeout, ocr.dpi, pool.workers",
    ]


def test_nothing_changed_and_what_was_changed_back(lines: list[str]) -> None:
    reread = Reread(settings())
    for now in (settings(pool={"nice": 3}), settings(pool={"nice": 3}), settings()):
        reread.reload(now)
    assert reread.taken == [(3, ()), (settings().pool.nice, ())]
    assert [line.rpartition(", ")[2] for line in lines] == ["pool.nice changed", "nothing changed", "pool.nice changed"]


def test_what_waits_for_a_start_is_named_each_time_until_it_is_as_before(lines: list[str]) -> None:
    reread = Reread(settings())
    for now in (settings(ocr={"dpi": 200}), settings(ocr={"dpi": 200}), settings()):
        reread.reload(now)
    assert [line for line in lines if line.startswith("WARNING")] == [
        "WARNING from the next start on only: ocr.dpi"
    ] * 2


def test_sections_of_other_commands_are_no_matter_of_a_node(lines: list[str]) -> None:
    Reread(settings()).reload(settings(retention={"revisions": 7}, storage={"min_free": 1}))
    assert lines == ["INFO the settings were read again, nothing changed"]


def test_settings_that_cannot_be_used_change_nothing(lines: list[str]) -> None:
    reread = Reread(settings())
    reread.reload(UsageError("a.yaml:1: pool.nice: must be at most 19\na.yaml:2: what is this"))
    assert reread.taken == []
    assert len(lines) == 2
    assert all(line.startswith("ERROR the settings could not be read again, and stay") for line in lines)


def test_one_that_refuses_keeps_none_of_the_others(lines: list[str]) -> None:
    reread = Reread(settings())
    reread.reload(settings(pool={"nice": 19}, run={"accept_codes": ["blank"]}))
    assert "ERROR pool.nice stays as it was: as nice as that" in lines
    assert "INFO the settings were read again, nothing changed" in lines, "the other one takes the same settings"
    reread.reload(settings(run={"accept_codes": ["blank"]}))
    assert reread.taken == [(settings().pool.nice, ("blank",))]


def test_no_secret_is_in_what_is_compared() -> None:
    url = "postgresql://me:sesame@host/db"
    assert "sesame" not in repr(flat(settings(database={"url": url})))


# -- the command


def rewritten(run: Run, conf: Path, content: dict[str, Any], line: str) -> None:
    """Writes the settings, sends SIGHUP and waits for that line of the log, once more than it was there."""
    before = run.output()[1].count(line)
    conf.write_text(json.dumps(content))
    run.send(signal.SIGHUP)
    wait_until(lambda: run.output()[1].count(line) > before, 15, line)


def test_a_service_takes_over_what_it_can_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    content: dict[str, Any] = {"handlers": ["tests.engine.job_handlers"], "dispatch": {"poll_interval": 0.2}}
    conf.write_text(json.dumps(content))
    words = [sys.executable, "-P", "-m", "batchproc", "--conf", str(conf), "--database", bench.url]
    tenant = bench.tenant("acme")
    with started([*words, "run", "--forever", "--workers", "1"]) as run:
        wait_until(lambda: bench.rows("select from batchproc.runs"), 30, "it works")
        changed = {**content, "run": {"accept_codes": ["no_luck"]}, "ocr": {"dpi": 200}}
        rewritten(run, conf, changed, "the settings were read again, run.accept_codes changed")
        wait_until(lambda: "from the next start on only: ocr.dpi" in run.output()[1], 15, "the line after it")
        unknown = "run.accept_codes: no kind declares the failure code no_luk: no_luck is the nearest"
        assert unknown not in run.output()[1]
        misspelt = {**changed, "run": {"accept_codes": ["no_luk"]}}
        rewritten(run, conf, misspelt, "the settings were read again, run.accept_codes changed")
        wait_until(lambda: unknown in run.output()[1], 15, "it is told as at a start")
        rewritten(run, conf, changed, "the settings were read again, run.accept_codes changed")
        rewritten(run, conf, {**changed, "pool": {"nice": 99}}, "could not be read again, and stay as they were")
        rewritten(run, conf, {**changed, "logging": {"level": "warning"}}, "from the next start on only: ocr.dpi")
        failed = bench.enqueue(tenant, "t_declared")
        wait_until(lambda: bench.job(failed)["state"] == "discarded", 20, "it still works")
        assert "no_luck after" not in run.output()[1], "a line for each job is one of level info"
        assert run.stop() == 0, "the code is accepted now"


def test_without_for_ever_a_hangup_is_a_stop(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    bench.enqueue(bench.tenant("acme"), "t_until", {"file": str(tmp_path / "gate"), "started": str(begun)})
    with started_run(bench, "--workers", "1") as run:
        wait_until(begun.exists, 30, "it works")
        run.send(signal.SIGHUP)
        assert run.wait(20) == 0
