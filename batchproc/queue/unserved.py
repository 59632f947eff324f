"""Jobs whose languages no live node has: they are found, and given up on without an attempt."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.job import KindSpec
from batchproc.core.languages import Able, missing
from batchproc.database import SqlFolder
from batchproc.queue.apart import SetAside, is_of_the_database

FAILURE_CODE = "missing_language"
_LOCK = "batchproc languages"


class Gap(NamedTuple):
    """Jobs of one queue that no single node is able to do.

    Either those that name ``languages`` themselves, or (None) those that leave them to the tenant.
    """

    kind: str
    languages: tuple[str, ...] | None
    lane: int
    tenant_id: int


@dataclass(frozen=True, slots=True)
class Unserved:
    """A job that was given up on, and what the nodes lacked for it."""

    job_id: int
    tenant_id: int
    kind: str
    tenant: str
    document_id: int | None
    lacking: frozenset[str]


class Servings:
    """The statements behind ``NodeStore.gaps``, ``NodeStore.give_up_unserved`` and ``NodeStore.join``.

    Whoever gives up jobs holds a lock that a node which joins holds too: either the node is seen, or it joins when
    they are gone already. Rows are locked in job_id order, and each job is judged anew under that lock.
    """

    def __init__(self, schema: str, specs: Mapping[str, KindSpec], aside: SetAside) -> None:
        self._sql = SqlFolder("batchproc.queue", schema)
        self._lock = f"{_LOCK} {schema}"
        self._specs = specs
        self._aside = aside

    @property
    def kinds(self) -> list[str]:
        """The kinds that need languages."""
        return sorted(name for name, spec in self._specs.items() if spec.needs_languages)

    def hold_still(self, connection: Connection[TupleRow]) -> None:
        """Until the transaction's end nobody gives up jobs: for a node that joins."""
        connection.execute(self._sql["share_lock"], [self._lock])

    def gaps(self, connection: Connection[TupleRow], scope: Mapping[str, Collection[Any]]) -> list[Gap]:
        """See ``NodeStore.gaps``."""
        if not (kinds := self.kinds):
            return []
        values = {"language_kinds": kinds, "skip": self._aside.job_ids(), **_lists(scope)}
        rows = connection.execute(self._sql["language_gaps"], values).fetchall()
        return [Gap(kind, None if asked is None else tuple(asked), *queue) for kind, asked, *queue in rows]

    def give_up(
        self,
        connection: Connection[TupleRow],
        gap: Gap,
        *,
        run_id: int,
        limit: int,
    ) -> list[Unserved]:
        """See ``NodeStore.give_up_unserved``."""
        skip = self._aside.job_ids()
        name = "gap_by_tenant" if gap.languages is None else "gap_by_languages"
        values = {**gap._asdict(), "languages": list(gap.languages or ()), "skip": skip}
        found: list[Unserved] = []
        try:
            with connection.transaction():
                connection.execute(self._sql["lock_limits"], [self._lock])
                nodes = _able(connection.execute(self._sql["live_nodes"]).fetchall())
                rows = connection.execute(self._sql[name], {**values, "limit": limit}).fetchall()
                found = [job for row in rows if (job := _judged(gap.kind, row, nodes)) is not None]
                written = self._write(connection, found, run_id) if found else set()
        except psycopg.Error as error:
            if is_of_the_database(connection, error):
                raise
            if limit > 1:
                return self.give_up(connection, gap, run_id=run_id, limit=1)
            self._aside.add([job.job_id for job in found])
            return []
        return [job for job in found if job.job_id in written]

    def _write(self, connection: Connection[TupleRow], jobs: list[Unserved], run_id: int) -> set[int]:
        values = {
            "job_ids": [job.job_id for job in jobs],
            "tenant_ids": [job.tenant_id for job in jobs],
            "results": [json.dumps({"missing_languages": sorted(job.lacking)}) for job in jobs],
            "failure_code": FAILURE_CODE,
            "run_id": run_id,
            "failing_kinds": [name for name, spec in self._specs.items() if spec.fails_document],
        }
        return {row[0] for row in connection.execute(self._sql["discard_jobs"], values).fetchall()}


def able_nodes(connection: Connection[TupleRow], sql: SqlFolder) -> list[Able]:
    """What the nodes that live can do."""
    return _able(connection.execute(sql["live_nodes"]).fetchall())


def _able(rows: list[TupleRow]) -> list[Able]:
    return [Able(frozenset(kinds), frozenset(languages), tuple(own)) for kinds, languages, own in rows]


def _judged(kind: str, row: TupleRow, nodes: list[Able]) -> Unserved | None:
    job_id, tenant_id, slug, document_id, asked, of_tenant = row
    lacking = missing(kind, asked, of_tenant, nodes)
    return None if lacking is None else Unserved(job_id, tenant_id, kind, slug, document_id, lacking)


def _lists(scope: Mapping[str, Collection[Any]]) -> dict[str, list[Any]]:
    return {name: list(scope[name]) for name in ("tenant_ids", "kinds", "lanes")}
