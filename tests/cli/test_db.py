"""``batchproc db``, as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from batchproc.cli.main import cli
from batchproc.core.errors import UsageError
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from batchproc.queue import migrate
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.database import new_home, remove_server


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """A home whose server the tests of this module share; they start it."""
    home = new_home()
    yield home
    remove_server(EmbeddedServer(home))


@pytest.fixture
def home(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that the commands find in the environment."""
    monkeypatch.setenv("BATCHPROC_HOME", str(module_home))
    return module_home


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["db", *arguments], catch_exceptions=False)


def test_a_server_is_started_shown_and_stopped(home: Path) -> None:
    server = EmbeddedServer(home)
    assert run("start").stdout == f"running: {server.url}\n"
    assert run("url").stdout == f"{server.url}\n"
    shown = json.loads(run("status", "--json").stdout)
    assert (shown["running"], shown["state"], shown["url"]) == (True, "ready", server.url)
    assert shown["version"].startswith("18")
    assert json.loads(run("--json", "status").stdout) == shown
    assert "state             ready\n" in run("status").stdout
    assert run("stop").stdout == "stopped\n"
    assert run("stop").stdout == "not running\n"
    shown = json.loads(run("status", "--json").stdout)
    assert (shown["running"], shown["state"], shown["pid"]) == (False, "stopped", None)


def test_dump_and_restore_start_the_server_themselves(home: Path, tmp_path: Path) -> None:
    run("stop")
    file = tmp_path / "dump"
    assert run("dump", str(file)).stdout == f"dumped to {file} ({file.stat().st_size} bytes)\n"
    run("stop")
    assert run("restore", "--clean", str(file)).stdout == f"restored from {file}\n"
    with pytest.raises(UsageError, match="no file"):
        run("restore", str(tmp_path / "absent"))


def test_psql_gets_the_arguments(home: Path) -> None:
    command = "from batchproc.cli.main import cli; cli()"
    arguments = ["db", "psql", "-At", "-c", "select current_user, current_database()"]
    called = subprocess.run(
        [sys.executable, "-c", command, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert called.stdout == "batchproc|batchproc\n", called.stderr


def test_a_server_that_a_run_uses_is_stopped_by_force_only(home: Path) -> None:
    run("start")
    with connect(EmbeddedServer(home).url) as connection:
        migrate.apply(connection)
        node = NodeStore("batchproc", uuid4(), {})
        node.join(connection, NodeFacts(node.node_id, "a-host", 4711, 1, (), (), "", ""), lease=60.0)
    with pytest.raises(UsageError, match=r"1 run is using the database \(process 4711 on a-host\): wait .* --force"):
        run("stop")
    assert EmbeddedServer(home).status().running
    assert run("stop", "--force").stdout == "stopped\n"

    run("start")
    with connect(EmbeddedServer(home).url) as connection:
        connection.execute("update batchproc.nodes set lease_until = 'epoch'")
    assert run("stop").stdout == "stopped\n", "a dead node is in nobody's way"
