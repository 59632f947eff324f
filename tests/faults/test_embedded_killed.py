"""The embedded server under a run: killed, it is started again; stopped by a person, it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.embedded import DATABASE
from batchproc.queue import migrate
from tests.engine.running import alive
from tests.faults.faulty_server import FaultyBench, FaultyServer, Nodes
from tests.faults.outages import begun
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]


@pytest.fixture
def home_bench(
    faulty_bench: FaultyBench, faulty_server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyBench]:
    """The bench moved to the database that the server has for its home, and the home in the environment."""
    monkeypatch.setenv("BATCHPROC_HOME", str(faulty_server.embedded.place.home))
    own = faulty_bench.name
    faulty_bench.name = DATABASE
    faulty_bench.reconnect()
    migrate.apply(faulty_bench.connection)
    yield faulty_bench
    faulty_bench.reconnect()
    faulty_bench.connection.execute("drop schema batchproc cascade")
    faulty_bench.name = own


def test_a_killed_server_is_started_again_and_outlives_the_run(
    home_bench: FaultyBench, nodes: Nodes, tmp_path: Path
) -> None:
    tenant = home_bench.tenant("acme")
    jobs = [home_bench.enqueue(tenant, "d_brief") for _ in range(60)]
    busy = home_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    run = nodes.start(None, "--workers", "2", dispatch={"lease": 10.0})
    wait_until(lambda: begun(tmp_path) == 1, 30, "it is busy")

    home_bench.server.kill()
    (tmp_path / "go").touch()
    out, errors = run.communicate(timeout=60)

    assert (run.returncode, out, errors) == (0, "", "")
    started_again = home_bench.server.pid
    assert alive(started_again), "nothing kills it when the run ends"
    home_bench.reconnect()
    assert home_bench.done([*jobs, busy])
    assert home_bench.endings(busy) == [("completed", None)]


@pytest.mark.long
def test_a_stopped_server_is_left_stopped(home_bench: FaultyBench, nodes: Nodes, tmp_path: Path) -> None:
    tenant = home_bench.tenant("acme")
    job = home_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    settings = {"database": {"outage_limit": 2.0}, "dispatch": {"lease": 2.0}}
    run = nodes.start(None, **settings)
    wait_until(lambda: begun(tmp_path) == 1, 30, "it is busy")

    home_bench.server.embedded.stop("fast")
    (tmp_path / "go").touch()
    _, errors = run.communicate(timeout=30)

    assert run.returncode == 3
    assert "the database failed for 2 s" in errors
    assert not home_bench.server.embedded.status().running
    again = nodes.start(None, **settings)  # the next command starts it
    assert again.wait(30) == 0
    home_bench.reconnect()
    assert home_bench.state(job) == "completed"
