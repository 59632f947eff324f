"""What a shell is told of values: those in the database, quickly or not at all, and nothing that it could run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.cli.completion_values import SECONDS
from batchproc.cli.offered import Offered
from batchproc.database import connect
from tests.cli.test_help import COMMANDS
from tests.handlers.running_job import Conn, add_tenant

Completes = Callable[..., list[str]]
NOISE = ["$(touch ran)", "`touch ran`", "*", "a b", "a\nplain,b", "\x1b[31mred", "-x", "~root", "a;b", "ä", ""]


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def completes(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Completes:
    """What bash is told of the last of the words; nothing else is printed."""
    monkeypatch.setenv("BATCHPROC_DATABASE_URL", database_url)
    monkeypatch.setenv("BATCHPROC_HOME", str(tmp_path / "home"))

    def ask(*words: str, shell: str = "bash") -> list[str]:
        capfd.readouterr()
        monkeypatch.setenv("_BATCHPROC_COMPLETE", f"{shell}_complete")
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
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m batchproc "$@"\n')
    program.chmod(0o755)
    script = "source <(batchproc completion bash); COMP_WORDS=(batchproc jobs list --tenant ''); COMP_CWORD=4; "
    script += 'cd "$(mktemp -d -p "$HERE")"; touch file; _batchproc_completion batchproc "" --tenant; '
    script += 'printf "%s\\n" "${COMPREPLY[@]}"; ls; COMP_WORDS=(batchproc kinds s); COMP_CWORD=2; COMPREPLY=(); '
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
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("BATCHPROC_DATABASE_URL", f"postgresql://ada:hunter2@127.0.0.1:{port}/archive")
        begun = time.monotonic()
        assert completes("jobs", "list", "--tenant", "") == []
        assert time.monotonic() - begun < SECONDS + 1
    assert completes("jobs", "list", "--tenant", "") == []


@pytest.mark.usefixtures("stored")
def test_a_lock_is_not_waited_for(completes: Completes, connection: Conn) -> None:
    with connection.transaction():
        connection.execute("lock table batchproc.tenants in access exclusive mode")
        begun = time.monotonic()
        assert completes("jobs", "list", "--tenant", "") == []
        assert time.monotonic() - begun < SECONDS + 1
    assert completes("jobs", "list", "--tenant", "bo") == ["plain,bolt"]


def test_no_server_is_started_and_nothing_is_made_for_a_completion(
    completes: Completes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BATCHPROC_DATABASE_URL")
    before = sorted(tmp_path.iterdir())
    assert completes("jobs", "list", "--tenant", "") == []
    assert sorted(tmp_path.iterdir()) == before


def test_settings_that_cannot_be_read_give_nothing(completes: Completes, tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text("pool: {workers: [secret]}\n")
    assert completes("--conf", str(conf), "jobs", "list", "--tenant", "") == []


def test_codes_are_offered_although_a_handler_prints_or_cannot_be_imported(
    completes: Completes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "noisy_handlers.py").write_text("print('I am here')\nraise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    conf = tmp_path / "conf.yaml"
    conf.write_text("handlers: [noisy_handlers]\n")
    assert completes("--conf", str(conf), "jobs", "list", "--failure-code", "tim") == ["plain,timeout"]
