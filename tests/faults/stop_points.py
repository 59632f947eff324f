"""The command line of a build for tests: its node stops at a chosen point in the life of a ``t_chosen`` job.

    python -m tests.faults.stop_points python -P -m batchproc --conf ... run        with STOP_VARIABLE=point:folder

so that it can stand before any command line as ``tests.faults.command`` makes it.

At the point the node's main thread creates ``folder/reached`` and waits for ``folder/go``; signals reach it meanwhile,
and its other threads go on, as those of a node that is slow there. The product has no hooks for this: what passes each
point is wrapped here, before the guardian forks the node.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import Pipeline
from psycopg.abc import PQGen
from psycopg.waiting import Wait

from batchproc.cli.main import main
from batchproc.engine.pool.worker_pool import WorkerPool
from batchproc.queue.node_store import NodeStore

STOP_VARIABLE = "BATCHPROC_TEST_STOP"
CHOSEN_KIND = "t_chosen"

POINTS = ("claimed", "submitted", "arrived", "settling", "committing", "settled")
"""After the claim's commit; after the submit; when the result has arrived; before the settle is sent; when it is sent
and its answer not read; after its commit."""

_Wrapped = Callable[..., Any]


class StopPoint:
    """Stops once, in the life of the first chosen job."""

    def __init__(self, point: str, folder: Path) -> None:
        if point not in POINTS:
            raise ValueError(f"{point!r} is none of {POINTS}")
        self._point = point
        self._folder = folder
        self._claim: UUID | None = None
        self._is_over = False
        self._is_committing = False

    def install(self) -> None:
        """Wraps what a job passes on its way."""
        _wrap(NodeStore, "tick", self._tick)
        _wrap(WorkerPool, "submit", self._submit)
        _wrap(WorkerPool, "poll", self._poll)
        _wrap(Pipeline, "_exit_gen", self._exit_pipeline)

    def _tick(
        self, tick: _Wrapped, store: NodeStore, connection: Any, endings: Any, *arguments: Any, **named: Any
    ) -> Any:
        settles = self._holds(ending.transition.claim_id for ending in endings)
        if settles:
            self._pass("settling")
        self._is_committing = settles
        settled, claims = tick(store, connection, endings, *arguments, **named)
        self._is_committing = False
        if settles:
            self._pass("settled")
        if self._claim is None:
            self._claim = next((claim.claim_id for claim in claims if claim.kind == CHOSEN_KIND), None)
            if self._claim is not None:
                self._pass("claimed")
        return settled, claims

    def _submit(self, submit: _Wrapped, pool: WorkerPool, *works: Any, **named: Any) -> Any:
        slot = submit(pool, *works, **named)
        if self._holds(work.claim_id for work in works):
            self._pass("submitted")
        return slot

    def _poll(self, poll: _Wrapped, pool: WorkerPool) -> Any:
        ended = poll(pool)
        if self._holds(end.work.claim_id for end in ended):
            self._pass("arrived")
        return ended

    def _exit_pipeline(self, exit_gen: _Wrapped, pipeline: Pipeline) -> PQGen[None]:
        """Once psycopg waits for nothing but to read, all is sent."""
        steps = exit_gen(pipeline)
        try:
            waits_for = next(steps)
            while True:
                if self._is_committing and waits_for == Wait.R:
                    self._pass("committing")
                waits_for = steps.send((yield waits_for))
        except StopIteration:
            return

    def _holds(self, claims: Iterable[UUID]) -> bool:
        return self._claim is not None and self._claim in claims

    def _pass(self, point: str) -> None:
        if point != self._point or self._is_over:
            return
        self._is_over = True
        (self._folder / "reached").touch()
        while not (self._folder / "go").exists():
            time.sleep(0.005)


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return around(original, *arguments, **named)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    _point, _, _folder = os.environ.pop(STOP_VARIABLE).partition(":")
    StopPoint(_point, Path(_folder)).install()
    sys.argv = sys.argv[sys.argv.index("batchproc") :]
    main()
