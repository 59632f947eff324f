"""What the pool is given and what it hands back; plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from batchproc.core.outcome import Outcome
from batchproc.engine.pool.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How the pool is built. Times in seconds.

    Attributes:
        workers: the number of slots, at least 1.
        node_id: what marks this node's processes.
        workdir: a folder of this node alone, made with mode 0700; each worker gets a folder in it, removed with it.
        max_jobs_per_worker: a worker is replaced after so many jobs, a bundle counted as one; 0 is never.
        preload: modules that the forkserver imports once for all workers.
        memory_limit_mb: a worker's tree above this many MiB of resident memory is killed; None is no limit.
        nice: added to the niceness of the workers.
        start_attempts: how often a worker that cannot be started is tried before its slot is given up.
        start_timeout: how long a worker may take to be ready, initializer included.
        kill_deadline: after so long a job whose processes do not die is reported all the same; its slot stays taken.
    """

    workers: int
    node_id: str
    workdir: Path
    max_jobs_per_worker: int = 1000
    preload: tuple[str, ...] = ()
    memory_limit_mb: int | None = None
    nice: int = 0
    start_attempts: int = 3
    start_timeout: float = 60.0
    kill_deadline: float = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What a worker runs: importable functions of a module, never of ``__main__``, which workers do not import.

    ``initializer`` is called once in each worker with ``initargs``, ``function`` for each job with its job_id and
    its claim_id.
    """

    function: Callable[[int, UUID], Outcome]
    initializer: Callable[..., None]
    initargs: tuple[Any, ...] = ()


class Work(NamedTuple):
    """One claimed job. Limits in seconds: from its begin in the worker, and from its last sign of life."""

    job_id: int
    claim_id: UUID
    timeout: float
    stall_timeout: float | None = None


class Ended(NamedTuple):
    """How one submitted job ended.

    ``seconds`` is from its begin in the worker to its end; 0 of one that never began. ``killed`` means that the worker
    is dead, so that its database backend, ``backend_pid`` if it noted one, may still be busy.
    """

    slot: int
    work: Work
    outcome: Outcome
    worker_pid: int | None
    backend_pid: int | None
    seconds: float
    killed: bool


@dataclass(frozen=True, slots=True)
class Running:
    """The job that a slot is at; ``started`` is when its bundle was submitted, on ``time.monotonic``.

    ``resident_bytes``: what its worker's tree held when it was weighed last.
    """

    slot: int
    work: Work
    worker_pid: int | None
    started: float
    progress: Progress
    resident_bytes: int = 0
