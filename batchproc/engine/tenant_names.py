"""The slugs of the tenants whose jobs a node claims, for its log."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import Claim
from batchproc.database import SqlFolder


class TenantNames:
    """Learnt with the first claim of each tenant; a slug never changes."""

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._slugs: dict[int, str] = {}

    def learn(self, connection: Connection[TupleRow], claims: Iterable[Claim]) -> None:
        """Asks for the slugs that are not known yet. A database that fails costs the names alone."""
        unknown = {claim.tenant_id for claim in claims}.difference(self._slugs)
        if unknown:
            try:
                self._slugs |= dict(connection.execute(self._sql["tenant_slugs"], [list(unknown)]).fetchall())
            except psycopg.Error:
                return

    def of(self, tenant_id: int) -> str:
        """The slug, or where it could not be learnt, the id with a ``#`` before it."""
        return self._slugs.get(tenant_id) or f"#{tenant_id}"
