"""What pebble alone takes for as many pools of one worker as there are slots: the limit of ``bench parent``."""

from __future__ import annotations

import os
import queue
import time
from concurrent import futures
from dataclasses import dataclass
from uuid import uuid4

from pebble import ProcessPool

from batchproc.engine.pool import forkserver
from batchproc.engine.pool.one_worker import OneWorkerContext


@dataclass(frozen=True, slots=True)
class Busy:
    """``cores``: processor seconds of this process a second, meanwhile; ``rate``: jobs a second."""

    cores: float
    rate: float


def nap(seconds: float) -> None:
    """The job of every pool."""
    time.sleep(seconds)


def bare_pools(slots: int, nap_seconds: float, seconds: float) -> Busy:
    """Keeps that many pools busy with naps, for so many seconds.

    Raises:
        EnvironmentFault: a process cannot be started.
    """
    contexts = [OneWorkerContext() for _ in range(slots)]
    forkserver.acquire()
    pools: list[ProcessPool] = []
    try:
        forkserver.ensure_running(f"bench-{uuid4()}", (__name__,))
        pools += [ProcessPool(max_workers=1, context=context) for context in contexts]
        for warm_up in [pool.schedule(os.getpid) for pool in pools]:
            warm_up.result()
        return _kept_busy(pools, nap_seconds, seconds)
    finally:
        for pool, context in zip(pools, contexts, strict=False):
            pool.stop()  # type: ignore[no-untyped-call] # pebble's
            context.close_writers()
            pool.join()
        forkserver.release()


def _kept_busy(pools: list[ProcessPool], nap_seconds: float, seconds: float) -> Busy:
    idle: queue.SimpleQueue[ProcessPool] = queue.SimpleQueue()
    for pool in pools:
        idle.put(pool)

    def give(pool: ProcessPool) -> None:
        def ended(_: futures.Future[None]) -> None:
            idle.put(pool)

        pool.schedule(nap, [nap_seconds]).add_done_callback(ended)

    done = 0
    busy, begun = time.process_time(), time.monotonic()
    while time.monotonic() < begun + seconds:
        give(idle.get())
        done += 1
    elapsed = time.monotonic() - begun
    rate = (done - len(pools)) / elapsed
    busy = time.process_time() - busy
    for _ in pools:  # those that nap still
        idle.get()
    return Busy(busy / elapsed, rate)
