"""The way of a chaos run's nodes to the database: direct, or through a proxy that loses connections in commits."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from tests.faults.proxy import Cut, Proxy, Statements, Trap

_HOT_TABLE = "batchproc.processing_jobs"


class Network:
    """``url`` is for the nodes."""

    def __init__(self, url: str, proxy: Proxy | None) -> None:
        self.url = url
        self._proxy = proxy
        self._traps: list[Trap] = []

    @property
    def cuts(self) -> int:
        """How many connections were lost so far in the commit of a claim or a settle."""
        return sum(trap.sprung.is_set() for trap in self._traps)

    def cut_next(self, chance: random.Random) -> None:
        """The next commit of a claim or settle loses its connection, before or after the server has it."""
        if self._proxy is not None and self.cuts == len(self._traps):
            cut = chance.choice([Cut.BEFORE, Cut.AFTER])
            self._traps.append(self._proxy.set_trap(cut, _writes_jobs))


@contextlib.contextmanager
def network(server_url: str, *, lossy: bool) -> Iterator[Network]:
    """Raises ValueError when connections are to be lost and the server has no socket in the file system."""
    if not lossy:
        yield Network(server_url, None)
        return
    address = conninfo_to_dict(server_url)
    folder = str(address.get("host") or "")
    if not folder.startswith("/"):
        raise ValueError("connections are lost only before a server with a socket in the file system")
    proxy = Proxy(Path(folder, f".s.PGSQL.{address.get('port', 5432)}"))
    try:
        user = f"{address['user']}@" if "user" in address else ""
        yield Network(
            f"postgresql://{user}127.0.0.1:{proxy.port}/{address['dbname']}?sslmode=disable&gssencmode=disable", proxy
        )
    finally:
        proxy.close()


def _writes_jobs(committed: Statements) -> bool:
    return any(_HOT_TABLE in statement for statement in committed)
