"""What tests of outages wait for, and look at after them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.faults.faulty_server import FaultyBench, FaultyServer
from tests.waiting import wait_until

HARMLESS = {("completed", None), ("interrupted", None)}
"""(outcome, error class) of attempts that an outage may lead to without one being used."""


def begun(folder: Path) -> int:
    return len(list(folder.glob("begun-*")))


def wait_for_failures(lines: list[str], times: int) -> None:
    """So many times a node in this process has tried in vain to connect, from now on."""
    before = len(lines)
    failures = ("housekeeping lost the database", "the lease could not be renewed")
    wait_until(lambda: sum(line.startswith(failures) for line in lines[before:]) >= times, 20, "it tries in vain")


def wait_for_refusals(server: FaultyServer, times: int, why: str) -> None:
    """So many times the server has refused a connection, from now on, by its own log."""
    before = server.embedded.place.log.stat().st_size

    def refusals() -> int:
        with server.embedded.place.log.open() as log:
            log.seek(before)
            return log.read().count(why)

    wait_until(lambda: refusals() >= times, 60, f"it refuses: {why}")


def end_of_leases(bench: FaultyBench) -> datetime:
    """When the last lease ends if none is renewed any more; the server's clock is this machine's."""
    latest: datetime = bench.value("select max(lease_until) from batchproc.nodes")
    return latest


def wait_for_end_of_leases(end: datetime) -> None:
    wait_until(lambda: datetime.now(UTC) > end, 60, "every lease has ended")


def assert_listens(bench: FaultyBench, tenant: int) -> None:
    """A notification is heard, long before the next poll."""
    job = bench.enqueue(tenant, "d_quick")
    wait_until(lambda: bench.state(job) == "completed", 8, "claimed by its notification")


def assert_wrote_once(bench: FaultyBench, job_ids: list[int]) -> None:
    assert bench.value("select count(*) from written where job_id = any(%s)", job_ids) == len(job_ids)
