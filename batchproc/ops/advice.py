"""What to do about failures, by their codes."""

from __future__ import annotations

from typing import Any

# Nothing is replaced: what is imported in its place is a document of its own.
_A_NEW_ONE = "as a new document; this one stays as it is (to hear of no more such: run.accept_codes)"
_SCAN_AGAIN = f"scan it again and import that, {_A_NEW_ONE}"
_ADVICE = {
    "being_read": "let the job that began to read it end (jobs show has its id), then make the pilot again",
    "database_lost": "see the database's log for why it ended connections, then: RETRY",
    "encrypted": "give its tenant a password file: batchproc tenants set SLUG --password-file PATH, then: RETRY",
    "empty_file": _SCAN_AGAIN,
    "invalid_args": "enqueue it again with args that fit its kind",
    "forkserver_died": "something ended the process that starts the workers: see the system's log for why",
    "given_up": "somebody gave up on it; to take that back: RETRY",
    "internal_error": "its handler raised what it does not declare: LOOK",
    "missing_language": "install the language, or read it in others:"
    " batchproc reprocess --document DOCUMENT_ID --language eng",
    "out_of_memory": "raise pool.memory_limit_mb, or split the document",
    "password_file_missing": "mount it, or set another: batchproc tenants set SLUG --password-file PATH",
    "permission_denied": "let the user of this run read it",
    "poison": "its worker died again and again: LOOK",
    "source_changed": "the original is not what was imported: restore it, or import the new file",
    "source_missing": "bring the file back, or check that the archive is mounted",
    "no_space": "make room on the disk of the temp folder",
    "stalled": "a page made no progress: LOOK",
    "storage_unavailable": "check that the archive is mounted",
    "timeout": "raise the kind's timeout under kinds:, or look at it: LOOK",
    "too_large": "raise ocr.bounds, or split it",
    "unknown_kind": "run a release that has a handler of that kind, or add its module to handlers:",
    "unreadable_file": _SCAN_AGAIN,
    "unsupported_type": f"convert it and import that, {_A_NEW_ONE}",
}

# Of a file that is only tried, beside no document that could stay or be retried.
_TRIED = {
    "empty_file": "scan it again",
    "encrypted": "a password file opens it: batchproc tenants set SLUG --password-file PATH, then AGAIN",
    "missing_language": "install the language, or set others: batchproc tenants set SLUG --languages eng, then AGAIN",
    "password_file_missing": "mount it, or set another: batchproc tenants set SLUG --password-file PATH, then AGAIN",
    "poison": "its worker died: try it with --in-process",
    "source_changed": "something writes to it: wait for that to end",
    "source_missing": "something took it away: bring it back",
    "unreadable_file": "scan it again",
    "unsupported_type": "convert it",
}

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
    told = _ADVICE.get(code or "", "see: batchproc jobs show JOB_ID")
    told = told.replace("RETRY", _again(code, row)).replace("LOOK", _look(row))
    if row["document_id"] is not None:
        told = told.replace("DOCUMENT_ID", str(row["document_id"]))
    return told.replace("JOB_ID", str(row["job_id"])).replace("SLUG", row["tenant"])


def _again(code: str | None, row: dict[str, Any]) -> str:
    """The command that tries all of a group again: a job that completed with failed pages cannot be retried."""
    if row["state"] == "completed":
        return "batchproc reprocess --tenant SLUG --status partial"
    if row["jobs"] == 1:
        return "batchproc jobs retry JOB_ID"
    return f"batchproc jobs retry --tenant SLUG --failure-code {code}"


def _look(row: dict[str, Any]) -> str:
    """The commands by which one job is watched while it fails once more."""
    if row["state"] == "completed":
        return "batchproc reprocess --document DOCUMENT_ID, then batchproc --once"
    return "batchproc jobs retry JOB_ID, then batchproc --once JOB_ID"


def tried_advice(code: str, tenant: str | None) -> str | None:
    """What to do about a file that failed so when it was only tried; None where there is nothing but the code.

    Args:
        tenant: whose settings held; None: nobody's.
    """
    told = _TRIED.get(code) or _ADVICE.get(code)
    if told is None:
        return None
    for again in (", then: RETRY", ": LOOK", "; to take that back: RETRY", ", or look at it"):
        told = told.replace(again, "")
    again = "try it again" if tenant is not None else "try it with --tenant SLUG"
    return told.replace("AGAIN", again).replace("SLUG", tenant or "SLUG")


def brake_advice(code: str) -> str:
    """What to do about a kind that was paused because its jobs ended with that code."""
    return _BRAKE_ADVICE.get(code, "mend what is wrong")
