"""Jobs with short limits, and workers that cannot reach the database: its outage is charged to no job."""

from __future__ import annotations

from tests.faults import short_limit_handlers
from tests.faults.faulty_server import FaultyBench
from tests.waiting import wait_until

pytest_plugins = ["tests.faults.faulty_fixtures"]


LATER = """
    update batchproc.processing_jobs set run_at = clock_timestamp() where state = 'scheduled' returning job_id
"""


NODE_SESSIONS = """
    select pid from pg_stat_activity where datname = current_database() and application_name = 'batchproc node'
"""


def test_a_worker_that_cannot_connect_uses_no_attempt_however_short_the_limits(
    faulty_bench: FaultyBench,
) -> None:
    tenant = faulty_bench.tenant("acme")
    jobs: list[int] = []

    def refuse() -> None:
        wait_until(lambda: len(faulty_bench.rows(NODE_SESSIONS)) >= 3, 20, "the node has its connections")
        faulty_bench.allow_connections(False)  # no worker has one before its first job
        jobs.extend(faulty_bench.enqueue(tenant, kind) for kind in ("s_brief", "s_silent"))
        wait_until(lambda: all(faulty_bench.endings(job) for job in jobs), 20, "each was tried")
        faulty_bench.allow_connections(True)
        faulty_bench.rows(LATER)
        wait_until(lambda: faulty_bench.done(jobs), 40, "all are completed")

    faulty_bench.run_during(refuse, workers=2, handlers=[short_limit_handlers.MODULE], dispatch={"lease": 60.0})

    for job in jobs:
        *before, last = faulty_bench.endings(job)
        assert last == ("completed", None)
        assert {error_class for _, error_class in before} == {"storage_unavailable"}
        assert faulty_bench.job(job)["attempt"] == 1
