"""Storage roots for a person: which are the ones they were, and how to accept one that was really replaced."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.documents.mounted import mounted_below
from batchproc.documents.original_faults import StorageGone
from batchproc.documents.paths import terminal_path
from batchproc.documents.root_identity import RootIdentity
from batchproc.documents.storage_roots import KnownRoot, StorageRoots
from batchproc.documents.walk import identity_at

State = Literal["known", "other", "gone", "new"]


@dataclass(frozen=True, slots=True)
class RootState:
    """A storage root, or what is mounted below one, as it is now.

    ``state``: ``known`` is the one it was; ``other`` is not; ``gone`` cannot be opened or does not answer; in a ``new``
    one no original was found yet. ``detail`` says more; ``marker`` is the id that it holds now; it is known as it is,
    or was, since ``known_at``.
    """

    root: bytes
    state: State
    detail: str
    marker: str | None
    known_at: datetime | None
    marker_problem: str | None = None


def survey(connection: Connection[TupleRow], roots: StorageRoots, configured: Iterable[bytes]) -> list[RootState]:
    """All roots that are known or configured, and what is mounted below them, by path."""
    known = {root.root: root for root in roots.all(connection)}
    found = {*known, *configured}
    return [examine(root, known.get(root)) for root in sorted(found | mounted_below(found))]


def examine(root: bytes, known: KnownRoot | None) -> RootState:
    """One root as it is now, against what is known of it, if anything."""
    known_at = None if known is None else known.known_at
    try:
        found, problem = identity_at(root)
    except StorageGone as gone:
        return RootState(root, "gone", gone.summary, None, known_at)
    if known is None:
        return RootState(root, "new", found.shown(), found.marker, None, problem)
    if found.is_the(known.identity):
        return RootState(root, "known", found.shown(), found.marker, known_at, problem)
    return RootState(root, "other", found.unlike(known.identity), found.marker, known_at, problem)


def accept(
    connection: Connection[TupleRow], roots: StorageRoots, root: bytes, configured: Iterable[bytes]
) -> RootIdentity:
    """Takes what is there now for the storage root, whatever it was.

    Raises:
        UsageError: it is no storage root, nor is it mounted below one.
        EnvironmentFault: it cannot be opened.
    """
    known = {*configured, *(found.root for found in roots.all(connection))}
    _require_root(root, known | mounted_below(known))
    try:
        found, _ = identity_at(root)
    except StorageGone as gone:
        raise EnvironmentFault(
            gone.summary, f"mount it first; or, if it will never come back: batchproc storage forget {_shown(root)}"
        ) from None
    roots.renew(connection, {root: found})
    return found


def forget(connection: Connection[TupleRow], roots: StorageRoots, root: bytes) -> None:
    """Knows nothing of it any more, until its next file is imported or found unchanged.

    Raises:
        UsageError: nothing was known of it.
    """
    _require_root(root, {found.root for found in roots.all(connection)})
    roots.forget(connection, root)


def _require_root(root: bytes, known: Collection[bytes]) -> None:
    if root not in known:
        raise UsageError(
            f"{_shown(root)} is no storage root",
            f"known: {', '.join(_shown(found) for found in sorted(known)) or 'none'} (batchproc storage list)",
        )


def _shown(root: bytes) -> str:
    return terminal_path(root)
