"""The database is there, but cut off or standing still: leases end in time, and nobody rescues the living."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.running import alive
from tests.faults.faulty_server import FaultyBench, Nodes, through
from tests.faults.outages import HARMLESS, assert_listens, begun, end_of_leases, wait_for_end_of_leases
from tests.faults.proxy import Proxy
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]


def workers_of(folder: Path) -> list[int]:
    """Those that have begun ``d_until``, in any order."""
    return [int(line) for file in folder.glob("begun-*") for line in file.read_text().split()]


def test_a_silent_connection_is_given_up_and_works_again(
    faulty_bench: FaultyBench, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is sent is swallowed and nothing comes back, but every connection stays open."""
    monkeypatch.setattr("batchproc.engine.sessions._LEAST_PATIENCE", 2.0)
    tenant = faulty_bench.tenant("acme")
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    hanging = faulty_bench.enqueue(tenant, "d_hangs", {"folder": str(tmp_path)})

    def silence() -> None:
        wait_until(lambda: begun(tmp_path) == 1 and (tmp_path / "hangs").exists(), 20, "both are busy")
        proxy.silent.set()
        hung = int((tmp_path / "hangs").read_text())
        wait_until(lambda: not alive(hung), 2.5, "its timeout does not wait for the database")
        [worker] = workers_of(tmp_path)
        living = "select count(*) from batchproc.nodes where lease_until > clock_timestamp()"
        wait_until(lambda: not alive(worker) or not faulty_bench.value(living), 10, "given up, or the lease has ended")
        assert not alive(worker), "the lease is given up before it ends"
        proxy.silent.clear()
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([busy]), 30, "it is completed")
        assert_listens(faulty_bench, tenant)

    faulty_bench.run_during(silence, url=through(proxy, faulty_bench), dispatch={"poll_interval": 0.5, "lease": 3.0})

    assert faulty_bench.endings(busy) == [("interrupted", None), ("completed", None)]
    assert faulty_bench.endings(hanging) == [("failed", "timeout")]


@pytest.mark.long
def test_a_node_cut_off_for_longer_than_its_lease_stops_before_another_takes_over(
    faulty_bench: FaultyBench, proxy: Proxy, nodes: Nodes, tmp_path: Path
) -> None:
    tenant = faulty_bench.tenant("acme")
    busy = faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)})
    quick = {"poll_interval": 0.2, "lease": 4.0}

    def cut_off() -> None:
        wait_until(lambda: begun(tmp_path) == 1, 20, "it is busy")
        [worker] = workers_of(tmp_path)
        other = nodes.start(faulty_bench.url, "--forever", "--workers", "1", dispatch=quick)
        wait_until(lambda: faulty_bench.value("select count(*) from batchproc.nodes") == 2, 20, "another node")
        proxy.silent.set()
        wait_until(lambda: len(workers_of(tmp_path)) == 2, 30, "the other node runs it")
        assert not alive(worker), "by then the first has stopped"
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done([busy]), 10, "the other node completes it")
        proxy.silent.clear()
        other.terminate()
        other.wait(20)
        more = [faulty_bench.enqueue(tenant, "d_quick") for _ in range(5)]
        wait_until(lambda: faulty_bench.done(more), 30, "the first has joined again and claims")

    faulty_bench.run_during(cut_off, url=through(proxy, faulty_bench), dispatch=quick)

    assert faulty_bench.endings(busy) == [("failed", "lease_expired"), ("completed", None)]
    assert faulty_bench.value("select attempt from batchproc.processing_jobs where job_id = %s", busy) == 1


# -- several nodes


@pytest.mark.long
@pytest.mark.parametrize("fault", ["refused", "frozen", "restarted"])
def test_nobody_rescues_the_living(faulty_bench: FaultyBench, nodes: Nodes, tmp_path: Path, fault: str) -> None:
    """Everybody's lease ends during the outage, and each node could take the other's jobs after it."""
    tenant = faulty_bench.tenant("acme")
    busy = [faulty_bench.enqueue(tenant, "d_until", {"folder": str(tmp_path)}) for _ in range(4)]
    quick = {"poll_interval": 0.2, "lease": 4.0}

    def outage() -> None:
        nodes.start(faulty_bench.url, "--forever", "--workers", "2", dispatch=quick)
        wait_until(lambda: begun(tmp_path) == 4, 30, "both nodes are busy")
        expired = "select bool_and(lease_until < clock_timestamp()) from batchproc.nodes"
        end = end_of_leases(faulty_bench)
        if fault == "frozen":
            with faulty_bench.server.frozen():
                wait_for_end_of_leases(end)
        elif fault == "refused":
            faulty_bench.allow_connections(False)
            faulty_bench.terminate_all()
            wait_until(lambda: faulty_bench.value(expired), 10, "every lease has ended")
            faulty_bench.allow_connections(True)
        else:
            faulty_bench.server.embedded.stop("fast")
            wait_for_end_of_leases(end)
            faulty_bench.server.start()
            faulty_bench.reconnect()
        (tmp_path / "go").touch()
        wait_until(lambda: faulty_bench.done(busy), 30, "all are completed")
        nodes.end()

    faulty_bench.run_during(outage, workers=2, dispatch=quick)

    assert faulty_bench.all_endings() <= HARMLESS
