"""The doctor's look at storage roots: whether each is the one it was."""

from __future__ import annotations

import os

from batchproc.database import connect
from batchproc.documents.paths import terminal_path
from batchproc.documents.storage_roots import StorageRoots
from batchproc.ops.doctor.database import CONNECT_SECONDS
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.ops.storage import RootState, survey
from batchproc.queue import migrate


def check_storage(patient: Patient, findings: Findings) -> None:
    """Every root that is configured, or that files were imported from, is mounted and the one it was."""
    configured = [os.fsencode(root) for root in patient.settings.storage.roots]
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        if migrate.pending(connection, patient.schema):
            findings.note("not looked at before the migrations are applied")
            return
        found = survey(connection, StorageRoots(patient.schema), configured)
    for root in found:
        _judge(root, findings)
    if not found:
        findings.note("nothing was imported yet")


def _judge(root: RootState, findings: Findings) -> None:
    name = terminal_path(root.root)
    if root.state == "gone":
        findings.fault(root.detail, f"mount it; if it will never come back: batchproc storage forget {name}")
    elif root.state == "other":
        findings.fault(
            f"{name} is not the storage root it was: {root.detail}",
            "mount the archive there; if this is its replacement, the first original that is found unchanged proves it,"
            f" or: batchproc storage accept {name}",
        )
    else:
        marked = f" by its marker {root.marker}" if root.marker else ""
        findings.note(
            f"{name} is known{marked}" if root.state == "known" else f"{name} is new: no file of it was imported yet"
        )
    if root.marker_problem is not None:
        findings.warning(f"in {name}, {root.marker_problem}", f"correct the marker in {name}, or remove it")
