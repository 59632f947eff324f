"""``bench ready``: what it takes to look for all ready queues, and to know as many of them."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from statistics import median
from typing import Any
from uuid import uuid4

import psutil

from batchproc.core.errors import EnvironmentFault
from batchproc.core.fairness import Queue
from batchproc.core.floors import Place
from batchproc.core.job import Claim, KindSpec
from batchproc.engine.ready import ReadyQueues, Scope
from batchproc.ops.bench.claiming import Claimer, Table, table
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.schema import Tell, Urls, bench_schema
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.queue.node_store import ReadyQueue
from batchproc.settings import Settings

_KINDS = ("bench_noop", "bench_second", "bench_third")
_PATIENCE = 120.0
_TURNS = 64


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """One run. Milliseconds: of the look that housekeeping makes, of taking over what it found, which the dispatcher
    does between two claims, of as many look-ups of known queues (the physical limit), and of the claims of 64 jobs,
    alone and while another thread looks again and again."""

    look_ms: float
    learn_ms: float
    look_up_ms: float
    claim_ms: float
    claim_beside_ms: float


@dataclass(frozen=True, slots=True)
class ReadyBench:
    """All runs; ``memory_mb`` is what a fresh process gained by knowing the queues, each with a floor; 50
    for 30,000 are bearable beside a node's hundreds."""

    queues: int
    jobs: int
    memory_mb: float
    runs: tuple[ReadyRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys: medians over the runs, and their spread."""
        runs = self.runs
        looks = Spread.of(run.look_ms for run in runs)
        return {
            "queues": self.queues,
            "jobs": self.jobs,
            "look_ms": looks.plain(),
            "microseconds_per_queue": round(1000 * looks.median / self.queues, 2),
            "ratio_to_look_ups": Spread.of(run.look_ms / run.look_up_ms for run in runs).plain(2),
            "learn_ms": Spread.of(run.learn_ms for run in runs).plain(),
            "claim_ratio_beside": Spread.of(run.claim_beside_ms / run.claim_ms for run in runs).plain(2),
            "memory_mb": round(self.memory_mb, 1),
            "runs": [
                {
                    "look_ms": round(run.look_ms, 1),
                    "look_ups_ms": round(run.look_up_ms, 1),
                    "learn_ms": round(run.learn_ms, 1),
                    "claim_ms": round(run.claim_ms, 2),
                    "claim_beside_ms": round(run.claim_beside_ms, 2),
                }
                for run in runs
            ],
        }


def bench_ready(
    settings: Settings, urls: Urls, *, tenants: int, jobs: int, claims: int, runs: int, tell: Tell
) -> ReadyBench:
    """Looks for the ready queues of ``tenants`` tenants with three kinds each.

    Args:
        jobs: that wait, spread over the queues.
        claims: of 64 jobs each, alone and beside the looks, in each run.

    Raises:
        Stopped: by a signal, or there are too few jobs.
        EnvironmentFault: the process whose memory is measured ended.
    """
    specs = [KindSpec(kind) for kind in _KINDS]
    with ended_by_sigterm(), bench_schema(settings, urls) as schema, table(schema, *specs) as filled:
        tell(f"{jobs} jobs of {tenants} tenants and {len(_KINDS)} kinds")
        filled.add_tenants(tenants)
        filled.add_jobs(jobs, _KINDS)
        filled.vacuum()
        found = filled.node.ready(filled.connection)
        memory = _memory_of(found)
        claimer = Claimer(filled, found)
        done = []
        for number in range(1, runs + 1):
            done.append(_run(filled, claimer, claims, number))
            tell(f"run {number} of {runs}: {done[-1].look_ms:.0f} ms for {len(found)} queues")
    return ReadyBench(len(found), jobs, memory, tuple(done))


def _run(filled: Table, claimer: Claimer, claims: int, number: int) -> ReadyRun:
    begun = time.perf_counter()
    found = filled.node.ready(filled.connection)
    looked = time.perf_counter()
    claimer.ready.learn(found)
    learnt = time.perf_counter()
    look_up = filled.look_up([ready.queue for ready in found])
    took = {}
    for side in alternated(("alone", "beside"), number):
        if side == "alone":
            took[side] = median(claimer.claim_often(claims, _TURNS))
        else:
            took[side] = _claims_beside_looks(filled, claimer, claims)
    return ReadyRun(
        look_ms=1000 * (looked - begun),
        learn_ms=1000 * (learnt - looked),
        look_up_ms=1000 * look_up,
        claim_ms=1000 * took["alone"],
        claim_beside_ms=1000 * took["beside"],
    )


def _claims_beside_looks(filled: Table, claimer: Claimer, claims: int) -> float:
    """As in a node: another thread looks on a connection of its own, here without a pause."""
    stop = threading.Event()
    with filled.schema.connect() as other:

        def look() -> None:
            while not stop.is_set():
                filled.node.ready(other)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            return median(claimer.claim_often(claims, _TURNS))
        finally:
            stop.set()
            thread.join()


# -- memory, in a process of its own


def _memory_of(found: Sequence[ReadyQueue]) -> float:
    """MB that a fresh process gains by knowing these queues."""
    context = multiprocessing.get_context("spawn")
    heard, telling = context.Pipe(duplex=False)
    rows = [(*ready.queue, ready.weight, ready.limited, *ready.front) for ready in found]
    process = context.Process(target=_know, args=(rows, telling), daemon=True)
    process.start()
    telling.close()
    try:
        if not heard.poll(_PATIENCE):
            raise EOFError
        return float(heard.recv()) / 2**20
    except EOFError:
        raise EnvironmentFault("the process whose memory is measured ended", "see the log with -v") from None
    finally:
        process.kill()
        process.join()


def _know(rows: list[tuple[Any, ...]], telling: Pipe) -> None:
    """Tells by how many bytes the process has grown when it knows the queues, and has claimed of each."""
    kinds = {kind: KindSpec(kind) for kind in _KINDS}
    _knowing(rows[:1], kinds)
    gc.collect()
    before = psutil.Process().memory_info().rss
    known = _knowing(rows, kinds)
    gc.collect()
    telling.send(psutil.Process().memory_info().rss - before)
    telling.close()
    del known


def _knowing(rows: list[tuple[Any, ...]], kinds: dict[str, KindSpec]) -> ReadyQueues:
    ready = ReadyQueues({0: 4.0, 1: 1.0}, kinds, Scope())
    ready.learn([_as_read(*row) for row in rows])
    for _ in range(len(rows) // _TURNS + 1):
        turns = ready.choose(_TURNS, None)
        claims = [
            Claim(2**40 + number, uuid4(), turn.queue.tenant_id, turn.queue.kind, turn.queue.lane, 5, 1, 5, 0, 0, 0)
            for number, turn in enumerate(turns)
        ]
        ready.claimed(turns, claims, 0.0)
    return ready


def _as_read(
    lane: int, tenant_id: int, kind: str, weight: float, limited: bool, priority: int, job_id: int
) -> ReadyQueue:
    """With values of its own, as a connection reads them."""
    queue = Queue(lane, int(str(tenant_id)), "".join(list(kind)))
    return ReadyQueue(queue, float(str(weight)), limited, Place(priority, int(str(job_id))))
