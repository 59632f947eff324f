"""The application of ``bench latency``, in a process of its own: it enqueues one job per transaction, now and then.

Run as ``python -m batchproc.ops.bench.arrivals``. It reads one JSON object (``database``, ``schema``, ``tenant_id``,
``kind``, ``warm_up``, ``jobs``, ``gap``: the mean seconds between two, ``parent``: the pid with which it ends) from
stdin and connects. Then it enqueues the ``warm_up`` jobs, each when the one before has ended, so that the node is known
to be at work, and after them the jobs, and writes ``{"enqueued": [[job_id, before, after], ...], "commits": [...],
"notifies": [...]}``: times of the monotonic clock before the call and after its commit; seconds of one-row commits, and
from before a NOTIFY until another session has heard it, each measured as often as a job was enqueued and in between.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from batchproc.core.job import NewJob
from batchproc.database import SqlFolder, connect
from batchproc.engine.pool import processes
from batchproc.queue.store import JobStore

_PATIENCE = 10.0
_LOOK = 0.01


def main() -> None:
    """Serves one bench run."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGKILL)
    line = sys.stdin.readline()
    if not line or os.getppid() != (order := json.loads(line))["parent"]:  # it died before the signal was asked for
        return
    store, statements = JobStore(order["schema"]), SqlFolder("batchproc.ops.bench", order["schema"])
    with connect(order["database"]) as connection, connect(order["database"]) as hearer:
        channel = f"{order['schema']}_bare"
        hearer.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        job = NewJob(order["tenant_id"], order["kind"])
        for _ in range(order["warm_up"]):
            waited = store.enqueue(connection, job).job_id
            while connection.execute(statements["bench_is_waiting"], [waited]).fetchone() is not None:
                time.sleep(_LOOK)
        enqueued, commits, notifies = [], [], []
        for number in range(order["jobs"]):
            # Not in step with anything of the node.
            time.sleep(order["gap"] * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            before = time.monotonic()
            job_id = store.enqueue(connection, job).job_id
            enqueued.append((job_id, before, time.monotonic()))
            time.sleep(order["gap"] / 2)
            before = time.monotonic()
            connection.execute(statements["bench_commit"], [number])
            commits.append(time.monotonic() - before)
            notifies.append(_heard_after(connection, hearer, channel))
    print(json.dumps({"enqueued": enqueued, "commits": commits, "notifies": notifies}), flush=True)  # noqa: T201


def _heard_after(connection: Connection[TupleRow], hearer: Connection[TupleRow], channel: str) -> float:
    before = time.monotonic()
    connection.execute("select pg_notify(%s, '')", [channel])
    for _ in hearer.notifies(timeout=_PATIENCE, stop_after=1):
        return time.monotonic() - before
    raise SystemExit("a notification was not heard")


if __name__ == "__main__":
    main()
