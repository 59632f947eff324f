"""The database, or only its direct URL, is away when a node starts, or later: no run waits for either for ever."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from batchproc.core.job import KindSpec
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.faults.faulty_server import FaultyBench, Nodes, through
from tests.faults.proxy import Proxy
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]

Passage = tuple[str, Callable[[], None]]

JOINING = """
import signal
import sys
from batchproc.core.errors import BatchprocError
from batchproc.engine import signals
from batchproc.engine.node import Node, RunOptions
from tests.engine.running import settings

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup have it ignored, and a run respects that
signals.hear_from_now_on()
try:
    Node(settings(), sys.argv[1], sys.argv[1], lambda *_: None).run(RunOptions(workers=1))
except BatchprocError as error:
    print(error.message)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def nobody() -> Iterator[str]:
    """A database where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"postgresql://batchproc@127.0.0.1:{bound.getsockname()[1]}/nowhere"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_while_the_database_is_away_at_the_start_ends_it_at_once(nobody: str, number: int) -> None:
    start = subprocess.Popen(
        [sys.executable, "-c", JOINING, nobody], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert start.stderr is not None
    with start:
        try:
            assert any("the database failed" in line for line in start.stderr), "it waits for the database"
            start.send_signal(number)
            out, _ = start.communicate(timeout=10)
        finally:
            start.kill()
    assert start.returncode == 3
    assert out.startswith("stopped while the database was away, before anything was claimed: cannot connect")


def test_a_direct_url_that_does_not_work_is_told_at_once(faulty_bench: FaultyBench, nodes: Nodes, nobody: str) -> None:
    run = nodes.start(faulty_bench.url, database={"direct_url": nobody})
    out, errors = run.communicate(timeout=30)

    assert (run.returncode, out) == (3, "")
    [line] = errors.splitlines()
    assert line.startswith("batchproc: database.url works, but not database.direct_url: cannot connect")
    assert "leave it out" in line
    assert faulty_bench.rows("select from batchproc.nodes") == []
    assert faulty_bench.rows("select from batchproc.runs") == []


@pytest.fixture
def passage(faulty_bench: FaultyBench) -> Iterator[Passage]:
    """A URL of the bench's database, and what closes the way to it for good."""
    with ExitStack() as stack:
        made = Proxy(faulty_bench.server.embedded.place.sockets / ".s.PGSQL.5432")
        stack.callback(made.close)

        def close() -> None:
            stack.pop_all().close()

        yield through(made, faulty_bench), close


def expired_claim(bench: FaultyBench, tenant: int) -> int:
    """A job that a node which died has claimed."""
    job = bench.enqueue(tenant, "d_quick")
    dead = NodeStore("batchproc", uuid4(), {"d_quick": KindSpec("d_quick")})
    dead.join(bench.connection, NodeFacts(dead.node_id, "dead", 1, 1, ("d_quick",), (), "", ""), 60)
    assert dead.claim_one(bench.connection, job, None) is not None
    bench.rows("update batchproc.nodes set lease_until = now() - interval '1 minute' returning 1")
    return job


@pytest.mark.parametrize("mode", ["forever", "a claim to rescue"])
def test_a_direct_url_that_stops_to_work_ends_the_run_after_the_limit(
    faulty_bench: FaultyBench, nodes: Nodes, passage: Passage, mode: str
) -> None:
    """It alone serves housekeeping, without which nothing is learnt, promoted or rescued."""
    url, close = passage
    tenant = faulty_bench.tenant("acme")
    jobs = [expired_claim(faulty_bench, tenant)] if mode == "a claim to rescue" else []
    run = nodes.start(
        faulty_bench.url,
        *(["--forever"] if mode == "forever" else []),
        database={"direct_url": url, "outage_limit": 1.5},
        dispatch={"lease": 10.0, "poll_interval": 0.2},
    )
    living = "select count(*) from batchproc.nodes where lease_until > now()"
    wait_until(lambda: faulty_bench.value(living) == 1, 30, "it has joined")

    close()
    _, errors = run.communicate(timeout=30)

    assert run.returncode == 3
    line = errors.splitlines()[-1]
    assert line.startswith("batchproc: the database at database.direct_url failed for 1.5 s (cannot connect")
    assert "database.direct_url works" in line
    assert faulty_bench.rows("select exit_code from batchproc.runs where finished_at is not null") == [(3,)]
    again = nodes.start(faulty_bench.url, dispatch={"lease": 2.0, "poll_interval": 0.2})
    assert again.wait(30) == 0
    assert faulty_bench.done(jobs)
