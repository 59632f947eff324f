"""The doctor: looks at everything that a run needs, and says what to do about what it does not find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.database import connect
from batchproc.handlers.classify import TAXONOMY
from batchproc.handlers.errors import Failure
from batchproc.handlers.workflow import WORKFLOWS
from batchproc.ops.doctor.database import CONNECT_SECONDS, check_database
from batchproc.ops.doctor.findings import Check, Findings, Patient, concluded
from batchproc.ops.doctor.folders import check_folders, check_space
from batchproc.ops.doctor.kinds import check_kinds
from batchproc.ops.doctor.languages import check_languages, check_tenants
from batchproc.ops.doctor.outlets import check_outlets
from batchproc.ops.doctor.password_files import check_password_files
from batchproc.ops.doctor.pool import check_pool
from batchproc.ops.doctor.storage import check_storage
from batchproc.queue import migrate


def examine(patient: Patient) -> Iterator[Check]:
    """Makes the checks one by one, the quick ones first. Each stands by itself; none raises."""
    for name, check in CHECKS.items():
        yield concluded(name, patient, check)


def not_examined(reason: Check) -> Iterator[Check]:
    """What stands for ``examine`` when the settings cannot even be read: ``reason``, and that the rest was left out."""
    yield reason
    for name in CHECKS:
        if name != reason.check:
            yield Check(name, ok=False, detail="not checked", advice=f"mend the {reason.check} first")


def _settings(patient: Patient, findings: Findings) -> None:
    findings.note(patient.sources)


def _rules(patient: Patient, findings: Findings) -> None:
    for name, rules, folder in (
        ("taxonomy", TAXONOMY, patient.settings.taxonomy.folder),
        ("workflows", WORKFLOWS, patient.settings.workflows.folder),
    ):
        try:
            problems = rules.check(folder)
        except Failure as error:
            findings.fault(error.detail or error.code, f"correct {name}.folder, or let this user read it")
            continue
        for problem in problems:
            findings.fault(problem, "correct these rules")
        if not problems:
            findings.note(f"{name}: {folder or 'the packaged examples'}")


def _migrations(patient: Patient, findings: Findings) -> None:
    with _connection(patient) as connection:
        pending = migrate.pending(connection, patient.schema)
        applied = migrate.applied_versions(connection, patient.schema)
    if not pending:
        findings.note(f"schema {patient.schema} is up to date ({len(applied)} applied)")
    elif patient.embedded_folder is not None:
        findings.note(f"{len(pending)} to apply to schema {patient.schema}, which the next command does by itself")
    else:
        following = f"{pending[0].version:04}_{pending[0].name}"
        findings.fault(
            f"schema {patient.schema} lacks {len(pending)} migration(s), next {following}", "run: batchproc migrate"
        )


def _connection(patient: Patient) -> Connection[TupleRow]:
    return connect(patient.database_url(), connect_timeout=CONNECT_SECONDS)


CHECKS: dict[str, Callable[[Patient, Findings], None]] = {
    "settings": _settings,
    "folders": check_folders,
    "disk_space": check_space,
    "languages": check_languages,
    "rules": _rules,
    "outlets": check_outlets,
    "database": check_database,
    "migrations": _migrations,
    "storage": check_storage,
    "tenants": check_tenants,
    "passwords": check_password_files,
    "kinds": check_kinds,
    "pool": check_pool,
}
"""All checks by name, in their order."""
