"""The workers of a node, and the folder that is theirs while they run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from batchproc.engine import kinds, worker
from batchproc.engine.pool.worker_pool import Ended, Entry, PoolOptions, WorkerPool
from batchproc.engine.workdir import node_folder


@contextlib.contextmanager
def node_pool(
    told: worker.WorkerOptions, node_id: UUID, workers: int, heard: Callable[[Sequence[Ended]], None]
) -> Iterator[WorkerPool]:
    """So many workers, ready; the caller holds the forkserver.

    Args:
        told: what each worker is told.
        heard: see ``WorkerPool``.
    """
    settings = told.settings.pool
    with node_folder() as folder:
        options = PoolOptions(
            workers=workers,
            node_id=str(node_id),
            max_jobs_per_worker=settings.max_jobs_per_worker,
            preload=kinds.PRELOAD,
            workdir=folder,
            memory_limit_mb=settings.memory_limit_mb,
            nice=settings.nice,
        )
        pool = WorkerPool(options, Entry(worker.run, worker.initialize, (told,)), heard)
        try:
            pool.start()
            yield pool
        finally:
            pool.close()
