"""The states of a campaign's jobs, in the parts that have an index each.

There is none over all states, as every claim would write it (see the migrations 0002 and 0006). A statement that asks
for the jobs of a campaign in the order of their ids is run once for each part: asked for all at once it would go
through the jobs of everybody by the primary key.
"""

from __future__ import annotations

from collections.abc import Sequence

from batchproc.core.job import JobState

PARTS: tuple[tuple[JobState, ...], ...] = (
    (JobState.SCHEDULED, JobState.AVAILABLE),
    (JobState.HELD,),
    (JobState.RUNNING,),
    (JobState.COMPLETED,),
    (JobState.DISCARDED, JobState.CANCELLED),
)


def parts_of(campaign_id: int | None, states: Sequence[str] | None) -> list[list[str] | None]:
    """The states to ask for, statement by statement: of a campaign in its parts, else all of them at once.

    Args:
        states: those that are wanted, of which there may be none; None for all, as in what is returned.
    """
    if campaign_id is None:
        return [] if states is not None and not states else [None if states is None else list(states)]
    wanted = [[str(state) for state in part if states is None or state in states] for part in PARTS]
    return [part for part in wanted if part]
