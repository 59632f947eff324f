"""What the doctor looks at, and how a check collects what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from loguru import logger

from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line, redact
from batchproc.settings import Settings


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


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check. ``advice`` is what to do; with ``ok`` it is a warning, which fails nothing."""

    check: str
    ok: bool
    detail: str
    advice: str | None

    @property
    def is_warning(self) -> bool:
        return self.ok and self.advice is not None


@dataclass(slots=True)
class Findings:
    """Collected by one check, in order: what is wrong is shown before what is not."""

    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def fault(self, detail: str, advice: str) -> None:
        """Something that keeps jobs from being done."""
        self.faults.append(detail)
        self.advice.append(advice)

    def warning(self, detail: str, advice: str) -> None:
        """Something that does not, yet."""
        self.warnings.append(detail)
        self.advice.append(advice)

    def note(self, detail: str) -> None:
        """Something that is as it should be."""
        self.notes.append(detail)

    def conclude(self, name: str) -> Check:
        """The check's outcome, on one line, without a password in it."""
        detail = "; ".join([*self.faults, *self.warnings, *self.notes])
        advice = "; ".join(dict.fromkeys(filter(None, self.advice))) or None
        if advice is None and (self.faults or self.warnings):
            advice = "see the log: batchproc -v doctor"
        return Check(name, not self.faults, _safe(detail), None if advice is None else _safe(advice))


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
