"""Which page an attempt ended on, and its failure when the page has done that twice: written with the settle.

A handler cannot record what killed its worker, and the next attempt would have to be there to do it. So the settle
does, in its own transaction: the page is failed although the job may end there, and the next attempt passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim, JobState, KindSpec
from batchproc.core.outcome import ErrorClass, Failed, Outcome
from batchproc.core.settle import final_code
from batchproc.documents.bad_pages import BadPages, BegunPage
from batchproc.engine.decision import decide
from batchproc.queue.endings import Ended

_BLAMED = frozenset({ErrorClass.TIMEOUT, ErrorClass.STALLED, ErrorClass.CRASHED, ErrorClass.OUT_OF_MEMORY})


class PageBlame:
    """Decides endings that may be a page's fault."""

    def __init__(self, schema: str, specs: Mapping[str, KindSpec], max_node_losses: int) -> None:
        self._pages = BadPages(schema)
        self._specs = specs
        self._max_node_losses = max_node_losses

    def concerns(self, claim: Claim, outcome: Outcome) -> bool:
        """Whether a page may be at fault, for all that can be told without asking the database."""
        return isinstance(outcome, Failed) and outcome.error_class in _BLAMED and self._fails_page(claim)

    def begun(self, connection: Connection[TupleRow], claims: Iterable[Claim]) -> dict[UUID, BegunPage]:
        """The page that each of these claims was at, see ``BadPages.begun``."""
        return self._pages.begun(connection, claims)

    def decided(self, claim: Claim, failed: Failed, page: BegunPage) -> Ended:
        """The ending of an attempt on that page; the second one fails the page with it."""
        hopeless = page.is_hopeless
        told = f"page {page.page} is given up: two attempts ended on it" if hopeless else f"it was at page {page.page}"
        failed = replace(failed, detail=failed.detail or told)
        moved = decide(claim, failed, self._specs, self._max_node_losses, page_failed=hopeless)
        if not hopeless:
            return Ended(moved)
        return Ended(moved, also=partial(self._pages.fail, page=page, code=final_code(failed)))

    def after_losses(self, connection: Connection[TupleRow], claims: Iterable[Claim], lost: Failed) -> list[Ended]:
        """The endings of claims whose node died; a job that is given up on for it fails the page that it was at."""
        decided = [(claim, decide(claim, lost, self._specs, self._max_node_losses)) for claim in claims]
        given_up = [claim for claim, moved in decided if moved.state is JobState.DISCARDED and self._fails_page(claim)]
        pages = self.begun(connection, given_up) if given_up else {}
        return [
            Ended(moved, also=partial(self._pages.fail, page=pages[claim.claim_id], code=final_code(lost)))
            if claim.claim_id in pages
            else Ended(moved)
            for claim, moved in decided
        ]

    def _fails_page(self, claim: Claim) -> bool:
        spec = self._specs.get(claim.kind)
        return spec is not None and spec.fails_page
