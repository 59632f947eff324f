"""What a shell is told of values: those in the database, quickly or not at all, and nothing that it could run."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.completion import values
from batchproc.cli.completion.offered import Offered
from batchproc.core.failure_codes import BAD_CONTENT, RESERVED
from batchproc.database import connect
from tests.cli.test_help import COMMANDS
from tests.handlers.running_job import Conn, add_tenant
from tests.queue.helpers import enqueue

Completes = Callable[..., list[str]]
LIMITS = ("SECONDS", "STATEMENT_SECONDS", "LOCK_SECONDS")
LONG = 60.0
"""Far more than what is to be waited for takes, and far less than what is not to be."""
NOISE = ["$(touch ran)", "`touch ran`", "*", "a b", "a\nplain,b", "\x1b[31mred", "-x", "~root", "a;b", "ä", ""]


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def completes(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Completes:
    """What bash is told of the last of the words, however busy this machine is; nothing else is printed."""
    for limit in LIMITS:
        monkeypatch.setattr(values, limit, LONG)
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", database_url)
    monkeypatch.setenv("BATCHPROC_HOME", str(tmp_path / "home"))

    def ask(*words: str, shell: str = "bash") -> list[str]:
        capfd.readouterr()
        monkeypatch.setenv("_BATCHPROC_COMPLETE", f"{shell}_complete")
        line = re.sub(r" = ?", "=", " ".join(["batchproc", *words]))
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_WORD", "" if words[-1] == "=" else words[-1])  # as bash, for which = is one of its own
        monkeypatch.setenv("COMP_WORDS", "\n".join(["batchproc", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        with pytest.raises(SystemExit):
            main.run([])
        said = capfd.readouterr()
        assert said.err == ""
        return said.out.split()

    return ask


@pytest.fixture
def stored(connection: Conn) -> None:
    for slug in ("acme", "acid", "bolt"):
        add_tenant(connection, slug)
    connection.execute("insert into batchproc.kinds (kind) values ('ocr'), ('own_kind')")
    connection.execute("insert into batchproc.campaigns (command) values ('import'), ('reprocess')")
    connection.execute("insert into batchproc.runs (node_id) values (gen_random_uuid()), (gen_random_uuid())")
    job_id = enqueue(connection, 1)
    connection.execute(
        "update batchproc.processing_jobs set state = 'discarded', finished_at = now(), run_id = 2,"
        " failure_code = 'no_luck' where job_id = %s",
        [job_id],
    )


CASES = [
    (["jobs", "list", "--tenant", "ac"], ["acid", "acme"]),
    (["jobs", "list", "--tenant", "=", "ac"], ["acid", "acme"]),
    (["jobs", "list", "--tenant", "="], ["acid", "acme", "bolt"]),
    (["jobs", "list", "--tenant", "=", "acme", "--kind", "o"], ["ocr", "own_kind"]),
    (["run", "--tenant", "acme", "--tenant", ""], ["acid", "acme", "bolt"]),
    (["--kind", "oc"], ["ocr"]),
    (["tenants", "set", "b"], ["bolt"]),
    (["tenants", "add", "b"], []),
    (["enqueue", "ow"], ["own_kind"]),
    (["kinds", "set", ""], ["ocr", "own_kind"]),
    (["jobs", "retry", "--campaign", ""], ["2", "1"]),
    (["campaigns", "show", "2"], ["2"]),
    (["report", ""], ["2", "1"]),
    (["jobs", "list", "--state", "run"], ["running"]),
    (["jobs", "list", "--failure-code", "enc"], ["encrypted"]),
    (["jobs", "list", "--failure-code", "no_"], ["no_luck", "no_space"]),
    (["documents", "list", "--status", "par"], ["partial"]),
    (["enqueue", "ocr", "--lane", ""], ["interactive", "bulk"]),
]


@pytest.mark.usefixtures("stored")
def test_the_values_that_there_are_are_offered(completes: Completes) -> None:
    found = {tuple(words): [line.split(",", 1)[1] for line in completes(*words)] for words, _ in CASES}
    assert found == {tuple(words): expected for words, expected in CASES}
    assert completes("jobs", "list", "--tenant", "bo", shell="zsh") == ["plain", "bolt", "_"]
    assert completes("jobs", "list", "--tenant", "bo", shell="fish")[0].startswith("plain,bolt")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ki"], {"kinds"}),
        (["--onc"], {"--once"}),
        (["--conf", "site.yaml", "kinds", "s"], {"set", "show"}),
        (["run", "--lane", ""], {"interactive", "bulk"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_is_told_what_may_come(completes: Completes, words: list[str], expected: set[str]) -> None:
    assert {line.split(",", 1)[1] for line in completes(*words)} == expected


def test_every_argument_of_that_kind_is_completed() -> None:
    names = {"SLUG", "KIND", "CODE"}
    missing = [
        (path, param.name)
        for path, command in COMMANDS.items()
        for param in command.params
        if (param.metavar in names or param.name in ("slug", "kind", "campaign_id", "run_id"))
        and not isinstance(param.type, Offered | click.Choice)
    ]
    assert missing == [("tenants add", "slug")]


@pytest.mark.usefixtures("stored")
def test_bash_completes_values_and_runs_none(database_url: str, connection: Conn, tmp_path: Path) -> None:
    connection.execute("alter table batchproc.tenants drop constraint tenants_slug_check")
    for slug in NOISE:
        connection.execute("insert into batchproc.tenants (slug) values (%s)", [slug])
    program = tmp_path / "batchproc"
    patient = "; ".join(f"values.{limit} = {LONG}" for limit in LIMITS)
    code = f"from batchproc.cli import main; from batchproc.cli.completion import values; {patient}; main.main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = "source <(batchproc completion bash); COMP_LINE='batchproc jobs list --tenant '; COMP_POINT=29; "
    script += 'cd "$(mktemp -d -p "$HERE")"; touch file; _batchproc_completion batchproc "" --tenant; '
    script += 'printf "%s\\n" "${COMPREPLY[@]}"; ls; COMP_LINE="batchproc kinds s"; COMP_POINT=17; COMPREPLY=(); '
    script += '_batchproc_completion batchproc s kinds; echo "${COMPREPLY[*]}"'
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HERE": str(tmp_path),
        "BATCHPROC_DATABASE_URL": database_url,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["acid", "acme", "bolt", "file", "set show", ""]
    assert done.stderr == ""


def test_a_database_that_does_not_answer_is_not_waited_for(
    completes: Completes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("BATCHPROC_DATABASE_URL", f"postgresql://ada:hunter2@127.0.0.1:{port}/archive")
        begun = time.monotonic()
        assert completes("jobs", "list", "--tenant", "") == []
        assert completes("jobs", "list", "--failure-code", "tim") == ["plain,timeout"]
        assert time.monotonic() - begun < LONG, "it would never answer"
    assert completes("jobs", "list", "--tenant", "") == []


@pytest.mark.usefixtures("stored")
def test_a_lock_is_not_waited_for(completes: Completes, connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "LOCK_SECONDS", 0.05)
    with connection.transaction():
        connection.execute("lock table batchproc.tenants in access exclusive mode")
        begun = time.monotonic()
        assert completes("jobs", "list", "--tenant", "") == []
        assert time.monotonic() - begun < LONG, "it is held until the end of this block"
    assert completes("jobs", "list", "--tenant", "bo") == ["plain,bolt"]


@pytest.mark.usefixtures("stored")
def test_a_look_that_takes_long_is_ended_by_the_server(
    completes: Completes, connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("alter table batchproc.tenants rename to all_tenants")
    connection.execute("create view batchproc.tenants as select t.* from batchproc.all_tenants t, pg_sleep(600)")
    monkeypatch.setattr(values, "STATEMENT_SECONDS", 0.05)
    begun = time.monotonic()
    assert completes("jobs", "list", "--tenant", "") == []
    assert time.monotonic() - begun < LONG, "it takes ten minutes"
    left = connection.execute("select count(*) from pg_stat_activity where wait_event = 'PgSleep' and state = 'active'")
    assert left.fetchone() == (0,)


def test_no_server_is_started_and_nothing_is_made_for_a_completion(
    completes: Completes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BATCHPROC_DATABASE_URL")
    before = sorted(tmp_path.iterdir())
    assert completes("jobs", "list", "--tenant", "") == []
    assert sorted(tmp_path.iterdir()) == before


def test_settings_that_cannot_be_read_give_what_the_program_itself_knows(completes: Completes, tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text("pool: {workers: [secret]}\n")
    assert completes("--conf", str(conf), "jobs", "list", "--tenant", "") == []
    offered = completes("--conf", str(conf), "jobs", "list", "--failure-code", "")
    assert {line.removeprefix("plain,") for line in offered} == RESERVED | BAD_CONTENT


def test_no_module_of_a_handler_is_run_and_no_log_is_written(completes: Completes, tmp_path: Path) -> None:
    """It could print where nobody catches it, and take its time."""
    (tmp_path / "noisy_handlers.py").write_text(
        f"import os\nos.write(1, b'plain,time_to_go\\n')\nopen({str(tmp_path / 'ran')!r}, 'w').close()\n"
    )
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"handlers: [noisy_handlers]\nlogging: {{file: '{tmp_path}/log', level: debug}}\n")
    before = sorted(tmp_path.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        assert completes("--conf", str(conf), "jobs", "list", "--failure-code", "tim") == ["plain,timeout"]
    assert sorted(tmp_path.iterdir()) == before
