"""The command line in this process: what it prints, its keys, its exit codes and its one-line errors."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from batchproc.database import connect

JOB_KEYS = [
    "job_id",
    "tenant",
    "kind",
    "lane",
    "priority",
    "state",
    "attempt",
    "max_attempts",
    "crashes",
    "run_at",
    "document_id",
    "failure_code",
    "created_at",
    "claimed_at",
    "finished_at",
    "campaign_id",
    "result",
]


@dataclass
class Ran:
    """One invocation: exit code and both outputs."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, "JSON is one object on one line"
        return json.loads(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def batchproc(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Command:
    """Runs one command on the test's database."""
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", database_url)
    monkeypatch.delenv("BATCHPROC_CONF", raising=False)
    conf = tmp_path / "conf.yaml"
    conf.write_text("handlers: [tests.engine.job_handlers]\npool: {workers: 1}\n")

    def run(*arguments: str) -> Ran:
        code = main.run(["--conf", str(conf), *arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def test_tenants_are_added_changed_and_listed(batchproc: Command) -> None:
    assert batchproc("tenants", "add", "acme", "--json").json["tenant"] == "acme"
    changed = batchproc(
        "tenants", "set", "acme", "--weight", "2", "--max-running", "3", "--paused", "--languages", "deu,eng", "--json"
    ).json

    assert batchproc("tenants", "show", "acme", "--json").json == changed
    shown = [line.split()[:2] for line in batchproc("tenants", "show", "acme").out.splitlines()]
    assert shown[1:3] == [["tenant", "acme"], ["weight", "2"]]
    assert "there is no tenant 'nobody'" in batchproc("tenants", "show", "nobody").err
    listed = batchproc("tenants", "list", "--json").json

    assert listed == {"tenants": [changed], "next": None}
    assert changed == {
        "tenant_id": 1,
        "tenant": "acme",
        "weight": 2.0,
        "max_running": 3,
        "paused": True,
        "settings": {"languages": ["deu", "eng"]},
    }
    taken_back = batchproc("tenants", "set", "acme", "--unlimited", "--resumed", "--languages", "", "--json").json
    assert (taken_back["max_running"], taken_back["paused"], taken_back["settings"]) == (None, False, {})


def test_a_tenant_gets_a_password_file_and_loses_it(batchproc: Command, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("secret\n")
    passwords.chmod(0o600)
    batchproc("tenants", "add", "acme")
    changed = batchproc("tenants", "set", "acme", "--password-file", str(passwords), "--json")
    assert changed.json["settings"] == {"password_file": str(passwords)}
    assert "secret" not in changed.out + changed.err
    assert batchproc("tenants", "set", "acme", "--password-file", "", "--json").json["settings"] == {}


def test_jobs_are_listed_and_shown_with_their_keys(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    first = batchproc("enqueue", "t_echo", "--tenant", "acme", "--args", '{"word": "one"}', "--json").json
    batchproc("enqueue", "t_quick", "--tenant", "acme", "--at", "2999-01-01T00:00", "--lane", "interactive")

    listed = batchproc("jobs", "--json", "list").json

    assert [list(job) for job in listed["jobs"]] == [JOB_KEYS, JOB_KEYS]
    assert [(job["state"], job["lane"]) for job in listed["jobs"]] == [
        ("available", "bulk"),
        ("scheduled", "interactive"),
    ]
    assert first == {"job_id": listed["jobs"][0]["job_id"], "duplicate": False}
    shown = batchproc("jobs", "show", str(first["job_id"]), "--json").json
    assert set(JOB_KEYS) | {"args", "progress", "attempts"} <= set(shown)
    assert (shown["args"], shown["progress"], shown["attempts"]) == ({"word": "one"}, None, [])
    page = batchproc("jobs", "list", "--limit", "1", "--json").json
    assert page["next"] == first["job_id"]
    rest = batchproc("jobs", "list", "--after", str(page["next"]), "--json").json
    assert [job["kind"] for job in rest["jobs"]] == ["t_quick"]
    assert batchproc("jobs", "list", "--state", "completed", "--json").json == {"jobs": [], "next": None}


def test_a_run_from_enqueue_to_attempts(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_echo", "--tenant", "acme", "--args", '{"word": "one"}', "--json").json["job_id"]

    ran = batchproc("run", "--json")

    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == [
        "claimed",
        "completed",
        "retried",
        "snoozed",
        "rescued",
        "discarded",
        "cancelled",
        "interrupted",
        "partial",
        "left",
        "seconds",
        "storages",
        "braked",
        *("run_id", "exit_code", "stopped", "codes", "partial_codes", "left_by_kind", "window_ended", "nights_left"),
        *("kept", "kept_more"),
        *("pages", "failed_pages", "worker_seconds", "slots", "slot_use"),
    ]
    assert (ran.json["claimed"], ran.json["completed"], ran.json["left"]) == (2, 2, 0)
    shown = batchproc("jobs", "show", str(job), "--json").json
    assert shown["result"] == {"word": "one", "attempt": 1}
    assert list(shown["attempts"][0]) == [
        "number",
        "node_id",
        "worker_pid",
        "started_at",
        "ended_at",
        "seconds",
        "outcome",
        "error_class",
        "failure_code",
        "error_type",
        "detail",
    ]
    status = batchproc("status", "--json").json
    assert status["totals"] == {
        "scheduled": 0,
        "available": 0,
        "running": 0,
        "held": 0,
        "completed": 2,
        "discarded": 0,
        "cancelled": 0,
    }
    assert (status["queues"], status["nodes"]) == ([], [])


def test_status_shows_what_waits(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    batchproc("enqueue", "t_quick", "--tenant", "acme")

    [queue] = batchproc("status", "--json").json["queues"]

    assert queue["oldest_seconds"] >= 0
    assert queue | {"oldest_seconds": 0} == {
        "tenant": "acme",
        "kind": "t_quick",
        "lane": "bulk",
        "available": 1,
        "scheduled": 0,
        "running": 0,
        "oldest_seconds": 0,
    }
    assert "acme" in batchproc("status").out


def test_once_runs_one_job_and_shows_its_outcome(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_declared", "--tenant", "acme", "--json").json["job_id"]

    ran = batchproc("--once", str(job))

    assert ran.code == 1
    assert f"job {job} t_declared: failed (permanent) no_luck" in ran.out
    again = batchproc("--once", str(job))
    assert (again.code, again.out) == (2, "")
    retry = f"batchproc jobs retry {job}"
    assert f"job {job} does not wait to be run: it was discarded with no_luck: {retry}, then: " in again.err
    assert batchproc(*retry.split()[1:]).code == 0
    assert batchproc("run", "--once", str(job), "--in-process").code == 1, "what was told to do leads on"
    refused = batchproc("run", "--once", str(job), "--in-process")
    assert (refused.code, refused.err) == (2, again.err)
    runs = batchproc("report", "--list", "--json").json["runs"]
    assert [run["exit_code"] for run in runs] == [2, 1, 2, 1], "a refused run has ended, and was not killed"
    assert all(run["finished_at"] for run in runs)


def test_in_process_goes_the_same_way(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_fail", "--tenant", "acme", "--json").json["job_id"]

    ran = batchproc("run", "--once", str(job), "--in-process")

    assert ran.code == 0, "the job waits for its retry"
    assert "ValueError: always" in ran.err
    shown = batchproc("jobs", "show", str(job), "--json").json
    assert (shown["state"], shown["attempt"], shown["attempts"][0]["error_class"]) == ("scheduled", 1, "transient")
    assert batchproc("status", "--json").json["nodes"] == []


def test_in_process_without_an_id_takes_a_job_that_is_due(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_echo", "--tenant", "acme", "--args", '{"word": "w"}', "--json").json["job_id"]

    ran = batchproc("run", "--once", "--in-process")

    assert (ran.code, ran.out.startswith(f"job {job} t_echo: completed {{")) == (0, True)
    assert batchproc("run", "--once", "--in-process", "--kind", "ocr").out == "no job is due\n"


def test_once_with_json_is_one_object(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    for _ in range(2):
        batchproc("enqueue", "t_quick", "--tenant", "acme")

    assert batchproc("--json", "run", "--once").json["completed"] == 1
    assert batchproc("--once", "--in-process", "--json").json["completed"] == 1


def test_one_job_that_does_not_wait_leaves_no_node_behind(batchproc: Command) -> None:
    assert batchproc("run", "--once", "99").code == 2
    assert batchproc("status", "--json").json["nodes"] == []


def test_retry_makes_a_discarded_job_available_again(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    job = batchproc("enqueue", "t_declared", "--tenant", "acme", "--json").json["job_id"]
    assert batchproc("run").code == 1

    retried = batchproc("jobs", "retry", str(job), "--json")

    assert retried.json == {
        "action": "retry",
        "dry_run": False,
        "matched": 1,
        "outcomes": {"retried": 1},
        "groups": [],
        "jobs": [{"job_id": job, "outcome": "retried"}],
        "missing": [],
    }
    again = batchproc("jobs", "retry", str(job))
    assert (again.code, again.out) == (0, f"job {job}: waits or runs already\n"), "it is as it was asked for"
    missing = batchproc("jobs", "retry", "999")
    assert (missing.code, missing.err) == (2, "batchproc: there is no job 999: see: batchproc jobs list\n")


def test_a_unique_key_that_waits_is_a_duplicate(batchproc: Command) -> None:
    batchproc("tenants", "add", "acme")
    first = batchproc("enqueue", "t_quick", "--tenant", "acme", "--unique", "k", "--json").json

    second = batchproc("enqueue", "t_quick", "--tenant", "acme", "--unique", "k", "--json").json

    assert second == {"job_id": first["job_id"], "duplicate": True}


def test_many_jobs_from_standard_input(batchproc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    batchproc("tenants", "add", "acme")
    lines = b'{"args": {"word": "a"}, "priority": 1}\n\n{"args": {"word": "b"}, "lane": "interactive"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))

    assert batchproc("enqueue", "t_echo", "--tenant", "acme", "--stdin", "--json").json == {"enqueued": 2}

    jobs = batchproc("jobs", "list", "--json").json["jobs"]
    assert [(job["priority"], job["lane"]) for job in jobs] == [(1, "bulk"), (5, "interactive")]


def test_one_bad_line_of_standard_input_enqueues_nothing(batchproc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    batchproc("tenants", "add", "acme")
    lines = b'{"args": {"word": "a"}}\n{"args": {"sword": "secret"}}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))

    ran = batchproc("enqueue", "t_echo", "--tenant", "acme", "--stdin")

    assert ran.code == 2
    assert ran.err.startswith("batchproc: line 2: the args do not fit kind t_echo: ")
    assert "secret" not in ran.err
    assert batchproc("jobs", "list", "--json").json["jobs"] == []


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["enqueue", "t_quick", "--tenant", "nobody"],
            "there is no tenant 'nobody': add it with: batchproc tenants add",
        ),
        (["import", "/", "--tenant", "nobody"], "there is no tenant 'nobody': add it with: batchproc tenants add"),
        (["enqueue", "t_none", "--tenant", "acme"], "no handler declares kind 't_none'"),
        (["enqueue", "t_echo", "--tenant", "acme", "--args", "{"], "--args is not JSON"),
        (["enqueue", "later", "--tenant", "acme", "--force", "--args", nested(700)], "args nested too deeply"),
        (["enqueue", "t_quick", "--tenant", "acme", "--args", nested(9999)], "args nested too deeply"),
        (["enqueue", "Bad-Kind", "--tenant", "acme", "--force"], "the 'Bad-Kind' job for tenant 1 cannot be stored ("),
        (["enqueue", "t_echo", "--tenant", "acme", "--args", "[]"], "--args is not a JSON object"),
        (["enqueue", "t_echo", "--tenant", "acme", "--args", '{"word": 5}'], "the args do not fit kind t_echo: word"),
        (["enqueue", "ocr", "--tenant", "acme", "--args", '{"range": [5, 1]}'], "range is no arg that anybody"),
        (["enqueue", "ocr", "--tenant", "acme", "--args", '{"range": [1, 5]}'], "range is no arg that anybody"),
        (["enqueue", "ocr", "--tenant", "acme", "--args", '{"range": "join"}'], "range is no arg that anybody"),
        (
            ["enqueue", "t_quick", "--tenant", "acme", "--document", "7"],
            "tenant acme has no document 7: see: batchproc documents list --tenant acme",
        ),
        (["enqueue", "t_quick", "--tenant", "acme", "--at", "soon"], "'soon' is not a time"),
        (["enqueue", "t_quick", "--tenant", "acme", "--priority", "0"], "0 is not in the range"),
        (["tenants", "add", "Acme Inc"], "'Acme Inc' cannot be a tenant's slug"),
        (["tenants", "add", "acme"], "tenant 'acme' already exists"),
        (["tenants", "set", "acme", "--languages", "klingon;drop"], "tenant acme: languages"),
        (["tenants", "set", "nobody", "--paused"], "there is no tenant 'nobody'"),
        (["tenants", "set", "acme", "--password-file", "relative"], "password_file: must be an absolute path"),
        (["tenants", "set", "acme", "--password-file", "/nowhere/at/all"], "cannot be used: it cannot be read"),
        (["tenants", "set", "acme", "--password-file", "/etc/passwd"], "which opens it to others: chmod 600"),
        (["jobs", "show", "99"], "there is no job 99"),
        (["jobs", "show", "x"], "'x' is no id"),
        (["documents", "show", "99"], "there is no document 99"),
        (["run", "5"], "unexpected argument 5: to run that job alone: batchproc run --once 5"),
        (["run", "--in-process"], "--in-process runs one job: batchproc run --once"),
        (["run", "--kind", "t_none"], "no handler declares kind t_none"),
        (["enqueue", "t_quick", "--tenant", "a\udcff"], "bytes that are not UTF-8"),
        (["enqueue", "t_quick", "--tenant", "acme", "--at", ""], "'' is not a time"),
        (["import", "", "--tenant", "acme"], "one of the paths is empty"),
        (["tenants", "set", "acme", "--weight", "nan"], "'nan' is no number above 0 to 1000"),
        (["bench", "simulate", "--cores", "nan"], "'nan' is no number from 0.1 to 1024"),
        (["bench", "parent", "--seconds", "inf"], "inf is not in the range"),
        (["jobs", "list", "--document", "99999999999999999999"], "there is no id 99999999999999999999"),
        (["documents", "show", "abc"], "'abc' is no id: ids are whole numbers such as 42"),
        (["jobs", "show", "0"], "there is no id 0"),
        (["jobs", "list", "--after", "-1"], "'-1' is no id"),
        (["run", "--until", "6"], "must be a time of day such as 06:00, or a length such as +7h; see"),
        (["run", "--until", "+7"], "needs a unit, such as +7h or +90m; see"),
        (["run", "--until", "+30s"], "and claims end pool.shutdown_grace (30 s) before that: give it longer, or make"),
        (["run", "--once", "99", "--in-process"], "there is no job 99: see: batchproc jobs list"),
        (["db", "status"], "a database URL is configured, and `db` is for the embedded PostgreSQL alone"),
        (["nonsense"], "No such command 'nonsense'; see: batchproc --help"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(batchproc: Command, arguments: list[str], message: str) -> None:
    batchproc("tenants", "add", "acme")

    ran = batchproc(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("batchproc: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_an_unreachable_database_is_one_line_without_its_password(
    batchproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/none")

    ran = batchproc("status")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("batchproc: cannot connect to the database ")
    assert "hunter2" not in ran.err
    assert ran.err.count("\n") == 1


def test_an_error_of_the_database_is_its_own_sentence_without_the_rows_it_quotes(
    batchproc: Command, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        with connect(database_url) as connection:
            connection.execute(
                "do $$ begin raise exception 'no postgresql://me:hunter2@host' using detail = 'Key (title)=(Will)',"
                " hint = 'none'; end $$"
            )

    monkeypatch.setattr(main.cli, "main", refused)

    ran = batchproc("status")

    assert ran.code == 3
    expected = "the database refused: no postgresql://me:***@host: check it with: batchproc doctor"
    assert ran.err == f"batchproc: {expected}\n"


def test_a_database_without_migrations_is_refused_with_advice(
    batchproc: Command, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", empty_database_url)

    refused = batchproc("status")
    assert (refused.code, "run: batchproc migrate" in refused.err) == (2, True)

    assert batchproc("migrate", "--json").json == {
        "applied": [
            "0001_initial",
            "0002_faults",
            "0003_pages",
            "0004_scale",
            "0005_operations",
            "0006_operations_indexes",
        ]
    }
    assert batchproc("migrate").out == "nothing to do: the database is up to date\n"
    assert batchproc("status").code == 0


def test_all_errors_of_the_settings_come_at_once(batchproc: Command, tmp_path: Any) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("pool:\n  workers: 0\n  wrokers: 2\nocr: {dpi: 9}\n")

    ran = batchproc("--conf", str(bad), "status")

    assert ran.code == 2
    assert f"{bad}:2: pool.workers: " in ran.err
    assert f"{bad}:3: pool.wrokers: " in ran.err
    assert f"{bad}:4: ocr.dpi: " in ran.err


def test_help_names_every_command(batchproc: Command) -> None:
    shown = batchproc("--help").out

    for name in ("run", "import", "enqueue", "status", "jobs", "documents", "tenants", "kinds", "db", "migrate"):
        assert f"\n  {name} " in shown
    assert batchproc("run", "--help").code == 0
    assert batchproc("--version").out.startswith("batchproc, version ")
