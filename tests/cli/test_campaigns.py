"""``campaigns`` as a person calls it: what it prints, its keys, and what it asks before it does much."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli.shared.tables import laid_out
from batchproc.database import connect
from batchproc.ops.campaigning import CampaignCancelled, Campaigning, Retried
from batchproc.ops.changing_jobs import Cancel
from batchproc.ops.reverting import Reverted, Reverting
from batchproc.queue import campaigns as campaign_statements
from batchproc.queue.campaign_listing import CampaignListing, Pace
from tests.cli.shell import ArchiveShell
from tests.handlers.running_job import Conn, add_document, add_tenant

ROW_KEYS = [
    "campaign_id",
    "state",
    "tenant",
    "kind",
    "documents",
    "done",
    "left",
    "cancelled",
    "failed",
    "progress",
    "paused",
    "created_at",
    "filled_at",
    "cancelled_at",
    "command",
]
SHOW_KEYS = [
    *ROW_KEYS,
    "jobs",
    "jobs_pruned",
    "failures",
    "pages_left",
    "pages_unknown",
    "worker_seconds_left",
    "slots",
    "workers",
    "documents_per_minute",
    "seconds_left",
    "seconds_left_by",
    "result",
]


class CampaignShell(ArchiveShell):
    """Acme has 12 documents of 3 pages each, which a campaign is to read again; beta has one."""

    def __init__(self, url: str, connection: Conn, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(url, connection, capture)
        self.acme, self.beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
        for number in range(12):
            add_document(connection, self.acme, content=bytes([number]))
        add_document(connection, self.beta, content=b"beta")
        self.sql("update batchproc.documents set page_count = 3")
        assert self.run("reprocess", "--tenant", "acme") == 0

    def json(self, *arguments: str | int | Path) -> Any:
        found = super().json("campaigns", *arguments)
        assert self.err == ""
        return found

    def lines(self, *arguments: str | int | Path) -> list[str]:
        found = super().lines("campaigns", *arguments)
        assert self.err == ""
        return found

    def end(self, state: str, documents: int, code: str | None = None) -> None:
        """The first jobs that wait end so."""
        self.connection.execute(
            """
            update batchproc.processing_jobs set state = %s, failure_code = %s, finished_at = clock_timestamp()
            where job_id in (select job_id from batchproc.processing_jobs where state = 'available'
                             order by job_id limit %s)
            """,
            [state, code, documents],
        )

    def usage(self, worker_seconds: float, pages: int) -> None:
        self.connection.execute(
            """
            insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_ocr)
            values (%s, (clock_timestamp() at time zone 'UTC')::date, 'ocr', %s, %s, %s)
            """,
            [self.acme, worker_seconds, pages, pages],
        )

    def states(self) -> set[str]:
        return {state for (state,) in self.sql("select distinct state from batchproc.processing_jobs")}


@pytest.fixture
def shell(
    database_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CampaignShell]:
    monkeypatch.setenv("BATCHPROC_POOL__WORKERS", "2")
    with connect(database_url) as connection:
        yield CampaignShell(database_url, connection, capfd)


def test_they_are_listed_with_their_progress(shell: CampaignShell) -> None:
    shell.end("completed", 3)
    shell.end("discarded", 1, "own_code")
    assert shell.said("reprocess", "--tenant", "beta")[0] == 0
    listed = shell.json("list")
    assert listed["next"] is None
    assert [list(row) for row in listed["campaigns"]] == [ROW_KEYS] * 2
    newest, oldest = listed["campaigns"]
    assert (newest["tenant"], newest["command"]) == ("beta", "reprocess --tenant beta")
    counts = {name: oldest[name] for name in ("documents", "done", "left", "failed", "progress", "state")}
    assert counts == {"documents": 12, "done": 4, "left": 8, "failed": 1, "progress": 0.3333, "state": "waiting"}
    assert shell.json("list", "--limit", "1")["next"] == newest["campaign_id"]
    behind = shell.json("list", "--after", str(newest["campaign_id"]))
    assert [row["campaign_id"] for row in behind["campaigns"]] == [oldest["campaign_id"]]
    assert [row["tenant"] for row in shell.json("list", "--tenant", "acme")["campaigns"]] == ["acme"]
    assert shell.said("campaigns", "list", "--tenant", "nobody")[0] == 2


def test_a_listing_fits_a_terminal(shell: CampaignShell) -> None:
    header, row = shell.lines("list")
    columns = header.split()
    cells = [row.split(None, len(columns))]
    assert columns[:7] == ["campaign_id", "state", "tenant", "documents", "done", "left", "cancelled"]
    assert columns[7:9] == ["failed", "created_at"]
    fitted = laid_out(columns, [[*cells[0][:8], "2026-11-30 12:00:00", "reprocess " * 9]], [False] * len(columns), 80)
    assert max(map(len, fitted)) <= 80


def test_a_campaign_is_shown_with_what_is_left_of_it(shell: CampaignShell) -> None:
    shell.end("completed", 2)
    shell.end("discarded", 3, "own_code")
    shell.end("discarded", 1, "encrypted")
    shell.usage(150.0, 100)
    shown = shell.json("show", "1")
    assert list(shown) == SHOW_KEYS
    assert shown["jobs"] == {
        "scheduled": 0,
        "available": 6,
        "running": 0,
        "held": 0,
        "completed": 2,
        "discarded": 4,
        "cancelled": 0,
    }
    assert (shown["pages_left"], shown["worker_seconds_left"], shown["slots"]) == (18, 27.0, 0)
    assert (shown["seconds_left"], shown["seconds_left_by"], shown["workers"]) == (13.5, "estimate", 2)
    assert shown["failures"] == [
        {"tenant": "acme", "kind": "ocr", "failure_code": "own_code", "jobs": 3},
        {"tenant": "acme", "kind": "ocr", "failure_code": "encrypted", "jobs": 1},
    ]
    assert shown["result"]["documents"] == 0
    lines = shell.lines("show", "1")
    told = dict(line.split(None, 1) for line in lines[:5])
    assert (told["campaign"], told["command"]) == ("1, waiting", "reprocess --tenant acme")
    assert told["documents"] == "6 of 12 done (50%)"
    assert "work left     18 pages, 27 s of one worker (1.5 s a page lately)" in lines
    time_left = lines.index("time left     about 14 s with 2 workers and nothing else to do")
    assert lines[time_left : time_left + 2] == [
        "time left     about 14 s with 2 workers and nothing else to do",
        "              no node runs: batchproc run",
    ]
    assert lines[-1] == "to try them again: batchproc campaigns retry 1"
    assert max(map(len, lines)) <= 80


def test_the_time_left_is_estimated_for_the_slots_there_are_and_then_by_the_rate(shell: CampaignShell) -> None:
    shell.usage(150.0, 100)
    shell.sql(
        "insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)"
        " values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'h', 1, 4, '{}', '{}', '1')"
    )
    shown = shell.json("show", "1")
    assert (shown["seconds_left"], shown["seconds_left_by"]) == (12 * 3 * 1.5 / 4, "estimate")
    assert "time left     about 14 s with 4 workers and nothing else to do" in shell.lines("show", "1")
    shell.end("completed", 6)
    shell.sql(
        "update batchproc.processing_jobs set finished_at = clock_timestamp() - interval '1 min' * job_id"
        " where state = 'completed'"
    )
    shown = shell.json("show", "1")
    assert shown["seconds_left_by"] == "rate"
    assert shown["documents_per_minute"] == pytest.approx(5 / 6, rel=0.05)
    assert shown["seconds_left"] == pytest.approx(6 / (5 / 6) * 60, rel=0.05)
    assert any(line.endswith(", as it goes now") for line in shell.lines("show", "1"))


@pytest.mark.parametrize(
    ("a_minute", "told"), [(15_000.0, "15,000"), (1234.5, "1,234"), (99.96, "100"), (74.04, "74"), (5 / 6, "0.833")]
)
def test_a_rate_is_shown_in_digits(
    shell: CampaignShell, monkeypatch: pytest.MonkeyPatch, a_minute: float, told: str
) -> None:
    monkeypatch.setattr(CampaignListing, "pace", lambda *_: Pace(round(a_minute * 600), 36_000.0))
    assert f"rate          {told} documents a minute" in shell.lines("show", "1")


def test_what_was_done_in_a_few_seconds_is_told_as_that_and_promises_nothing(
    shell: CampaignShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.usage(150.0, 100)
    monkeypatch.setattr(CampaignListing, "slots", lambda *_: 2)
    monkeypatch.setattr(CampaignListing, "pace", lambda *_: Pace(7, 2.0))
    shown = shell.json("show", "1")
    assert (shown["documents_per_minute"], shown["seconds_left_by"]) == (None, "estimate")
    lines = shell.lines("show", "1")
    assert "rate          7 documents in 2.0 s" in lines
    assert "time left     about 27 s with 2 workers and nothing else to do" in lines
    monkeypatch.setattr(CampaignListing, "pace", lambda *_: Pace(7, 21.0))
    shown = shell.json("show", "1")
    assert (shown["documents_per_minute"], shown["seconds_left_by"], shown["seconds_left"]) == (None, "rate", 36.0)


def test_a_campaign_whose_command_was_cut_short_says_so(shell: CampaignShell) -> None:
    shell.sql("update batchproc.campaigns set filled_at = null")
    assert "its command goes on, or was cut short: then give it again" in "\n".join(shell.lines("show", "1"))


def test_pausing_and_resuming(shell: CampaignShell) -> None:
    assert shell.json("pause", "1") == {"campaign_id": 1, "held": 12}
    assert (shell.json("show", "1")["state"], shell.states()) == ("paused", {"held"})
    assert "time left     paused: batchproc campaigns resume 1" in shell.lines("show", "1")
    assert shell.lines("pause", "1") == ["campaign 1: 0 jobs held; go on with: batchproc campaigns resume 1"]
    assert shell.json("resume", "1") == {"campaign_id": 1, "released": 12, "superseded": 0}
    assert shell.states() == {"available"}
    assert shell.lines("resume", "1") == ["campaign 1: 0 jobs wait again"]


def test_what_is_retried_of_a_paused_one_is_told_to_be_held(shell: CampaignShell) -> None:
    shell.end("discarded", 2, "own_code")
    shell.json("pause", "1")
    advice = "held, as it is paused; go on with: batchproc campaigns resume 1"
    assert shell.lines("retry", "1", "--dry-run") == [f"campaign 1: 2 jobs would be {advice}"]
    assert shell.lines("retry", "1") == [f"campaign 1: 2 jobs are {advice}"]
    assert shell.states() == {"held"}
    fail = (
        "update batchproc.processing_jobs set state = 'discarded', failure_code = 'own_code',"
        " finished_at = clock_timestamp() where job_id <= {}"
    )
    shell.sql(fail.format(1))
    done = shell.json("retry", "1")
    assert (done["retried"], done["held"], shell.states()) == (0, 1, {"held"})
    shell.sql(fail.format(2))
    _, out, _ = shell.said("jobs", "retry", "1", "2")
    assert "job 1: held again with its paused campaign" in out
    shell.sql(fail.format(2))
    _, out, _ = shell.said("jobs", "retry", "--failure-code", "own_code")
    assert out.splitlines()[0] == "0 jobs retried"
    assert out.splitlines()[1].startswith("2 held again")


def test_a_cancelled_one_is_neither_paused_nor_resumed(shell: CampaignShell) -> None:
    shell.json("cancel", "1", "--yes")
    for command in ("pause", "resume"):
        code, out, err = shell.said("campaigns", command, "1")
        assert (code, out) == (2, "")
        assert "campaign 1 is cancelled" in err
        assert "batchproc campaigns retry 1" in err
    assert shell.json("show", "1")["paused"] is False
    shell.json("retry", "1", "--yes")
    assert shell.json("pause", "1")["held"] == 12


def test_there_is_nothing_to_cancel_of_what_is_done_or_cancelled(shell: CampaignShell) -> None:
    shell.end("completed", 12)
    before = shell.json("show", "1")
    for flags in ([], ["--dry-run"]):
        assert shell.lines("cancel", "1", *flags) == ["campaign 1 is done: there is nothing to cancel"]
    assert shell.json("cancel", "1")["cancelled"] == 0
    assert shell.json("show", "1") == before
    assert before["state"] == "done"
    shell.run("reprocess", "--tenant", "beta")
    shell.json("cancel", "2")
    cancelled = shell.json("show", "2")
    assert shell.lines("cancel", "2") == ["campaign 2 is cancelled: there is nothing to cancel"]
    assert shell.json("show", "2") == cancelled


def test_a_cancel_is_taken_back_by_the_retry_of_its_last_job(shell: CampaignShell) -> None:
    """As operating.md has it; after it the campaign may be paused, and is done in the end."""
    shell.end("discarded", 1, "own_code")
    shell.json("cancel", "1", "--yes")
    assert shell.said("jobs", "retry", "12")[0] == 0
    assert shell.json("show", "1")["cancelled_at"] is not None, "ten are cancelled still"
    assert shell.said("campaigns", "pause", "1")[0] == 2
    assert shell.said("jobs", "retry", "--campaign", "1", "--state", "cancelled", "--yes")[0] == 0
    shown = shell.json("show", "1")
    assert (shown["state"], shown["cancelled_at"], shown["left"]) == ("waiting", None, 11)
    assert shell.json("pause", "1")["held"] == 11
    shell.json("resume", "1")
    shell.end("completed", 11)
    assert shell.json("show", "1")["state"] == "done"


@pytest.mark.parametrize("paused", [False, True])
def test_a_cancel_that_is_stopped_tells_what_is_left(
    shell: CampaignShell, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    monkeypatch.setattr(campaign_statements, "_BATCH", 5)
    if paused:
        shell.json("pause", "1")
    with monkeypatch.context() as patched:
        cancelled = Cancel.__call__

        def and_stops(cancel: Cancel, job_ids: Sequence[int]) -> dict[int, str]:
            os.kill(os.getpid(), signal.SIGINT)
            return cancelled(cancel, job_ids)

        patched.setattr(Cancel, "__call__", and_stops)
        code, out, err = shell.said("campaigns", "cancel", "1", "--yes")
    assert (code, out) == (130, "campaign 1: 5 jobs cancelled\n")
    assert err == "stopped: 7 jobs of the campaign are left; give the command again to go on (nodes that run do, too)\n"
    shown = shell.json("show", "1")
    assert (shown["state"], shown["left"], shown["paused"]) == ("cancelling", 7, False)
    assert shell.json("cancel", "1", "--yes")["cancelled"] == 7
    assert shell.json("show", "1")["state"] == "cancelled"


def test_cancelling_many_wants_a_yes_and_a_retry_takes_it_back(shell: CampaignShell) -> None:
    code, out, err = shell.said("campaigns", "cancel", "1")
    assert (code, out) == (2, "")
    assert "12 jobs would be cancelled: look at them with --dry-run, then give --yes" in err
    assert shell.lines("cancel", "1", "--dry-run") == ["campaign 1: 12 jobs would be cancelled"]
    assert shell.json("cancel", "1", "--dry-run") == {"campaign_id": 1, "cancelled": 12, "dry_run": True}
    assert shell.states() == {"available"}
    done = shell.json("cancel", "1", "--yes")
    assert done == {"campaign_id": 1, "cancelled": 12, "requested": 0, "unwritten": 0, "dry_run": False}
    shown = shell.json("show", "1")
    assert (shown["state"], shown["done"], shown["cancelled"], shown["progress"]) == ("cancelled", 0, 12, 0.0)
    assert any(line == "documents     0 of 12 done (0%), 12 cancelled" for line in shell.lines("show", "1"))
    assert shell.said("campaigns", "retry", "1")[0] == 2
    assert shell.lines("retry", "1", "--dry-run") == ["campaign 1: 12 jobs would wait again"]
    assert shell.lines("retry", "1", "--yes") == ["campaign 1: 12 jobs wait again"]
    assert shell.states() == {"available"}


def test_what_somebody_holds_or_what_still_runs_is_told_by_the_exit_code(
    shell: CampaignShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``jobs cancel`` and ``jobs retry`` have it."""

    def code_when(work: type, command: str, done: Any, *flags: str) -> int:
        monkeypatch.setattr(work, command if work is Campaigning else "run", lambda *_, **__: done)
        return shell.said("campaigns", command, "1", *(flags or ["--yes"]))[0]

    assert code_when(Campaigning, "cancel", CampaignCancelled(3, 1, 0)) == 1
    assert code_when(Campaigning, "cancel", CampaignCancelled(3, 0, 2), "--yes", "--json") == 1
    assert code_when(Campaigning, "cancel", CampaignCancelled(3, 0, 0)) == 0
    assert code_when(Campaigning, "cancel", CampaignCancelled(), "--dry-run") == 0
    assert code_when(Campaigning, "retry", Retried(2, unwritten=1)) == 1
    assert code_when(Campaigning, "retry", Retried(2, superseded=1)) == 0
    monkeypatch.setattr(Reverting, "count", lambda *_: Reverted(1))
    assert code_when(Reverting, "revert", Reverted(1, Counter(busy=1))) == 1
    assert code_when(Reverting, "revert", Reverted(1, Counter(person=1))) == 0


