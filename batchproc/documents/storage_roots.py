"""What the database remembers of storage roots, and of what is mounted below them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import SqlFolder
from batchproc.documents.original_faults import StorageGone
from batchproc.documents.root_identity import RootIdentity, boot_id
from batchproc.documents.walk import Identities, Way, identity_at


@dataclass(frozen=True, slots=True)
class KnownRoot:
    """A root or mounted folder, what it is known again by, and since when."""

    root: bytes
    identity: RootIdentity
    known_at: datetime


class StorageRoots:
    """Remembers roots by the identity they had when an original below them was last found to be what it was.

    That is what proves a root to be the archive, so what changes by a restart, a mount or a restored disk is renewed by
    the first original that is found unchanged. What this machine knows since its start goes before what another does:
    the numbers of devices differ from machine to machine.
    """

    def __init__(self, schema: str) -> None:
        self._sql = SqlFolder("batchproc.documents", schema)
        self._learned: set[bytes] = set()

    def known(self, connection: Connection[TupleRow], folders: Iterable[bytes]) -> dict[bytes, RootIdentity]:
        """Those of ``folders`` that are known."""
        hashes = [hashlib.sha256(folder).digest() for folder in folders]
        rows = connection.execute(self._sql["known_roots"], {"hashes": hashes, "boot_id": boot_id()})
        return {root: RootIdentity(*numbers) for root, *numbers, _ in rows.fetchall()}

    def all(self, connection: Connection[TupleRow]) -> list[KnownRoot]:
        """All that are known, by path."""
        rows = connection.execute(self._sql["all_roots"], {"boot_id": boot_id()}).fetchall()
        return sorted(
            (KnownRoot(root, RootIdentity(*numbers), known_at) for root, *numbers, known_at in rows),
            key=lambda known: known.root,
        )

    def learn(self, connection: Connection[TupleRow], found: Identities) -> None:
        """Remembers those that are not known at all; each is looked up once by this object."""
        for root, identity in sorted(found.items()):
            if root not in self._learned:
                connection.execute(self._sql["learn_root"], _row(root, identity))
                self._learned.add(root)

    def renew(self, connection: Connection[TupleRow], proven: Identities) -> None:
        """Remembers them as they are now."""
        for root, identity in sorted(proven.items()):
            connection.execute(self._sql["renew_root"], _row(root, identity))

    def forget(self, connection: Connection[TupleRow], root: bytes) -> bool:
        """Knows nothing of it any more; False when nothing was known."""
        return connection.execute(self._sql["forget_root"], {"root": root}).rowcount > 0

    def doubt(self, connection: Connection[TupleRow], path: bytes) -> StorageGone | None:
        """Why it cannot be believed that nothing is at ``path``, or where that leads to; None when it can.

        Args:
            path: absolute, of a file or a folder.
        """
        if b"\0" in path:
            return None  # no path at all
        folders = {path, *_parents(path), *_parents(os.path.realpath(path))}
        known = self.known(connection, folders)
        way = Way(path, known)
        for folder in known:
            try:
                way.found[folder], _ = identity_at(folder)
            except StorageGone as gone:
                return gone
        return way.doubt()


def _parents(path: bytes) -> list[bytes]:
    parts = path.rstrip(b"/").split(b"/")
    return [b"/".join(parts[:count]) or b"/" for count in range(1, len(parts) + 1)]


def _row(root: bytes, identity: RootIdentity) -> Mapping[str, Any]:
    return {
        "root": root,
        "boot_id": boot_id(),
        "device": identity.device,
        "inode": identity.inode,
        "filesystem": identity.filesystem,
        "marker": identity.marker,
    }
