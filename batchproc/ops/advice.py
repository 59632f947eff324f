"""What to do about failures, by their codes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Then(Enum):
    """What to do with a job once its cause is mended: try it again, watch it while it fails again, or nothing."""

    RETRY = auto()
    LOOK = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a failure: each text is an action, and may name what its job has, such as ``{tenant}``.

    Args:
        mend: what to do first; empty: nothing but to look.
        then: what to do with the job after that, or in place of it.
        tried: what to do where a file was only tried, which has no job, and whose tenant is ``{tenant}``; None:
            nothing can be told.
        tried_as_nobodys: the same for a file that was tried without a tenant; None: ``tried`` holds.
        document: what to do in place of ``mend`` and ``then`` where the job has a document, ``{document_id}``.
    """

    mend: str
    then: Then
    tried: str | None = None
    tried_as_nobodys: str | None = None
    document: str | None = None


# Nothing is replaced: what is imported in its place is a document of its own.
_A_NEW_ONE = "as a new document; this one stays as it is (to hear of no more such: run.accept_codes)"
_SCAN_AGAIN = Advice(f"scan it again and import that, {_A_NEW_ONE}", Then.NOTHING, "scan it again")
_AS_A_TENANTS = (
    "give the tenant whose it is a password file: batchproc tenants set SLUG --password-file PATH,"
    " then try it with --tenant SLUG"
)
_ADVICE = {
    "being_read": Advice(
        "let the job that began to read it end (jobs show has its id), then make the pilot again", Then.NOTHING
    ),
    "database_lost": Advice(
        "see the database's log for why it ended connections",
        Then.RETRY,
        "see the database's log for why it ended connections",
    ),
    "empty_file": _SCAN_AGAIN,
    "encrypted": Advice(
        "give its tenant a password file: batchproc tenants set {tenant} --password-file PATH",
        Then.RETRY,
        "give its tenant a password file: batchproc tenants set {tenant} --password-file PATH, then try it again",
        _AS_A_TENANTS,
    ),
    "forkserver_died": Advice(
        "see the system's log for what ended the process that starts the workers",
        Then.RETRY,
        "see the system's log for what ended the process that starts the workers",
    ),
    "given_up": Advice("ask whoever gave up on it whether it is to be done after all", Then.RETRY),
    "internal_error": Advice(
        "", Then.LOOK, "mend its handler where the traceback ends, or look at it with --in-process"
    ),
    "invalid_args": Advice("enqueue it again with args that fit its kind", Then.NOTHING),
    "missing_language": Advice(
        "install the language",
        Then.RETRY,
        "install the language, or set others: batchproc tenants set {tenant} --languages eng, then try it again",
        "install the language, or set others as ocr.languages, then try it again",
        "install the language, or read it in others: batchproc reprocess --document {document_id} --language eng",
    ),
    "no_space": Advice(
        "make room on the disk of the temp folder", Then.RETRY, "make room on the disk of the temp folder"
    ),
    "out_of_memory": Advice(
        "split the document, or raise pool.memory_limit_mb", Then.RETRY, "split it, or raise pool.memory_limit_mb"
    ),
    "password_file_missing": Advice(
        "mount it, or set another: batchproc tenants set {tenant} --password-file PATH",
        Then.RETRY,
        "mount it, or set another: batchproc tenants set {tenant} --password-file PATH, then try it again",
        _AS_A_TENANTS,
    ),
    "permission_denied": Advice(
        "let the user of this run read it", Then.RETRY, "let the user of this run read it, then try it again"
    ),
    "poison": Advice("", Then.LOOK, "try it with --in-process"),
    "result_too_large": Advice(
        "let its handler write what it found to a table or a file, and return less",
        Then.RETRY,
        "let its handler write what it found to a table or a file, and return less",
    ),
    "source_changed": Advice(
        "restore the original, or import the new file",
        Then.NOTHING,
        "wait until nothing writes to it any more, then try it again",
    ),
    "source_missing": Advice(
        "bring the file back, or check that the archive is mounted", Then.RETRY, "bring it back, then try it again"
    ),
    "stalled": Advice(
        "raise the kind's stall_timeout under kinds:",
        Then.LOOK,
        "raise the kind's stall_timeout under kinds:, or look at it with --in-process",
    ),
    "storage_unavailable": Advice(
        "check that the archive is mounted", Then.RETRY, "check that its storage is mounted, then try it again"
    ),
    "timeout": Advice(
        "raise the kind's timeout under kinds:",
        Then.LOOK,
        "raise the kind's timeout under kinds:, or look at it with --in-process",
    ),
    "too_large": Advice("split it, or raise ocr.bounds", Then.RETRY, "split it, or raise ocr.bounds"),
    "unknown_kind": Advice(
        "run a release that has a handler of that kind, or add its module to handlers:",
        Then.RETRY,
        "run a release that has a handler of that kind, or add its module to handlers:",
    ),
    "unreadable_file": _SCAN_AGAIN,
    "unsupported_type": Advice(f"convert it and import that, {_A_NEW_ONE}", Then.NOTHING, "convert it"),
}
_OF_OTHERS = Advice("see: batchproc jobs show {job_id}", Then.NOTHING)

