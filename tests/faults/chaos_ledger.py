"""What ran, by the handlers' own word, and whether each execution beyond a job's first is explained by a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

_ENDED_BY_A_KILL = frozenset({"crashed", "lease_expired"})


class Execution(NamedTuple):
    """One start of a handler. ``worker``: the slot marker of its process, ``node:slot:generation``."""

    job_id: int
    claim_id: UUID
    worker: str


class Attempt(NamedTuple):
    """How the database says that a claim ended."""

    job_id: int
    outcome: str
    error_class: str | None


@dataclass(frozen=True)
class Killed:
    """Slot markers of the killed workers, and the first ids of the killed nodes."""

    workers: set[str]
    nodes: set[str]

    def explains(self, worker: str) -> bool:
        return worker in self.workers or worker.partition(":")[0] in self.nodes


def read(folder: Path) -> list[Execution]:
    """Every execution that a worker wrote into its file in ``folder``."""
    found = []
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            job_id, claim_id = line.split()
            found.append(Execution(int(job_id), UUID(claim_id), file.name))
    return found


def unexplained(executions: Sequence[Execution], attempts: Mapping[UUID, Attempt], killed: Killed) -> list[str]:
    """What cannot be: a claim that ran twice, or ran and did not complete although nobody was killed, or never ran."""
    wrong = [
        f"claim {claim} ran {times} times"
        for claim, times in Counter(execution.claim_id for execution in executions).items()
        if times > 1
    ]
    for execution in executions:
        attempt = attempts.get(execution.claim_id)
        problem = _problem(execution, attempt, killed)
        if problem is not None:
            wrong.append(f"job {execution.job_id}, claim {execution.claim_id}, worker {execution.worker}: {problem}")
    ran = {execution.claim_id for execution in executions}
    wrong += [
        f"job {attempt.job_id}, claim {claim} completed and never ran"
        for claim, attempt in attempts.items()
        if attempt.outcome == "completed" and claim not in ran
    ]
    return wrong


def _problem(execution: Execution, attempt: Attempt | None, killed: Killed) -> str | None:
    if attempt is None:
        return "ran and was never settled"
    if attempt.job_id != execution.job_id:
        return f"is a claim of job {attempt.job_id}"
    if attempt.outcome == "completed":
        return None
    ended = attempt.error_class or attempt.outcome
    if ended not in _ENDED_BY_A_KILL and attempt.outcome != "interrupted":
        return f"ended as {ended}"
    return None if killed.explains(execution.worker) else f"ended as {ended}, and neither worker nor node was killed"
