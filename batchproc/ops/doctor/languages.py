"""The doctor's look at languages: those of the settings are here, those of tenants on some node."""

from __future__ import annotations

from collections import defaultdict

from batchproc.core.counted import counted
from batchproc.core.languages import AUTO, named, remedy
from batchproc.database import connect
from batchproc.ocr.tessdata import Tessdata, default_folder
from batchproc.ops.doctor.database import CONNECT_SECONDS
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.ops.doctor.tenants import every_tenant, some_of
from batchproc.ops.languages import LanguageCheck, installed
from batchproc.queue import migrate
from batchproc.queue.store import JobStore


def check_languages(patient: Patient, findings: Findings) -> None:
    """The languages of the settings are installed here, and what detects them where they say ``auto``."""
    settings = patient.settings.ocr
    folders = settings.tessdata or (default_folder(),)
    here = installed(patient.settings)
    missing = [language for language in settings.languages if language not in here]
    if missing:
        findings.fault(
            f"{named(missing)} of ocr.languages is not installed",
            f"{remedy(missing)} (now {', '.join(map(str, folders))}); or change ocr.languages (Tesseract's names: eng,"
            " deu, fra)",
        )
    if settings.orientation and not Tessdata(settings.tessdata).has_orientation():
        findings.warning(
            "osd.traineddata is not installed: of pages that lie on their side only some are noticed",
            f"put it into {folders[0]}, or set ocr.orientation to false",
        )
    found = ", ".join(sorted(here - {AUTO})) or "none"
    detected = "they can be detected (auto)" if AUTO in here else "they cannot be detected (auto)"
    shown = ", ".join(map(str, folders))
    findings.note(f"uses {', '.join(settings.languages)}; installed: {found}, in {shown}; {detected}")


def check_tenants(patient: Patient, findings: Findings) -> None:
    """Every tenant's languages are here, or on a node that runs now."""
    jobs = JobStore(patient.schema)
    with connect(patient.database_url(), connect_timeout=CONNECT_SECONDS) as connection:
        if migrate.pending(connection, patient.schema):
            findings.note("not looked for before the schema is up to date")
            return
        lists: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for tenant in every_tenant(jobs, connection):
            lists[tuple(tenant.settings.get("languages") or ())].append(tenant.slug)
        for languages, slugs in sorted(lists.items()):
            check = LanguageCheck(patient.settings, jobs, connection, languages)
            if languages and (told := check.warning(None)) is not None:
                advice = f"that, or: batchproc tenants set {slugs[0]} --languages LANG[,LANG]"
                findings.warning(f"tenant {some_of(slugs)}: {told}", advice)
    if findings.has_none_wrong:
        findings.note(f"{counted(sum(map(len, lists.values())), 'tenant')}, the languages of all are installed")
