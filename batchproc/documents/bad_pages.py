"""Pages that stop whoever reads them: what a dead worker was at, recorded by those who outlive it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim
from batchproc.database import SqlFolder

STARTS_PER_PAGE = 2
"""A page that so many attempts began and none finished is given up."""


@dataclass(frozen=True, slots=True)
class BegunPage:
    """A page (from 1) that a claim began and did not finish. ``starts`` counts the attempts that began it."""

    claim_id: UUID
    tenant_id: int
    revision_id: int
    page: int
    starts: int

    @property
    def is_hopeless(self) -> bool:
        """Whether the end of this attempt is the last that the page may cause."""
        return self.starts >= STARTS_PER_PAGE


class BadPages:
    """Pages of open revisions, of any tenant."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)

    def begun(self, connection: Connection[TupleRow], claims: Iterable[Claim]) -> dict[UUID, BegunPage]:
        """The page that each claim was at, by claim id; claims that were between two pages, or at none, are missing."""
        held = list(claims)
        values = {
            "claim_ids": [claim.claim_id for claim in held],
            "job_ids": [claim.job_id for claim in held],
            "tenant_ids": [claim.tenant_id for claim in held],
        }
        rows = connection.execute(self._sql["begun_pages"], values).fetchall()
        return {row[0]: BegunPage(*row) for row in rows}

    def fail(self, connection: Connection[TupleRow], page: BegunPage, code: str) -> None:
        """Marks the page as failed and counts it in the tenant's usage of the day; the caller holds the job's row.

        A page that is done by now stays as it is.
        """
        values = {
            "claim_id": page.claim_id,
            "tenant_id": page.tenant_id,
            "revision_id": page.revision_id,
            "page": page.page,
            "failure_code": code,
        }
        if connection.execute(self._sql["fail_page"], values).rowcount:
            counted = {"tenant_id": page.tenant_id, "state": "failed", "seconds": 0.0}
            connection.execute(self._sql["count_page"], counted)
