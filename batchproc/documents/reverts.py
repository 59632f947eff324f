"""Giving the documents of a campaign the revision back that was current before it, some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.keep import Verdict
from batchproc.database import SqlFolder

Case = Literal["back", "person", "first", "gone"]
"""``back``: there is a revision to go back to. ``person``: somebody made the text, or chose the campaign's by hand.
``first``: there was no text before. ``gone``: the revision before was pruned."""


@dataclass(frozen=True, slots=True)
class Target:
    """A document whose current revision is one of the campaign's, and where its way back leads."""

    document_id: int
    tenant_id: int
    reverted: int
    before: int | None
    case: Case


class CampaignReverts:
    """The documents of one campaign, of whatever tenants; each with its own tenant's revisions."""

    def __init__(self, schema: str, campaign_id: int) -> None:
        self._campaign_id = campaign_id
        self._sql = SqlFolder("batchproc.documents", schema)

    def slice(self, connection: Connection[TupleRow], *, after: int, limit: int) -> list[int]:
        """Documents whose text is the campaign's at this moment, by their ids, from the first above ``after``."""
        values = {"campaign_id": self._campaign_id, "after": after, "limit": limit}
        return [row[0] for row in connection.execute(self._sql["campaign_current"], values).fetchall()]

    def lock(self, connection: Connection[TupleRow], document_ids: Sequence[int]) -> list[int]:
        """Locks the documents' rows to the end of the transaction; those that somebody holds are left out."""
        values = {"document_ids": list(document_ids)}
        return [row[0] for row in connection.execute(self._sql["lock_documents"], values).fetchall()]

    def targets(self, connection: Connection[TupleRow], document_ids: Sequence[int]) -> list[Target]:
        """Where those of these documents go back to whose text is still the campaign's."""
        values = {
            "campaign_id": self._campaign_id,
            "document_ids": list(document_ids),
            "restored": str(Verdict.RESTORED),
        }
        rows = connection.execute(self._sql["revert_targets"], values).fetchall()
        return [
            Target(document_id, tenant_id, reverted, before, _case(by_person, before, is_there))
            for document_id, tenant_id, reverted, by_person, before, is_there in rows
        ]

    def give_back(self, connection: Connection[TupleRow], targets: Sequence[Target], *, reverted_by: str) -> None:
        """Makes the revision before current again, of documents that are locked.

        Args:
            reverted_by: the login name of whoever asked for it.
        """
        values = {
            "document_ids": [target.document_id for target in targets],
            "tenant_ids": [target.tenant_id for target in targets],
            "revision_ids": [target.before for target in targets],
            "verdict": str(Verdict.REVERTED),
            "restored": str(Verdict.RESTORED),
            "restored_by": reverted_by,
        }
        connection.execute(self._sql["revert_documents"], values)


def _case(by_person: bool, before: int | None, is_there: bool) -> Case:
    if by_person:
        return "person"
    if before is None:
        return "first"
    return "back" if is_there else "gone"
