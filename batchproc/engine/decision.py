"""The decision of ``core.settle`` with what only a running process has: the kinds' settings and chance."""

from __future__ import annotations

import random
from collections.abc import Mapping

from batchproc.core.job import Claim, KindSpec
from batchproc.core.outcome import Outcome
from batchproc.core.settle import settle
from batchproc.core.transition import Transition


def decide(
    claim: Claim, outcome: Outcome, specs: Mapping[str, KindSpec], max_node_losses: int, *, page_failed: bool = False
) -> Transition:
    """How the job moves on; a kind that is unknown here (a dead node's, perhaps) has the budgets of the defaults."""
    spec = specs.get(claim.kind) or KindSpec(claim.kind)
    # The jitter spreads retries and guards nothing.
    jitter = random.random()  # noqa: S311
    return settle(claim, outcome, spec, max_node_losses=max_node_losses, jitter=jitter, page_failed=page_failed)
