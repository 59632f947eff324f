"""``jobs retry``, ``cancel``, ``discard`` and ``prioritise`` as a person calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.node import RunOptions
from tests.cli.shell import Shell
from tests.engine.running import Bench, alive, bench_on
from tests.faults.command import started_run
from tests.queue.helpers import CAMPAIGNS
from tests.waiting import wait_until

KILLED_WITHIN = 1.5  # a second, and what the command itself takes to begin
HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]


@pytest.fixture
def shell(database_url: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[JobShell]:
    bench = bench_on(database_url)
    yield JobShell(bench, capfd, tmp_path / "conf.yaml")
    bench.connection.close()


class JobShell(Shell):
    """Two tenants: acme with four ``t_quick`` jobs (1 to 4), beta with one (5)."""

    def __init__(self, bench: Bench, capture: pytest.CaptureFixture[str], conf: Path) -> None:
        super().__init__(bench.url, capture, codes=(0, 1), before=["--conf", conf, "jobs"])
        self.bench, self.conf = bench, conf
        conf.write_text(json.dumps({"handlers": HANDLERS}))
        self.acme, self.beta = bench.tenant("acme"), bench.tenant("beta")
        for _ in range(4):
            bench.enqueue(self.acme, "t_quick")
        bench.enqueue(self.beta, "t_quick")

    def states(self) -> list[str]:
        return [state for (state,) in self.bench.rows("select state from batchproc.processing_jobs order by job_id")]

    def long_over(self) -> int:
        """Jobs that ended longer ago than what times on the command line are rounded to."""
        [(jobs,)] = self.bench.rows(
            "select count(*) from batchproc.processing_jobs where finished_at < clock_timestamp() - interval '5 ms'"
        )
        return int(jobs)

    def sql(self, statement: str) -> None:
        self.bench.connection.execute(statement.encode())

    def ended(self, *job_ids: int, state: str = "discarded", code: str | None = "encrypted", days: int = 0) -> None:
        self.bench.connection.execute(
            b"update batchproc.processing_jobs set state = %s, failure_code = %s,"
            b" finished_at = clock_timestamp() - make_interval(days => %s) where job_id = any(%s)",
            [state, code, days, list(job_ids)],
        )


def outcomes(found: Any) -> list[tuple[int, str]]:
    return [(job["job_id"], job["outcome"]) for job in found["jobs"]]


def test_jobs_named_by_their_ids_are_told_one_by_one(shell: JobShell) -> None:
    shell.ended(1)
    shell.ended(2, state="completed", code=None)

    assert outcomes(shell.json("retry", "1", "2", "3")) == [(1, "retried"), (2, "completed"), (3, "retried_already")]
    assert outcomes(shell.json("cancel", "2", "3")) == [(2, "completed"), (3, "cancelled")]
    assert outcomes(shell.json("discard", "4", "2")) == [(2, "completed"), (4, "discarded")]
    assert outcomes(shell.json("prioritise", "1", "3")) == [(1, "prioritised"), (3, "cancelled")]

    assert shell.states() == ["available", "completed", "cancelled", "discarded", "available"]
    code, out, err = shell.said("cancel", "2", "99")
    assert code == 2
    assert out == "job 2: is completed already, and left so: only jobs that wait or run can be cancelled\n"
    assert err == "batchproc: there is no job 99: see: batchproc jobs list\n"


@pytest.mark.parametrize(
    ("command", "was", "outcome", "said", "code"),
    [
        ("cancel", "available", "cancelled", "cancelled", 0),
        ("cancel", "cancelled", "cancelled_already", "is cancelled already", 0),
        ("cancel", "discarded", "discarded", "is discarded already, and left so: only jobs that wait or run", 1),
        ("cancel", "completed", "completed", "is completed already, and left so: only jobs that wait or run", 1),
        ("discard", "available", "discarded", "given up on", 0),
        ("discard", "discarded", "discarded_already", "is discarded already", 0),
        ("discard", "cancelled", "cancelled", "is cancelled already, and left so: only jobs that wait", 1),
        ("discard", "completed", "completed", "is completed already, and left so: only jobs that wait", 1),
        ("retry", "discarded", "retried", "waits again", 0),
        ("retry", "available", "retried_already", "waits or runs already", 0),
        ("retry", "completed", "completed", "is completed already, and left so: only discarded and cancelled", 1),
        ("prioritise", "available", "prioritised", "moved", 0),
        ("prioritise", "discarded", "discarded", "is discarded already, and left so: only jobs that wait", 1),
    ],
)
def test_the_answer_says_what_this_command_did_and_the_exit_code_whether_it_is_so(
    shell: JobShell, command: str, was: str, outcome: str, said: str, code: int
) -> None:
    if was != "available":
        shell.ended(1, state=was, code="unreadable_file" if was == "discarded" else None)
    dry = shell.json(command, 1, "--dry-run")
    assert outcomes(dry) == [(1, outcome)]
    found, out, err = shell.said(command, 1)
    assert (found, out[: 7 + len(said)], err) == (code, f"job 1: {said}", "")
    if outcome == was or outcome.endswith("_already"):
        assert shell.states()[0] == was
        found, out, _ = shell.said(command, 1, "--json")
        assert (found, outcomes(json.loads(out))) == (code, [(1, outcome)])


def test_what_has_its_place_already_is_not_said_to_be_moved(shell: JobShell) -> None:
    assert shell.said("prioritise", "1", "--priority", "2")[:2] == (0, "job 1: moved\n")
    assert shell.said("prioritise", "1", "--priority", "2")[:2] == (0, "job 1: has that place already\n")
    code, out, _ = shell.said("prioritise", "--tenant", "acme", "--priority", "2")
    assert (code, out) == (0, "3 jobs prioritised\n1 had that place already\n")


@pytest.mark.parametrize("command", ["list", "retry", "cancel", "discard", "prioritise"])
def test_a_kind_that_nobody_knows_is_told(shell: JobShell, command: str) -> None:
    code, out, err = shell.said(command, "--kind", "bugg")
    assert (code, out, err) == (2, "", "batchproc: there is no kind 'bugg': see: batchproc kinds list\n")
    # One that no node and no settings know, but that jobs are of, though they are over.
    shell.ended(1, 2, 3, 4, 5)
    shell.sql("update batchproc.processing_jobs set kind = 'nobodys'")
    assert shell.said(command, "--kind", "nobodys", *([] if command == "list" else ["--dry-run"]))[0] == 0


def test_errors_that_are_alike_stand_once(shell: JobShell) -> None:
    job = shell.bench.enqueue(shell.acme, "t_quick")
    for number, told in enumerate(("no scan", "no scan", "no scan", "no disk", "no scan"), 1):
        shell.bench.connection.execute(
            b"insert into batchproc.job_attempts (claim_id, job_id, tenant_id, number, node_id, started_at, ended_at,"
            b" seconds, outcome, error_type, detail) values (gen_random_uuid(), %s, %s, %s, gen_random_uuid(), now(),"
            b" now() + make_interval(secs => %s), 1, 'failed', 'OSError at a.py:3', %s)",
            [job, shell.acme, number, number, told],
        )
    lines = shell.lines("show", job)
    assert lines[-3:] == [
        " 1 to 3: OSError at a.py:3: no scan",
        " 4: OSError at a.py:3: no disk",
        " 5: OSError at a.py:3: no scan",
    ]
    assert [line.split()[0] for line in lines[-8:-3]] == ["1", "2", "3", "4", "5"], "what each took"


def test_a_filter_chooses_what_a_listing_with_it_shows(shell: JobShell) -> None:
    shell.ended(1, 2, code="encrypted")
    shell.ended(3, code="too_large", days=3)
    shell.ended(5, code="encrypted")

    chosen = shell.json("retry", "--tenant", "acme", "--failure-code", "encrypted", "--dry-run")
    assert (chosen["matched"], chosen["dry_run"], chosen["outcomes"]) == (2, True, {})
    assert chosen["groups"] == [
        {"tenant": "acme", "kind": "t_quick", "state": "discarded", "failure_code": "encrypted", "jobs": 2}
    ]
    assert shell.states() == ["discarded", "discarded", "discarded", "available", "discarded"]
    listed = shell.json("list", "--state", "discarded", "--newer-than", "1d")
    assert [job["job_id"] for job in listed["jobs"]] == [1, 2, 5]
    assert [job["job_id"] for job in shell.json("list", "--older-than", "1d")["jobs"]] == [3]

    assert shell.json("retry", "--newer-than", "1d")["outcomes"] == {"retried": 3}

    assert shell.states() == ["available", "available", "discarded", "available", "available"]


def test_a_superseded_job_is_chosen_by_its_code_alone(shell: JobShell) -> None:
    shell.ended(1, state="cancelled", code="superseded")
    shell.ended(2, state="cancelled", code=None)
    assert shell.json("retry", "--all", "--dry-run")["matched"] == 0
    assert shell.json("retry", "--state", "cancelled", "--dry-run")["matched"] == 1
    superseded = shell.json("retry", "--state", "cancelled", "--failure-code", "superseded", "--dry-run")
    assert superseded["matched"] == 1


def test_a_cancelled_campaign_is_taken_back_by_the_command_that_was_told(shell: JobShell) -> None:
    campaign = CAMPAIGNS.begin(shell.bench.connection, "reprocess --all")
    for _ in range(12):
        shell.bench.enqueue(shell.acme, "t_quick", campaign_id=campaign)

    code, out, _ = shell.said("cancel", "--campaign", str(campaign), "--yes")
    assert (code, out.splitlines()[0]) == (0, "12 jobs cancelled")
    assert shell.states().count("cancelled") == 12
    words = out.splitlines()[1].removeprefix("to take that back: batchproc jobs ").split()
    since, until = words[6], words[8]
    moments = ["--ended-since", since, "--ended-until", until]
    assert words == ["retry", "--campaign", str(campaign), "--state", "cancelled", *moments]
    assert datetime.fromisoformat(since) <= datetime.fromisoformat(until)

    assert shell.json(*words, "--yes")["outcomes"] == {"retried": 12}

    assert "cancelled" not in shell.states()


@pytest.mark.parametrize("command", ["cancel", "discard"])
def test_what_is_taken_back_is_as_it_was_and_nothing_of_somebody_else(shell: JobShell, command: str) -> None:
    """However long after, in whatever zone of time; what others ended before and since stays ended."""
    later = shell.bench.enqueue(shell.acme, "t_quick", run_at=datetime(2090, 1, 1, tzinfo=UTC))
    assert shell.said(command, "1")[0] == 0
    wait_until(lambda: shell.long_over() == 1, 10)
    code, out, _ = shell.said(command, "--kind", "t_quick", "--tenant", "acme", "--yes")
    assert (code, out.splitlines()[0].split()[:2]) == (0, ["4", "jobs"])
    wait_until(lambda: shell.long_over() == 5, 10)
    extra = shell.bench.enqueue(shell.acme, "t_quick")
    assert shell.said(command, str(extra))[0] == 0
    words = out.splitlines()[1].removeprefix("to take that back: batchproc jobs ").split()
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        assert shell.json(*words)["outcomes"] == {"retried": 4}
    time.tzset()
    over = {"cancel": "cancelled", "discard": "discarded"}[command]
    assert shell.states() == [over, "available", "available", "available", "available", "scheduled", over]
    assert shell.bench.job(later)["run_at"] == datetime(2090, 1, 1, tzinfo=UTC)


def test_the_commands_of_the_documentation_are_understood(shell: JobShell) -> None:
    page = (Path(str(resources.files("batchproc"))) / "docs" / "operating.md").read_text()
    commands = [line.split()[2:] for line in page.splitlines() if line.startswith("    batchproc jobs ")]
    assert {command[0] for command in commands} == {"list", "retry", "cancel", "prioritise", "discard"}
    before = shell.states()
    for command in commands:
        assert shell.said(*command)[0] == 0, command
    assert shell.states() == before


@pytest.mark.parametrize("command", ["retry", "cancel", "discard", "prioritise"])
def test_many_jobs_are_not_changed_without_a_yes(shell: JobShell, command: str) -> None:
    for _ in range(10):
        shell.bench.enqueue(shell.acme, "t_quick")
    if command == "retry":
        shell.ended(*range(1, 16))
    before = shell.states()

    code, out, err = shell.said(command, "--all")

    assert (code, out) == (2, "")
    assert err.startswith("batchproc: 15 jobs would be ")
    assert err.endswith(": look at them with --dry-run, then give --yes\n")
    assert shell.states() == before
    code, out, _ = shell.said(command, "--all", "--dry-run")
    assert (code, out.splitlines()[1].split()) == (0, ["tenant", "kind", "state", "failure_code", "jobs"])
    assert sum(shell.json(command, "--all", "--yes")["outcomes"].values()) == 15


@pytest.mark.parametrize(("answer", "code", "cancelled"), [("n", 130, 0), ("y", 0, 15)])
def test_a_person_is_asked(shell: JobShell, answer: str, code: int, cancelled: int) -> None:
    for _ in range(10):
        shell.bench.enqueue(shell.acme, "t_quick")
    command = [sys.executable, "-m", "batchproc", "--conf", str(shell.conf), "--database", shell.bench.url]
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*command, "jobs", "cancel", "--all"], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        asked = b""
        while b"[y/N]" not in asked:
            asked += os.read(ours, 1000)
        os.write(ours, f"{answer}\n".encode())
        assert process.wait(60) == code
    os.close(ours)
    assert asked.decode().startswith("15 jobs will be cancelled. Go on?")
    assert shell.states().count("cancelled") == cancelled


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cancel"], "nothing says which jobs"),
        (["cancel", "1", "--tenant", "acme"], "job ids go without filters"),
        (["retry", "--all", "--kind", "t_quick"], "--all does not go with a filter"),
        (["discard", "--tenant", ""], "--tenant is empty"),
        (["cancel", "--tenant", "nobody"], "there is no tenant 'nobody'"),
        (["retry", "--older-than", "soon"], "must be a number of seconds or a duration"),
        (["prioritise", "1", "--priority", "10"], "10 is not in the range"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(shell: JobShell, arguments: Sequence[str], said: str) -> None:
    before = shell.states()
    code, _, err = shell.said(*arguments)
    assert code == 2
    assert said in err
    assert shell.states() == before


def test_a_dry_run_of_ids_says_of_each_what_would_become_of_it(shell: JobShell) -> None:
    shell.ended(1)
    shell.ended(2, state="completed", code=None)
    before = shell.states()
    code, out, err = shell.said("retry", "1", "2", "3", "99", "--dry-run")
    assert (code, err) == (2, "batchproc: there is no job 99: see: batchproc jobs list\n")
    assert [line.split(",")[0] for line in out.splitlines()] == [
        "job 1: would be retried",
        "job 2: is completed already",
        "job 3: waits or runs already",
    ]
    assert shell.said("retry", "1", "2", "--dry-run")[0] == 0, "nothing was to be changed"
    assert shell.said("cancel", "3", "--dry-run")[1] == "job 3: would be cancelled\n"
    dry = shell.json("cancel", "2", "3", "--dry-run")
    assert (outcomes(dry), dry["dry_run"], dry["outcomes"]) == ([(2, "completed"), (3, "cancelled")], True, {})
    assert shell.states() == before


def test_a_cancel_of_ids_says_how_to_take_it_back_and_what_was_cancelled_already(shell: JobShell) -> None:
    code, out, _ = shell.said("cancel", "3", "4")
    assert code == 0
    *told, back = out.splitlines()
    assert told == ["job 3: cancelled", "job 4: cancelled"]
    again = shell.said("cancel", "3")
    assert again[:2] == (0, "job 3: is cancelled already\n")
    words = back.removeprefix("to take that back: batchproc jobs ").split()
    assert shell.json(*words)["outcomes"] == {"retried": 2}


def test_a_retry_that_finds_nothing_hints_at_what_was_cancelled(shell: JobShell) -> None:
    shell.ended(1, 2, state="cancelled", code=None)
    code, out, err = shell.said("retry", "--tenant", "acme")
    assert (code, out) == (0, "0 jobs retried\n")
    assert err == "2 cancelled jobs fit as well: --state cancelled chooses those\n"
    assert shell.said("retry", "--tenant", "beta")[2] == ""


def test_nothing_counts_up_before_jobs_that_are_named(shell: JobShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.cli.shared.terminal.sys.stderr.isatty", lambda: True, raising=False)
    assert shell.said("cancel", "99")[2] == "batchproc: there is no job 99: see: batchproc jobs list\n"


def test_an_unknown_failure_code_is_told(shell: JobShell) -> None:
    code, out, err = shell.said("retry", "--failure-code", "souce_missing")
    assert (code, out) == (0, "0 jobs retried\n")
    assert "no kind declares the failure code souce_missing" in err


def test_giving_up_fails_the_document_that_has_no_text_and_says_who_did_it(shell: JobShell) -> None:
    shell.sql(
        "insert into batchproc.documents (tenant_id, root, path, sha256, bytes)"
        " values (1, '/nowhere', 'scan.pdf', sha256('x'), 1)"
    )
    job = shell.bench.enqueue(shell.acme, "ocr", document_id=1)

    assert shell.json("discard", str(job), "--reason", "the tape is lost")["outcomes"] == {"discarded": 1}

    given_up = shell.bench.job(job)
    assert (given_up["state"], given_up["failure_code"], given_up["attempts"]) == ("discarded", "given_up", [])
    assert given_up["result"]["reason"] == "the tape is lost"
    assert given_up["result"]["discarded_by"]
    assert shell.bench.rows("select status, failure_code from batchproc.documents") == [("failed", "given_up")]
    assert shell.bench.rows("select kind, discarded from batchproc.usage_daily") == [("ocr", 1)]
    assert outcomes(shell.json("retry", str(job))) == [(job, "retried")]


def test_a_job_that_goes_first_is_run_first(shell: JobShell) -> None:
    assert shell.json("prioritise", "3", "--lane", "bulk")["outcomes"] == {"prioritised_already": 1}
    assert shell.json("prioritise", "4")["outcomes"] == {"prioritised": 1}
    assert shell.json("prioritise", "5", "--lane", "interactive")["outcomes"] == {"prioritised": 1}
    placed = shell.bench.rows("select priority, lane from batchproc.processing_jobs where job_id >= 3 order by job_id")
    assert placed == [(5, 1), (1, 1), (5, 0)]

    shell.bench.run(RunOptions(workers=1, max_jobs=1), handlers=HANDLERS)
    assert shell.states()[4] == "completed"
    shell.bench.run(RunOptions(workers=1, max_jobs=1), handlers=HANDLERS)
    assert shell.states()[3] == "completed"
    shell.sql("update batchproc.job_attempts set seconds = 0.001823")
    assert shell.json("show", 4)["attempts"][0]["seconds"] == pytest.approx(0.001823)
    header, attempt = shell.lines("show", 4)[-2:]
    assert (header.split()[-1], attempt.split()[-2:]) == ("took", ["2", "ms"])


def test_a_row_that_somebody_holds_is_passed_over_and_told(shell: JobShell) -> None:
    with bench_on(shell.bench.url).connection as holder, holder.transaction():
        holder.execute(b"select 1 from batchproc.processing_jobs where job_id = 2 for update")
        code, out, _ = shell.said("discard", "--tenant", "acme")
        code_moved, out_moved, _ = shell.said("prioritise", "2")
    assert (code, out.splitlines()[0]) == (1, "3 jobs discarded")
    assert out.splitlines()[1].startswith("1 left as it is: somebody holds its row")
    assert (code_moved, out_moved.split(", ")[0]) == (1, "job 2: left as it is: somebody holds its row")
    assert shell.states() == ["discarded", "available", "discarded", "discarded", "available"]


def test_a_running_job_is_killed_within_a_second_of_the_command(shell: JobShell, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    shell.ended(1, 2, 3, 4, 5)
    running = shell.bench.enqueue(shell.acme, "b_tree", {"file": str(pids)})
    with started_run(shell.bench, "--workers", "1", handlers=HANDLERS) as node:
        wait_until(lambda: pids.exists() and pids.read_text(), 60)
        asked = time.monotonic()
        code, out, _ = shell.said("cancel", "--state", "running")
        seconds = time.monotonic() - asked
        left = [pid for pid in map(int, pids.read_text().split()) if alive(pid)]
        assert node.wait() == 0

    assert (code, out.splitlines()[0]) == (0, "1 job cancelled"), "it waits until the job is gone"
    assert left == []
    assert seconds < KILLED_WITHIN
    assert shell.bench.job(running)["state"] == "cancelled"
