"""What an import is told, and what it says of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from batchproc.core.job import KindSpec, Lane
from batchproc.ops.reviving import DocumentJob


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What holds for every file of an import.

    ``roots`` are absolute folders that every original must lie below; one that was found in a folder, below that, too.
    Without any, the given path becomes one: a folder itself, or a file's folder. ``language`` is a hint as of
    ``batchproc.documents.languages``.
    ``spec`` is the ``ocr`` kind as configured. ``reread``: read files, too, that have not changed since an import read
    them. ``command`` is what to call the campaign of the jobs; without, they belong to none. ``max_bytes``: a file
    above it of which most was never written is rejected unread.
    """

    roots: tuple[bytes, ...] = ()
    recursive: bool = False
    language: str | None = None
    with_jobs: bool = True
    lane: Lane = Lane.BULK
    priority: int = 5
    spec: KindSpec | None = None
    reread: bool = False
    command: str | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path to try, with what a manifest says of it.

    ``within``: the folder that it was found in, and really has to lie below. None of what was named outright.
    """

    path: bytes
    roots: Sequence[bytes]
    external_id: str | None = None
    language: str | None = None
    title: str | None = None
    within: bytes | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A document. ``path`` is the file's full real path; ``sha256`` the digest's 32 bytes; ``bytes`` the file's size.

    ``duplicate``: the tenant had this content already; it got no new job, unless it had failed for its original.
    ``failure_code``: what its last OCR met, if that failed. ``language``: the hint that came with it.
    ``was_read``: False of a file that has not changed since an import read it, and so was not read again.
    """

    document_id: int
    job: DocumentJob
    path: bytes
    sha256: bytes
    duplicate: bool
    language: str | None = None
    failure_code: str | None = None
    bytes: int = 0
    was_read: bool = True

    @property
    def job_id(self) -> int | None:
        """That of its newest job, if there is one."""
        return self.job.job_id


@dataclass(frozen=True, slots=True)
class Rejected:
    """A path that became no document.

    ``failure_code`` is ``source_missing``, ``not_a_file``, ``outside_roots``, ``permission_denied``,
    ``source_changed`` (it is being written to), ``too_large`` (a hole that no scan can be), and of a manifest's line
    also ``invalid_line`` or ``external_id_taken``. ``path`` is absolute; of a line that cannot be read it is
    ``MANIFEST:LINE``.
    """

    path: bytes
    failure_code: str
    detail: str
