"""What is listed or shown fits a terminal of 80 columns, whole where it is told in sentences."""

from __future__ import annotations

import sys

import click
import pytest
from rich.cells import cell_len

from batchproc.engine.node import RunOptions
from tests.cli.test_commands import Command, batchproc
from tests.cli.test_status import bench
from tests.engine.running import Bench
from tests.queue.helpers import CAMPAIGNS, retry

__all__ = ["batchproc", "bench"]

SHOWN = [
    "jobs list", "jobs show 1", "documents list", "documents show 1", "tenants list",
    "kinds list", "kinds show ocr", "campaigns list", "campaigns show 1", "usage", "report", "report --list", "status",
    "storage list", "doctor", "why 1",
]  # fmt: skip


def show_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)


@pytest.fixture
def archive(bench: Bench) -> None:
    """A document of a long path, and of a tenant with a long name a job that was given up on twice, after a retry."""
    tenant = bench.tenant("stadtwerke-weimar-nord")
    campaign = CAMPAIGNS.begin(bench.connection, "reprocess --tenant stadtwerke-weimar-nord --status partial")
    bench.connection.execute(
        "insert into batchproc.documents (tenant_id, root, path, sha256, bytes, title)"
        " values (%s, '/srv/archive', %s, sha256('x'), 1, %s)",
        [tenant, b"2026/11/" + b"a-very-long-name-of-a-scan" * 3, "A title of " + "many words " * 9],
    )
    job = bench.enqueue(tenant, "t_declared", document_id=1, campaign_id=campaign)
    bench.run(RunOptions(workers=1))
    bench.connection.execute(
        "update batchproc.job_attempts set detail = %s", ["the detail of a failure " * 9 + "and its end"]
    )
    retry(bench.connection, [job])
    bench.run(RunOptions(workers=1))


@pytest.mark.usefixtures("archive")
def test_what_is_shown_fits_80_columns(batchproc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    show_on_a_terminal(monkeypatch)
    wide: list[tuple[str, str]] = []
    for command in SHOWN:
        ran = batchproc(*command.split())
        assert ran.out + ran.err, command
        lines = click.unstyle(ran.out).splitlines()
        # A single word, such as a hash, is not broken: it is to be copied.
        wide += [(command, line) for line in lines if cell_len(line) > 80 and len(line.split()) > 2]
    assert wide == []


@pytest.mark.usefixtures("archive")
def test_the_attempts_of_a_job_are_told_whole_and_each_has_a_number_of_its_own(
    batchproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    show_on_a_terminal(monkeypatch)
    shown = batchproc("jobs", "show", "1").out
    assert "and its end" in shown
    table = shown[shown.index("no  attempt") :].splitlines()
    assert [line.split()[:2] for line in table[1:3]] == [["1", "1"], ["2", "1"]]
    assert any(line.startswith(" 2: Failure at ") and line.endswith(": page 3 of 7") for line in table)
