"""The doctor's look at kinds: those that are paused while jobs of them wait."""

from __future__ import annotations

from batchproc.core.counted import waiting
from batchproc.database import connect
from batchproc.ops.doctor.database import CONNECT_SECONDS
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.queue import migrate
from batchproc.queue.kind_store import KindStore


def check_kinds(patient: Patient, findings: Findings) -> None:
    """Warns of jobs that nobody runs because their kind is paused, by a brake or by a person."""
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        if migrate.pending(connection, patient.schema):
            findings.note("not looked at before the migrations are applied")
            return
        kinds = KindStore(patient.schema).kinds(connection)
    for kind in kinds:
        jobs = kind["available"] + kind["scheduled"]
        if kind["paused"] and jobs:
            why = f" ({kind['paused_reason']})" if kind["paused_reason"] else ""
            findings.warning(
                f"kind {kind['kind']} is paused{why} while {waiting(jobs)} for it",
                f"mend that, then: batchproc kinds set {kind['kind']} --resume",
            )
    if not findings.warnings:
        findings.note("no kind is paused while jobs of it wait")
