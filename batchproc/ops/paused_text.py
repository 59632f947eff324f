"""What a person has paused, told to whoever runs jobs that wait for the end of that."""

from __future__ import annotations

from batchproc.core.counted import counted
from batchproc.core.shown_text import one_line
from batchproc.queue.nights import Paused

_REASON = 200


def paused_line(paused: Paused) -> str:
    """How many jobs it keeps, why, and the command with which it goes on."""
    if paused.tenant is not None:
        again = f"batchproc tenants set {paused.tenant} --resumed"
        return f"{counted(paused.jobs, 'job')} of {paused.tenant} left: the tenant is paused: {again}"
    reason = f" ({one_line(paused.reason, _REASON)})" if paused.reason else ""
    again = f"batchproc kinds set {paused.kind} --resume"
    return f"{counted(paused.jobs, f'{paused.kind} job')} left: the kind is paused{reason}: {again}"
