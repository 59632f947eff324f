"""All tenants, for the doctor's looks at what each has set."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.queue.store import JobStore, Tenant

_PAGE = 1000
_SHOWN = 5


def every_tenant(jobs: JobStore, connection: Connection[TupleRow]) -> Iterator[Tenant]:
    """All tenants by id, in pages."""
    after = 0
    while page := jobs.tenants(connection, after=after, limit=_PAGE):
        yield from page
        after = page[-1].tenant_id


def some_of(slugs: list[str]) -> str:
    """The first of these tenants, and how many more there are."""
    return ", ".join(slugs[:_SHOWN]) + (f" and {len(slugs) - _SHOWN} more" if len(slugs) > _SHOWN else "")
