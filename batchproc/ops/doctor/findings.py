"""What the doctor looks at, and how a check collects what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from pathlib import Path

import psycopg
from loguru import logger

from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line, redact
from batchproc.settings import Settings

_SEE_THE_LOG = "see the log: batchproc -v doctor"


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined.

    Attributes:
        sources: where the settings come from, for a person.
        home: batchproc's own folder.
        embedded_folder: that of the embedded server; None with a configured database.
        database_url: gives the database's URL, after starting the embedded server. Raises EnvironmentFault.
        known_url: the same URL, without starting anything.
        workers: how many a run here has.
    """

    settings: Settings
    sources: str
    home: Path
    embedded_folder: Path | None
    database_url: Callable[[], str]
    known_url: str
    workers: int = 1

    @property
    def schema(self) -> str:
        """The schema of all tables."""
        return self.settings.database.schema_name


class Severity(IntEnum):
    """In the order in which findings are shown."""

    FAULT = 0
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has found, such as one storage root, and what to do about it."""

    severity: Severity
    detail: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check. ``advice`` is what to do; with ``ok`` it is a warning, which fails nothing.

    ``findings`` are the same, one by one; a check that was not made has none.
    """

    check: str
    ok: bool
    detail: str
    advice: str | None
    findings: tuple[Finding, ...] = ()

    @property
    def is_warning(self) -> bool:
        return self.ok and self.advice is not None


@dataclass(slots=True)
class Findings:
    """Collected by one check, in order: what is wrong is shown before what is not."""

    found: list[Finding] = field(default_factory=list)

    @property
    def has_none_wrong(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.found)

    def fault(self, detail: str, advice: str) -> None:
        """Something that keeps jobs from being done."""
        self.found.append(Finding(Severity.FAULT, _safe(detail), _safe(advice)))

    def warning(self, detail: str, advice: str) -> None:
        """Something that does not, yet."""
        self.found.append(Finding(Severity.WARNING, _safe(detail), _safe(advice)))

    def note(self, detail: str) -> None:
        """Something that is as it should be."""
        self.found.append(Finding(Severity.NOTE, _safe(detail)))

    def conclude(self, name: str) -> Check:
        """The check's outcome, without a password in it."""
        found = [
            replace(finding, advice=finding.advice or (None if finding.severity is Severity.NOTE else _SEE_THE_LOG))
            for finding in sorted(self.found, key=attrgetter("severity"))
        ]
        advice = "; ".join(dict.fromkeys(finding.advice for finding in found if finding.advice)) or None
        detail = "; ".join(finding.detail for finding in found)
        return Check(name, all(one.severity is not Severity.FAULT for one in found), detail, advice, tuple(found))


def concluded(name: str, patient: Patient, check: Callable[[Patient, Findings], None]) -> Check:
    """Makes one check; whatever it raises is its own fault, and nobody else's."""
    findings = Findings()
    try:
        check(patient, findings)
    except BatchprocError as error:
        findings.fault(error.message, error.hint)
    except psycopg.Error as error:
        findings.fault(f"the database refused: {' '.join(str(error).split())}", "mend that in the database")
    except OSError as error:
        findings.fault(f"{error.filename or name}: {error.strerror or type(error).__name__}", "mend that and try again")
    except Exception as error:  # noqa: BLE001 - a check that breaks must not end the others
        logger.opt(exception=error).debug("the check {} broke", name)
        findings.fault(f"the check itself failed with {type(error).__name__}: {error}", "")
    return findings.conclude(name)


def _safe(text: str) -> str:
    # Hints of errors send people here.
    return one_line(redact(text)).removesuffix(" (batchproc doctor)")
