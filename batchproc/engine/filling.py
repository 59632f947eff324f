"""How claimed jobs come into the slots: in bundles, and those that wait behind others by the time that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from batchproc.core.ahead import Ahead
from batchproc.core.job import Claim, KindSpec
from batchproc.core.packing import bundled
from batchproc.engine.allowance import Allowance
from batchproc.engine.pool.worker_pool import NoFreeSlot, Work, WorkerPool


def fill(
    pool: WorkerPool, claims: Sequence[Claim], specs: Mapping[str, KindSpec], ahead: Ahead, allowance: Allowance
) -> list[Claim]:
    """Submits the claims, and returns those that no slot took.

    Args:
        ahead: knows how long they should take, and is told what the slots got.
        allowance: tells how many of the slots bulk jobs may take, and whether jobs may wait behind others at all.
    """
    # Over the free slots only: what goes ahead had better be in whole bundles.
    free = pool.free()
    bundles = [(bundle, ahead.expected(bundle)) for bundle in bundled(claims, specs, free, bulk=allowance.bulk_slots)]
    refused: list[Claim] = []
    # Of those that wait the quickest come first: others might have to go back behind one that takes long.
    for bundle, expected in [*bundles[:free], *sorted(bundles[free:], key=itemgetter(1))]:
        ahead.filled(expected)
        works = [_work(claim, specs[claim.kind]) for claim in bundle]
        try:
            pool.submit(*works, expected=expected, ahead=allowance.may_claim_ahead)
        except NoFreeSlot:
            # An idle worker died between the choice and the claim, or the jobs before it are not so quick.
            refused += bundle
    return refused


def _work(claim: Claim, spec: KindSpec) -> Work:
    return Work(claim.job_id, claim.claim_id, spec.timeout, spec.stall_timeout)
