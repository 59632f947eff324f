"""``bench enqueue``: jobs a second by ``Queue.enqueue_many``, beside bare COPY of the same rows into the same table.

Both sides begin with an empty table, commit once, and take turns. The jobs of the one and the text of the other are
made before the clock starts: what is timed on batchproc's side is the check of the args, the lines and the COPY.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import NewJob
from batchproc.database import SqlFolder
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.schema import BenchSchema, Tell, Urls, bench_schema
from batchproc.ops.enqueueing import of_tenant
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.queue.copy_lines import CopyLines
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

KIND = "bench_noop"
SIDES = ("batchproc", "bare COPY")
WARM_UP = 1000
_CHUNK = 64 * 1024  # characters


@dataclass(frozen=True, slots=True)
class EnqueueRun:
    """Rows a second of one run of both sides."""

    batchproc: float
    bare_copy: float

    @property
    def ratio(self) -> float:
        return self.batchproc / self.bare_copy


@dataclass(frozen=True, slots=True)
class EnqueueBench:
    """All runs of a bench."""

    jobs: int
    runs: tuple[EnqueueRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys; medians over the runs."""
        ratio = Spread.of(run.ratio for run in self.runs)
        return {
            "ratio_to_bare_copy": round(ratio.median, 3),
            "least": round(ratio.least, 3),
            "most": round(ratio.most, 3),
            "rows_per_second": round(Spread.of(run.batchproc for run in self.runs).median),
            "bare_copy_rows_per_second": round(Spread.of(run.bare_copy for run in self.runs).median),
            "jobs": self.jobs,
            "runs": [
                {
                    "ratio": round(run.ratio, 3),
                    "rows_per_second": round(run.batchproc),
                    "bare_copy_rows_per_second": round(run.bare_copy),
                }
                for run in self.runs
            ],
        }


def bench_enqueue(settings: Settings, urls: Urls, *, jobs: int, runs: int, tell: Tell) -> EnqueueBench:
    """Enqueues the same jobs again and again.

    Args:
        jobs: how many in each run, of one tenant.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database is at fault.
    """
    done = []
    with ended_by_sigterm(), bench_schema(settings, urls) as schema:
        sides = _Sides(schema, jobs)
        with schema.connect() as connection:
            for side in SIDES:
                sides.measure(connection, side, WARM_UP)
            for number in range(1, runs + 1):
                rates = {side: sides.measure(connection, side, jobs) for side in alternated(SIDES, number)}
                done.append(EnqueueRun(rates["batchproc"], rates["bare COPY"]))
                tell(f"run {number} of {runs}: {done[-1].batchproc:.0f} rows/s, {done[-1].ratio:.2f} of bare COPY")
    return EnqueueBench(jobs, tuple(done))


class _Sides:
    """The rows, ready for either side."""

    def __init__(self, schema: BenchSchema, jobs: int) -> None:
        self._store = JobStore(schema.name)
        self._sql = SqlFolder("batchproc.ops.bench", schema.name)
        self._copy = SqlFolder("batchproc.queue", schema.name)["copy_jobs"]
        with schema.connect() as connection:
            self._tenant_id = self._store.add_tenant(connection, "bench").tenant_id
        self._jobs = [NewJob(0, KIND, {"page": number, "profile": "archive"}) for number in range(max(jobs, WARM_UP))]
        lines = CopyLines({}, ())
        self._lines = [lines.line(job) for job in of_tenant(self._jobs, self._tenant_id)]

    def measure(self, connection: Connection[TupleRow], side: str, count: int) -> float:
        """Rows a second."""
        connection.execute(self._sql["bench_empty_jobs"])
        jobs, text = self._jobs[:count], _chunks("".join(self._lines[:count]))
        started = time.perf_counter()
        with connection.transaction():
            if side == "batchproc":
                self._store.enqueue_many(connection, of_tenant(jobs, self._tenant_id))
            else:
                with connection.cursor() as cursor, cursor.copy(self._copy) as copy:
                    for chunk in text:
                        copy.write(chunk)
        return count / (time.perf_counter() - started)


def _chunks(text: str) -> Sequence[bytes]:
    whole = text.encode()
    return [whole[begin : begin + _CHUNK] for begin in range(0, len(whole), _CHUNK)]