def test_few_are_retried_without_a_question(shell: CampaignShell) -> None:
    shell.end("discarded", 2, "own_code")
    shell.end("discarded", 1, "encrypted")
    assert shell.lines("retry", "1") == [
        "campaign 1: 2 jobs wait again",
        "1 left alone: it failed as encrypted (to try it all the same: --failure-code encrypted)",
    ]
    found = shell.json("retry", "1", "--failure-code", "encrypted")
    assert found == {
        "campaign_id": 1,
        "retried": 1,
        "held": 0,
        "superseded": 0,
        "unwritten": 0,
        "left_alone": {},
        "dry_run": False,
    }


@pytest.mark.parametrize("command", ["show", "pause", "resume", "cancel", "retry", "revert"])
def test_a_campaign_that_does_not_exist_is_named(shell: CampaignShell, command: str) -> None:
    code, out, err = shell.said("campaigns", command, "4711")
    assert (code, out) == (2, "")
    assert err == "batchproc: there is no campaign 4711: see: batchproc campaigns list\n"


def test_an_import_makes_one(shell: CampaignShell, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(b"no pdf")
    assert shell.said("import", str(tmp_path), "--tenant", "beta")[0] == 0
    [newest, _] = shell.json("list")["campaigns"]
    assert (newest["tenant"], newest["kind"], newest["documents"], newest["left"]) == ("beta", "ocr", 1, 1)
    assert newest["command"].startswith("import ")
    assert newest["filled_at"] is not None
    assert shell.said("import", str(tmp_path), "--tenant", "beta")[0] == 0
    assert len(shell.json("list")["campaigns"]) == 2, "nothing was enqueued, and nothing began"


def test_the_help_has_examples(shell: CampaignShell) -> None:
    code, out, _ = shell.said("campaigns", "--help")
    assert code == 0
    assert "batchproc campaigns show 7" in out
