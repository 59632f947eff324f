"""The doctor's look at the tenants' files of passwords: whether a worker here could use each. None is ever shown."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from batchproc.database import connect
from batchproc.handlers.password_file import UnusablePasswordFile, read_passwords
from batchproc.ops.doctor.database import CONNECT_SECONDS
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.ops.doctor.tenants import every_tenant, some_of
from batchproc.queue import migrate
from batchproc.queue.store import JobStore


def check_password_files(patient: Patient, findings: Findings) -> None:
    """Every password file that a tenant has set is here, private, and this user's or root's."""
    jobs = JobStore(patient.schema)
    files: dict[str, list[str]] = defaultdict(list)
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        if migrate.pending(connection, patient.schema):
            findings.note("not looked for before the schema is up to date")
            return
        for tenant in every_tenant(jobs, connection):
            if (path := tenant.settings.get("password_file")) is not None:
                files[path].append(tenant.slug)
    for path, slugs in sorted(files.items()):
        _look_at(path, slugs, findings)
    if findings.has_none_wrong:
        findings.note(f"{len(files)} password files are set, all can be used" if files else "no tenant has a file")


def _look_at(path: str, slugs: list[str], findings: Findings) -> None:
    whose = f"the password file {path} of tenant {some_of(slugs)}"
    other = f"or set another: batchproc tenants set {slugs[0]} --password-file PATH"
    try:
        passwords = read_passwords(Path(path))
    except UnusablePasswordFile as fault:
        findings.fault(
            f"{whose} cannot be used: {fault}",
            f"let it be a file of mode 0600 or 0400 that the user of the workers owns, {other}",
        )
        return
    if not passwords:
        findings.warning(f"{whose} holds no password", f"put one a line into it, {other}")
