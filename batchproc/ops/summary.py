"""The summary of a run: what it did, and what somebody has to look at."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from batchproc.core.brake import Braked
from batchproc.documents.paths import terminal_path
from batchproc.engine.counts import Counts
from batchproc.engine.node import RunReport
from batchproc.log import one_line

SHOWN_FAILURES = 20
SHOWN_STORAGES = 5

_ADVICE = {
    "database_lost": "see the database's log for why it ended connections, then retry it",
    "encrypted": "give its tenant a password file (tenants set SLUG --password-file PATH), then retry it",
    "empty_file": "scan or upload it again",
    "invalid_args": "enqueue it again with args that fit its kind",
    "forkserver_died": "something ended the process that starts the workers: see the system's log for why",
    "internal_error": "its handler raised what it does not declare: run it alone with --once",
    "missing_language": "install the language, or read it in others: batchproc reprocess --document ID --language eng",
    "out_of_memory": "raise pool.memory_limit_mb, or split the document",
    "password_file_missing": "mount it, or set another: batchproc tenants set SLUG --password-file PATH",
    "permission_denied": "let the user of this run read it",
    "poison": "its worker died again and again: run it alone with --once",
    "source_changed": "the original is not what was imported: restore it, or import the new file",
    "source_missing": "bring the file back, or check that the archive is mounted",
    "no_space": "make room on the disk of the temp folder",
    "stalled": "a page made no progress: run it alone with --once",
    "storage_unavailable": "check that the archive is mounted",
    "timeout": "raise the kind's timeout under kinds:, or look at it with --once",
    "too_large": "raise ocr.bounds, or split it",
    "unknown_kind": "run a release that has a handler of that kind, or add its module to handlers:",
    "unreadable_file": "scan or upload it again",
    "unsupported_type": "remove it from the archive, or convert it",
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


def plain(report: RunReport) -> dict[str, Any]:
    """The report under its stable keys."""
    return {
        **report.counts.plain(),
        "left": report.left,
        "seconds": round(report.seconds, 3),
        "storages": dict(report.counts.storages),
        "braked": {braked.kind: braked.code for braked in report.braked},
    }


def lines(report: RunReport, failures: list[dict[str, Any]], accepted: Collection[str]) -> list[str]:
    """The summary as text, worst first.

    Args:
        failures: rows of ``Inspection.run_failures``, at most one more than ``SHOWN_FAILURES``.
        accepted: codes that nobody wants to hear of: they are counted, not listed.
    """
    counts = report.counts
    text = [_failure(row) for row in failures[:SHOWN_FAILURES] if row["failure_code"] not in accepted]
    if len(failures) > SHOWN_FAILURES:
        text.append("... and more: batchproc jobs list --state discarded")
    text.extend(_braked(braked) for braked in report.braked)
    text.extend(_storages(counts))
    if counts.codes:
        text.append("failure codes: " + ", ".join(f"{code} {jobs}" for code, jobs in counts.codes.most_common()))
    text.extend(f"warning: {one_line(warning)}" for warning in report.warnings)
    shown = {name: jobs for name, jobs in counts.plain().items() if jobs or name in ("claimed", "completed")}
    done = ", ".join(f"{jobs} {name}" for name, jobs in shown.items())
    if report.stopped:
        undone = report.left or counts.interrupted
        text.append("stopped by a signal before everything was done" if undone else "stopped by a signal")
    text.append(f"run {report.run_id}: {done}, {report.left} left, {report.seconds:.1f} s, exit {report.exit_code}")
    return text


def _storages(counts: Counts) -> list[str]:
    text = [
        f"{one_line(told)} ({jobs} jobs wait, without an attempt used): mount or mend it, the next run takes them up"
        " (batchproc storage list)"
        for told, jobs in counts.storages.most_common(SHOWN_STORAGES)
    ]
    if len(counts.storages) > SHOWN_STORAGES:
        text.append("... and more: batchproc jobs list --failure-code storage_unavailable")
    return text


def _braked(braked: Braked) -> str:
    advice = _BRAKE_ADVICE.get(braked.code, "mend what is wrong")
    return (
        f"kind {braked.kind} is paused by the brake: {braked.reason}: {advice}"
        f" (batchproc jobs list --kind {braked.kind} --failure-code {braked.code} names the jobs, batchproc jobs show"
        f" JOB_ID what each of their attempts met), then: batchproc kinds set {braked.kind} --resume; a job that was"
        " discarded waits again after: batchproc jobs retry JOB_ID"
    )


def _failure(row: dict[str, Any]) -> str:
    what = f"job {row['job_id']} {row['kind']}"
    if row["document_id"] is not None:
        what += f" document {row['document_id']}"
    if row["path"] is not None:
        what += f" {terminal_path(row['path'])}"
    code = row["failure_code"] or row["document_status"] or "failed"
    advice = _ADVICE.get(code, f"see: batchproc jobs show {row['job_id']}")
    detail = f" ({one_line(row['detail'])})" if row["detail"] else ""
    return f"{row['tenant']}: {what}: {code}{detail}: {advice}"
