"""When each tenant had its last turn, whatever node gave it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder


class TurnStore:
    """The statements on ``tenant_turns`` of one node."""

    def __init__(self, schema: str, node_id: UUID) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._node_id = node_id

    def first_round(self, connection: Connection[TupleRow]) -> list[int]:
        """All tenants, those first that waited longest; those that never had a turn before all others.

        Of several live nodes each begins with its share of them, every second, every third and so on, so that nodes
        that were started together do not crowd on the same tenants.
        """
        waiting = [tenant_id for (tenant_id,) in connection.execute(self._sql["longest_waiting"]).fetchall()]
        row = connection.execute(self._sql["place_among_nodes"], [self._node_id]).fetchone()
        assert row is not None
        place, nodes = row
        mine = [tenant_id for number, tenant_id in enumerate(waiting) if number % max(1, nodes) == place]
        others = [tenant_id for number, tenant_id in enumerate(waiting) if number % max(1, nodes) != place]
        return mine + others

    def write(self, connection: Connection[TupleRow], seconds_ago: Mapping[int, float]) -> None:
        """These tenants had a turn so many seconds ago; what another node wrote of a later one stays."""
        tenant_ids = sorted(seconds_ago)
        values = {"tenant_ids": tenant_ids, "seconds_ago": [seconds_ago[tenant_id] for tenant_id in tenant_ids]}
        connection.execute(self._sql["write_turns"], values)
