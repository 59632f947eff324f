"""What is stored of a new job, however it is enqueued, and what is told of one that cannot be."""

from __future__ import annotations

import psycopg

from batchproc.core.errors import UsageError
from batchproc.core.job import MAX_ATTEMPTS, KindSpec, NewJob
from batchproc.core.languages import asked_for

# What a value that no column holds is refused with: by a check, by its type, or before it is sent.
UNSTORABLE = (psycopg.errors.CheckViolation, psycopg.DataError, UnicodeEncodeError)


class UnknownOwner(UsageError):
    """The tenant of a job does not exist, or the document is not that tenant's."""


def max_attempts(job: NewJob, spec: KindSpec | None) -> int:
    """The job's own number goes before its kind's."""
    return job.max_attempts or (spec.max_attempts if spec else MAX_ATTEMPTS)


def is_unique_while_running(spec: KindSpec | None) -> bool:
    """Of a kind that is not known here it is not."""
    return bool(spec and spec.unique_while_running)


def languages(job: NewJob) -> list[str] | None:
    """Those that the job asks for itself, else those of its args; None leaves it to its document."""
    if job.languages:
        return list(job.languages)
    return asked_for(job.args) if "languages" in job.args else None


def may_need_languages(spec: KindSpec | None) -> bool:
    """Of a kind that is not known here it is not known; what it does not need is not heeded."""
    return spec is None or spec.needs_languages


def unknown_owner(job: NewJob) -> UnknownOwner:
    """The error of a job that broke a foreign key."""
    if job.document_id is None:
        return UnknownOwner(f"there is no tenant with id {job.tenant_id}", "see: batchproc tenants list")
    return UnknownOwner(
        f"tenant {job.tenant_id} has no document {job.document_id}", "see: batchproc documents list --tenant SLUG"
    )


def unstorable(job: NewJob, error: Exception) -> UsageError:
    """The error of a job that one of ``UNSTORABLE`` refused."""
    return UsageError(
        f"the {job.kind!r} job for tenant {job.tenant_id} cannot be stored ({reason(error)})",
        "kinds are lower-case letters, digits and _; priorities 1 to 9; unique keys at most 200 characters; no text"
        " holds NUL or half a surrogate pair",
    )


def reason(error: Exception) -> str:
    """What was refused, without the values, which may be anything."""
    if isinstance(error, psycopg.Error):
        return error.diag.constraint_name or error.sqlstate or type(error).__name__
    return type(error).__name__
