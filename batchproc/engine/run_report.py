"""What one run is asked for, and what it has done in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchproc.core.brake import Braked
from batchproc.engine.counts import Counts
from batchproc.engine.ready import Scope
from batchproc.engine.window import Window
from batchproc.queue.nights import Kept


@dataclass(frozen=True)
class RunOptions:
    """What one ``run`` was asked for. ``once``: one job alone, whichever is next; ``job_id``: that one, due or not.

    ``window``: the time that it has, None for as long as it takes. ``exclusive``: it gives way to any other run.
    ``pilot``: it is for the jobs of a pilot, and no night's work.
    """

    workers: int
    forever: bool = False
    max_jobs: int | None = None
    once: bool = False
    job_id: int | None = None
    scope: Scope = field(default_factory=Scope)
    window: Window | None = None
    exclusive: bool = False
    pilot: bool = False

    @property
    def single(self) -> bool:
        """One job alone: somebody is looking for what is wrong with it. A night that may do one job is none."""
        return self.once or self.job_id is not None

    def stored_scope(self) -> dict[str, Any]:
        """What is stored as the scope of the run; the functions run_is_single and run_covers of the schema read it.
        start_run.sql adds the kinds that the node has handlers of."""
        marks = {"single": self.single, "pilot": self.pilot}
        return self.scope.plain() | {name: True for name, holds in marks.items() if holds}


@dataclass(frozen=True)
class Begun:
    """A run that has begun: its id, the kinds that its node knows, its counts, which go on being counted, the kinds
    whose jobs it gives up on where no node has their languages, and what its node has the languages for, as
    `NodeStore.able`."""

    run_id: int
    kinds: frozenset[str]
    counts: Counts
    language_kinds: frozenset[str] = frozenset()
    able: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``left``: jobs of its scope that still wait. ``seconds``: from when it had joined to its end.

    Attributes:
        stopped: it ended because a signal asked it to.
        braked: kinds that a brake has paused, in this run or before.
        warnings: what of its settings cannot mean what it says.
        left_by_kind: ``left``, by kind.
        window_ended: its window (``--until``) ended before everything was done.
        nights_left: how many windows like this one what is left would take, at least 1; None when the window did not
            end it, or nobody knows how long such jobs take.
        too_long: kinds with jobs left of which one takes longer than the whole window, with the seconds that it is
            expected to take: they are never claimed in such a window.
        kept: what a person has paused or given a limit of 0, with how many of the jobs that are ``left`` that keeps;
            no more than ``MOST_KEPT``, those with most jobs. ``kept_more``: how many there are besides.
    """

    run_id: int
    counts: Counts
    left: int
    seconds: float
    exit_code: int
    stopped: bool = False
    braked: tuple[Braked, ...] = ()
    warnings: tuple[str, ...] = ()
    left_by_kind: Mapping[str, int] = field(default_factory=dict)
    window_ended: bool = False
    nights_left: int | None = None
    too_long: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    kept_more: int = 0
