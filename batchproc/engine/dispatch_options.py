"""What one run tells its dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from batchproc.engine.ready import Scope
from batchproc.engine.window import WindowWatch


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
