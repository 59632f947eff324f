"""The peer of ``bench queue --peers``: celery's prefork pool on Redis, where celery and a Redis server are installed.

Of the queues that people use, the one that also runs each job in a process that can be killed. It gets what favours it:
a worker that does nothing but work (no gossip, no events), results ignored, a broker that writes nothing to the disk,
on a Unix socket, and no result of a task is waited for. ``celery`` acknowledges a task before it runs it, as is its
default, and loses it with its worker; ``celery_late`` after, as batchproc does.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import Final, Protocol

from batchproc.ops.bench.ocr_peers import run

_START_SECONDS: Final = 60.0
# Of the slowest that was seen: 20 jobs a second, on a machine with many times more to do than it had processors.
_JOB_SECONDS: Final = 0.05


class QueuePeer(Protocol):
    """A queue to measure."""

    @property
    def version(self) -> str: ...

    def jobs_per_second(self, jobs: int, workers: int) -> float:
        """Runs so many no-op jobs in so many processes.

        Raises:
            EnvironmentFault: it failed, or took too long.
        """


def installed_peers() -> dict[str, QueuePeer | None]:
    """By name; None for one that is not installed."""
    server = shutil.which("redis-server")
    modules = all(importlib.util.find_spec(name) is not None for name in ("celery", "redis"))
    if server is None or not modules:
        return {"celery": None, "celery_late": None}
    version = importlib.metadata.version("celery")
    return {"celery": Celery(server, version, late=False), "celery_late": Celery(server, version, late=True)}


@dataclass(frozen=True, slots=True)
class Celery:
    """See ``QueuePeer``."""

    redis_server: str
    version: str
    late: bool

    def jobs_per_second(self, jobs: int, workers: int) -> float:
        with tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder:
            order = {
                "redis_server": self.redis_server,
                "folder": folder,
                "jobs": jobs,
                "processes": workers,
                "late": self.late,
                "patience": _START_SECONDS,
            }
            command = (sys.executable, "-m", "batchproc.ops.bench.celery_loop", json.dumps(order))
            printed = run(command, 2 * _START_SECONDS + jobs * _JOB_SECONDS, {})
        return jobs / float(json.loads(printed.strip().splitlines()[-1])["seconds"])
