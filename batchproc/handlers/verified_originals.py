"""The original of a document, opened once it is known to be what was imported."""

from __future__ import annotations

from functools import partial

from batchproc.documents.originals import Location, Original, OriginalError, StorageGone, folders_of
from batchproc.documents.paths import terminal_path
from batchproc.documents.root_identity import RootIdentity
from batchproc.documents.storage_roots import StorageRoots
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.ocr.bounds import Bounds


class VerifiedOriginals:
    """The places of one document's original."""

    def __init__(self, ctx: Context, document: Document) -> None:
        self._ctx = ctx
        self._document = document
        self._roots = StorageRoots(ctx.settings.database.schema_name)

    def open(self) -> Original:
        """The first of the document's paths where its content is found unchanged, opened.

        Raises:
            StorageGone: there is none, but one of the paths is on a storage that does not answer or is another than it
                was, so it may be there.
            OriginalError: there is none, for the reason of the document's own path.
            OcrFailure: it is larger than what is read (``too_large``), and is not even hashed for that.
        """
        document = self._document
        paths = self._ctx.documents.paths(self._ctx.connection, document.document_id)
        faults: list[OriginalError | StorageGone] = []
        for root, path in paths or [(document.root, document.path)]:
            try:
                return self._checked(Location(root, path))
            except (OriginalError, StorageGone) as fault:
                self._ctx.log.debug("document {} is not read from there: {}", document.document_id, fault)
                faults.append(fault)
        raise next((fault for fault in faults if isinstance(fault, StorageGone)), faults[0])

    def _checked(self, location: Location) -> Original:
        known = self._roots.known(self._ctx.connection, folders_of(location))
        original = Original(location, known)
        try:
            if original.size == self._document.bytes:
                Bounds(max_bytes=self._ctx.settings.ocr.bounds.max_bytes).check_bytes(original.size)
            self.verify(original)
            self._remember(original, known)
        except BaseException:
            original.close()
            raise
        return original

    def verify(self, original: Original) -> None:
        """Compares the content with that of the import.

        Raises:
            OriginalError: it is another (``source_changed``).
            StorageGone: the same, but so is its storage: what is mounted there is not the archive.
        """
        alive = partial(self._ctx.progress, 0, self._document.page_count or 0)
        if original.size == self._document.bytes and original.sha256(alive) == self._document.sha256:
            return
        if (doubt := original.doubt()) is not None:
            raise doubt
        place = terminal_path(original.location.full)
        self._ctx.log.error(
            "integrity alarm: {} is not what was imported as document {} of tenant {}",
            place,
            self._document.document_id,
            self._ctx.tenant,
        )
        raise OriginalError("source_changed", f"{place} is not what was imported")

    def _remember(self, original: Original, known: dict[bytes, RootIdentity]) -> None:
        """When it was found unchanged, and by what its root is known again, if that is new."""
        changed = {folder: found for folder, found in original.folders.items() if known.get(folder) != found}
        with self._ctx.transaction() as connection:
            self._ctx.documents.set_verified(connection, self._document.document_id)
            self._roots.renew(connection, changed)
