"""What the dispatcher makes of the news."""

from __future__ import annotations

from batchproc.engine.braking import Braking
from batchproc.engine.news import CancelRequested, Faulted, GivenUp, Held, Hinted, NewsBox, ReadyNow, Rescued
from batchproc.engine.pool.worker_pool import WorkerPool
from batchproc.engine.ready import ReadyQueues
from batchproc.engine.settling import Settling
from batchproc.engine.unserved import GivingUp
from batchproc.queue.unserved import FAILURE_CODE


def heed(
    news: NewsBox,
    ready: ReadyQueues,
    settling: Settling,
    pool: WorkerPool,
    braking: Braking,
    giving_up: GivingUp | None = None,
) -> None:
    """Lets everything that came take effect.

    Raises:
        Exception: what a thread of the node met that ends the run; from housekeeping an EnvironmentFault.
    """
    for item in news.drain():
        match item:
            case ReadyNow():
                ready.learn_in_pieces(item.queues, item.rooms)
            case Hinted():
                ready.hint([item.queue], item.priority)
            case Held():
                settling.give_back_unknown(item.claims, "the node did not know of this claim")
            case Rescued():
                settling.counts.rescue(item.jobs, item.discarded)
            case GivenUp():
                settling.counts.give_up(FAILURE_CODE, len(item.jobs))
                for kind, _ in item.jobs:
                    settling.meters.given_up(kind, FAILURE_CODE)
                if item.brakes:
                    braking.note_given_up(item.jobs, FAILURE_CODE)
                if giving_up is not None:
                    giving_up.heed(item)
            case CancelRequested():
                # One that has ended by now keeps its outcome: completed wins.
                for claim in item.claims:
                    pool.cancel(claim.claim_id)
            case Faulted():
                raise item.error
