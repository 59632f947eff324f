"""How to have done again what a job has completed, told to a person."""

from __future__ import annotations

from batchproc.core.kinds import CLASSIFY, OCR

_REPROCESSED = (OCR, CLASSIFY)
"""Kinds of jobs that ``reprocess`` makes; without ``--kind`` the first."""


def done_again(job_id: int, kind: str, tenant: str, document_id: int | None) -> str:
    """The command that makes another such job, and what it is for; ``tenant`` is a slug."""
    if document_id is None:
        anew = f"batchproc enqueue {kind} --tenant {tenant}"
        return f"to do it again, enqueue it with the same args (batchproc jobs show {job_id}): {anew}"
    if kind in _REPROCESSED:
        option = "" if kind == _REPROCESSED[0] else f" --kind {kind}"
        return f"to do it again: batchproc reprocess --document {document_id}{option}"
    return f"to do it again: batchproc enqueue {kind} --tenant {tenant} --document {document_id}"
