"""What one run tells its dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from batchproc.core.job import Lane
from batchproc.engine.ready import Scope
from batchproc.engine.run_report import RunOptions
from batchproc.engine.window import WindowWatch
from batchproc.settings import Settings


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """How one run dispatches. Times in seconds; ``max_jobs`` None is without end."""

    workers: int
    lane_weights: Mapping[int, float]
    fairness: Literal["round_robin", "worker_seconds"] = "round_robin"
    reserved: int = 0
    poll_interval: float = 1.0
    drain_wait: float = 600.0
    shutdown_grace: float = 30.0
    outage_limit: float = 600.0
    max_node_losses: int = 10
    forever: bool = False
    max_jobs: int | None = None
    scope: Scope = field(default_factory=Scope)
    window: WindowWatch = field(default_factory=WindowWatch)


def dispatch_options(settings: Settings, options: RunOptions, window: WindowWatch) -> DispatchOptions:
    """How a run that was asked for like that dispatches under these settings."""
    dispatch = settings.dispatch
    return DispatchOptions(
        workers=options.workers,
        lane_weights={Lane.INTERACTIVE: dispatch.lanes.interactive, Lane.BULK: dispatch.lanes.bulk},
        fairness=dispatch.fairness,
        # A flag, or one job alone, may leave fewer workers than the settings count on.
        reserved=min(dispatch.reserved, options.workers - 1),
        poll_interval=dispatch.poll_interval,
        drain_wait=dispatch.drain_wait,
        shutdown_grace=settings.pool.shutdown_grace,
        outage_limit=settings.database.outage_limit,
        max_node_losses=settings.retry.max_node_losses,
        forever=options.forever,
        max_jobs=1 if options.single else options.max_jobs,
        scope=options.scope,
        window=window,
    )
