"""One run's night: its window, how long its jobs are expected to take, and what it says in the morning of what is left.

A run without a window has one, too: it never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.durations import duration
from batchproc.core.expectations import Expectations
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, Failed, Outcome
from batchproc.engine.run_report import RunOptions
from batchproc.engine.window import WindowWatch
from batchproc.queue.nights import NightStore

Observe = Callable[[Claim, Outcome, float], None]


class Night:
    """Of one run; for the dispatcher's thread.

    Args:
        grace: ``pool.shutdown_grace``, in seconds.
    """

    def __init__(self, schema: str, options: RunOptions, grace: float) -> None:
        self._store = NightStore(schema)
        self._options = options
        self._grace = grace
        self._claiming = 0.0 if options.window is None else options.window.claims_left(grace)
        self._expected = Expectations()
        self.watch = WindowWatch(options.window)

    def begin(self, connection: Connection[TupleRow]) -> None:
        """Reads what earlier days know, when that matters."""
        window = self._options.window
        if window is not None:
            logger.info("this run is gone at {}, in {}", window.shown, duration(window.left))
            self._expected.remember(self._store.usual(connection))
            self.watch.heed(self._expected)
            self._claiming = window.claims_left(self._grace)

    def noting(self, observe: Observe) -> Observe:
        """``observe``, which also tells this night of every attempt that ended by itself."""
        if self._options.window is None:
            return observe

        def note(claim: Claim, outcome: Outcome, seconds: float) -> None:
            if isinstance(outcome, Completed | Failed):
                self._expected.note(claim.kind, seconds)
            observe(claim, outcome, seconds)

        return note

    def left(self, connection: Connection[TupleRow], *, ended: bool) -> dict[str, Any]:
        """What of the report (see ``RunReport``) is about what is left.

        Args:
            ended: the window's end has stopped the run.
        """
        scope = self._options.scope
        left = self._store.left(connection, tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes)
        told: dict[str, Any] = {
            "left": sum(found.jobs for found in left.values()),
            "left_by_kind": {kind: found.jobs for kind, found in left.items()},
        }
        if self._options.job_id is None:
            kept = self._store.kept(connection, tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes)
            told |= {"kept": kept.most, "kept_more": kept.more}
        window = self._options.window
        claimable = {kind: found.claimable for kind, found in left.items() if found.claimable}
        if window is None or not claimable or not (ended or self.watch.withheld() & set(claimable)):
            return told
        too_long = self._expected.longer_than(window.length) & set(claimable)
        return told | {
            "window_ended": True,
            "nights_left": self._expected.windows(
                claimable, workers=self._options.workers, length=window.length, claiming=self._claiming
            ),
            "too_long": {kind: self._expected.seconds(kind) or 0.0 for kind in sorted(too_long)},
        }