_BRAKE_ADVICE = {
    "internal_error": "its handler fails on everything: take the last release back, or mend it",
    "invalid_args": "its handler takes no such args any more: take the last release back, or mend it",
    "missing_language": "set a language that is installed: batchproc tenants set SLUG --languages eng,deu",
    "no_space": "make room on the disk of the temp folder",
    "permission_denied": "let the user of this run read the archive",
    "poison": "its workers die on everything: take the last release back, or mend it",
    "source_missing": "check that the archive is mounted",
    "unknown_kind": "its handler cannot be imported by the workers any more: mend the installation",
}


def advice(code: str | None, row: dict[str, Any]) -> str:
    """What to do about a failure; ``row`` is one of ``RunHistory.failures`` that has it."""
    found = _ADVICE.get(code or "", _OF_OTHERS)
    if found.document is not None and row["document_id"] is not None:
        return found.document.format_map(row)
    told = found.mend.format_map(row)
    if found.then is Then.RETRY:
        told += f", then: {_again(code, row)}"
    elif found.then is Then.LOOK:
        told += f"{', or ' if told else ''}look at it: {_look(row)}"
    return told


def _again(code: str | None, row: dict[str, Any]) -> str:
    """The command that tries all of a group again: a job that completed with failed pages cannot be retried."""
    if row["state"] == "completed":
        return f"batchproc reprocess --tenant {row['tenant']} --status partial"
    if row["jobs"] == 1:
        return f"batchproc jobs retry {row['job_id']}"
    return f"batchproc jobs retry --tenant {row['tenant']} --failure-code {code}"


def _look(row: dict[str, Any]) -> str:
    """The commands by which one job is watched while it fails once more."""
    if row["state"] == "completed":
        return f"batchproc reprocess --document {row['document_id']}, then batchproc --once"
    return f"batchproc jobs retry {row['job_id']}, then batchproc --once {row['job_id']}"


def found_again_advice(code: str, tenant: str) -> str:
    """What to do about documents of a tenant that had failed with that code, and whose files an import has found again.

    As ``advice``, but that their jobs may be gone: what helps is told to be tried by ``reprocess``.
    """
    found = _ADVICE.get(code)
    if found is None:
        return f"see: batchproc documents list --tenant {tenant} --failure-code {code}"
    mend = found.mend.format(tenant=tenant)
    if found.then is Then.NOTHING:
        return mend
    return f"{mend}{', then' if mend else 'try again'}: batchproc reprocess --tenant {tenant} --failure-code {code}"


def tried_advice(code: str, tenant: str | None) -> str | None:
    """What to do about a file that failed so when it was only tried; None where there is nothing but the code.

    Args:
        tenant: whose settings held; None: nobody's.
    """
    found = _ADVICE.get(code, _OF_OTHERS)
    if tenant is None:
        return found.tried_as_nobodys or found.tried
    return None if found.tried is None else found.tried.format(tenant=tenant)


def brake_advice(code: str) -> str:
    """What to do about a kind that was paused because its jobs ended with that code."""
    return _BRAKE_ADVICE.get(code, "mend what is wrong")
