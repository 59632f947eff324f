"""The doctor's look at kinds: those that are paused, or that nothing here knows, while jobs of them wait."""

from __future__ import annotations

from batchproc.core.counted import waiting
from batchproc.database import connect
from batchproc.handlers import registry
from batchproc.ops.doctor.database import CONNECT_SECONDS
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.queue import migrate
from batchproc.queue.kind_store import KindStore


def check_kinds(patient: Patient, findings: Findings) -> None:
    """Warns of jobs that nobody runs: their kind is paused, by a brake or by a person, or has no handler here."""
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        if migrate.pending(connection, patient.schema):
            findings.note("not looked at before the migrations are applied")
            return
        kinds = KindStore(patient.schema).kinds(connection)
    known = registry.for_settings(patient.settings)
    for kind in kinds:
        name, jobs = kind["kind"], kind["available"] + kind["scheduled"]
        if not jobs:
            continue
        if name not in known:
            findings.warning(
                f"{waiting(jobs)} for kind {name}, which no handler here declares",
                "name its module in `handlers` (BATCHPROC_CONF says which settings hold), and let PYTHONPATH find it",
            )
        if kind["paused"]:
            why = f" ({kind['paused_reason']})" if kind["paused_reason"] else ""
            findings.warning(
                f"kind {name} is paused{why} while {waiting(jobs)} for it",
                f"mend that, then: batchproc kinds set {name} --resume",
            )
    if findings.has_none_wrong:
        findings.note("no kind is paused, or without a handler, while jobs of it wait")
