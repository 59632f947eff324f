"""What somebody who writes a command line may name: the newest ones, or by the alphabet, that begin with a text."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder

_MOST = 200


class Offering:
    """Looks that each read no more than an index tells soon; none gives more than can be looked through.

    Args:
        schema: the configured one.
    """

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)

    def tenants(self, connection: Connection[TupleRow], prefix: str) -> list[str]:
        """Slugs."""
        return self._values(connection, "offer_tenants", prefix)

    def kinds(self, connection: Connection[TupleRow], prefix: str) -> list[str]:
        """Of jobs that were ever enqueued, or whose nodes ever ran."""
        return self._values(connection, "offer_kinds", prefix)

    def campaigns(self, connection: Connection[TupleRow], prefix: str) -> list[str]:
        """Ids, the newest first."""
        return self._values(connection, "offer_campaigns", prefix)

    def runs(self, connection: Connection[TupleRow], prefix: str) -> list[str]:
        """Ids, the newest first."""
        return self._values(connection, "offer_runs", prefix)

    def codes(self, connection: Connection[TupleRow], prefix: str) -> list[str]:
        """Failure codes of the jobs that the newest runs gave up on, or have yet to try again."""
        return self._values(connection, "offer_codes", prefix)

    def _values(self, connection: Connection[TupleRow], statement: str, prefix: str) -> list[str]:
        found = connection.execute(self._sql[statement], {"prefix": prefix, "limit": _MOST}).fetchall()
        return [value for (value,) in found]
