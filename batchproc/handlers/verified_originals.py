"""The original of a document, opened once it is known to be what was imported."""

from __future__ import annotations

from functools import partial

from batchproc.documents.originals import Location, Original, OriginalError, StorageGone
from batchproc.documents.paths import terminal_path
from batchproc.documents.store import Document
from batchproc.handlers.context import Context


class VerifiedOriginals:
    """The places of one document's original."""

    def __init__(self, ctx: Context, document: Document) -> None:
        self._ctx = ctx
        self._document = document

    def open(self) -> Original:
        """The first of the document's paths where its content is found unchanged, opened.

        Raises:
            StorageGone: there is none, but one of the paths is on a storage that does not answer, so it may be there.
            OriginalError: there is none, for the reason of the document's own path.
        """
        faults: list[OriginalError | StorageGone] = []
        for root, path in self._ctx.documents.paths(self._ctx.connection, self._document.document_id):
            try:
                return self._checked(Location(root, path))
            except (OriginalError, StorageGone) as fault:
                faults.append(fault)
        raise next((fault for fault in faults if isinstance(fault, StorageGone)), faults[0])

    def _checked(self, location: Location) -> Original:
        original = Original(location)
        try:
            self.verify(original)
        except BaseException:
            original.close()
            raise
        return original

    def verify(self, original: Original) -> None:
        """Compares the content with that of the import; raises OriginalError ``source_changed``."""
        alive = partial(self._ctx.progress, 0, self._document.page_count or 0)
        if original.size == self._document.bytes and original.sha256(alive) == self._document.sha256:
            return
        place = terminal_path(original.location.full)
        self._ctx.log.error(
            "integrity alarm: {} is not what was imported as document {}", place, self._document.document_id
        )
        raise OriginalError("source_changed", f"{place} is not what was imported")
