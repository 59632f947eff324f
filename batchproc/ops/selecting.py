"""What a person says in one word of documents to be read again, as the values that the selection compares with."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.versions import is_older, version_key
from batchproc.documents.selection import DocumentSelection
from batchproc.handlers.classify import TAXONOMY
from batchproc.handlers.errors import Failure
from batchproc.handlers.rules.version import version_of
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.tessdata import Tessdata
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

_PAGE = 1000
_LEAST_OF_A_HASH = 6


def versions_before(connection: Connection[TupleRow], schema: str, version: str) -> list[str]:
    """The versions of engines in the archive that are older than ``version``.

    Raises:
        UsageError: there is no number in it, or a line break or the like.
    """
    try:
        if not version.isprintable():
            raise ValueError
        version_key(version)
    except ValueError:
        raise UsageError(f"{version!r} is no version", "write it as 5.5.4") from None
    known = DocumentSelection(schema).engine_versions(connection)
    return [found for found in known if is_older(found, version)]


def data_beginning(connection: Connection[TupleRow], schema: str, start: str) -> list[str]:
    """The hashes of language data in the archive that begin so.

    Raises:
        UsageError: none does, or it is too short to tell them apart.
    """
    if len(start) < _LEAST_OF_A_HASH:
        raise UsageError(f"{start!r} is too short for a hash of language data", "see: batchproc documents history ID")
    known = {data for _, data in DocumentSelection(schema).data_in_use(connection)}
    found = sorted(data for data in known if data.startswith(start.lower()))
    if not found:
        raise UsageError(f"nothing was read by language data {start!r}", "see: batchproc documents history ID")
    return found


def data_out_of_date(connection: Connection[TupleRow], settings: Settings) -> list[str]:
    """The hashes of language data in the archive that are not of the files which this machine has for those languages.

    What was read in a language that is missing here is no more out of date than up to date, and left out.
    """
    here = Tessdata(settings.ocr.tessdata)
    found = set()
    for languages, data in DocumentSelection(settings.database.schema_name).data_in_use(connection):
        try:
            now = here.hash_of(languages)
        except OcrFailure:
            continue
        if data != now:
            found.add(data)
    return sorted(found)


def rules_now(
    connection: Connection[TupleRow], jobs: JobStore, settings: Settings, tenant: str | None
) -> dict[int, str]:
    """Per tenant, or of that one, the version of the taxonomy rules that hold for it on this machine.

    Raises:
        UsageError: rules are wrong, or cannot be read.
    """
    if tenant is not None:
        chosen = jobs.tenant(connection, tenant)
        return {chosen.tenant_id: _rules_of(settings, chosen.slug)}
    found: dict[int, str] = {}
    while page := jobs.tenants(connection, after=max(found, default=0), limit=_PAGE):
        found |= {each.tenant_id: _rules_of(settings, each.slug) for each in page}
    return found


def _rules_of(settings: Settings, slug: str) -> str:
    try:
        return version_of(TAXONOMY.rules(settings.taxonomy.folder, slug))
    except Failure as failure:
        raise UsageError(f"the rules of {slug} cannot be compared: {failure.detail}", "see: batchproc doctor") from None
