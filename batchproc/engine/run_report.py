"""What one run is asked for, and what it has done in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from batchproc.core.brake import Braked
from batchproc.engine.counts import Counts
from batchproc.engine.ready import Scope


@dataclass(frozen=True)
class RunOptions:
    """What one ``run`` was asked for. ``job_id``: that job alone, due or not."""

    workers: int
    forever: bool = False
    max_jobs: int | None = None
    job_id: int | None = None
    scope: Scope = field(default_factory=Scope)

    @property
    def single(self) -> bool:
        """One job alone: somebody is looking for what is wrong with it."""
        return self.job_id is not None or self.max_jobs == 1


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``left``: jobs of its scope that still wait. ``seconds``: from start to end.

    ``stopped``: it ended because it was asked to. ``braked``: kinds that a brake has paused, in this run or before.
    ``warnings``: what of its settings cannot mean what it says.
    """

    run_id: int
    counts: Counts
    left: int
    seconds: float
    exit_code: int
    stopped: bool = False
    braked: tuple[Braked, ...] = ()
    warnings: tuple[str, ...] = ()
