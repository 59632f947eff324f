"""What a run needs before it begins, and what is said when that is not so."""

from __future__ import annotations

from loguru import logger

from batchproc.core.errors import UsageError
from batchproc.core.failure_codes import unknown_accepted
from batchproc.core.languages import AUTO, remedy
from batchproc.engine.kinds import Kinds
from batchproc.engine.ready import Scope
from batchproc.settings import Settings


def does_not_wait(job_id: int) -> UsageError:
    """The error for a job that was asked for by its id and is running, ended or not there."""
    return UsageError(
        f"job {job_id} does not wait to be run, or no handler here knows its kind, or its languages are not installed"
        " here",
        f"see: batchproc jobs show {job_id}; one that has ended waits again after: batchproc jobs retry {job_id}",
    )


def warned_of(settings: Settings, known: Kinds) -> tuple[str, ...]:
    """Logs, and returns, what of the settings cannot mean what it says."""
    warnings = unknown_accepted(settings.run.accept_codes, known.specs.values())
    for warning in warnings:
        logger.warning("{}", warning)
    return warnings


def require_detection(settings: Settings, known: Kinds) -> None:
    """Raises UsageError when the settings ask for a detection of languages that is not installed."""
    if AUTO in settings.ocr.languages and AUTO not in known.languages:
        raise UsageError("ocr.languages asks for auto, and languages cannot be detected here", remedy([AUTO]))


def require_known(scope: Scope, known: Kinds) -> None:
    """Raises UsageError when the run is to be of a kind that no handler declares."""
    unknown = sorted(scope.kinds - set(known.specs))
    if unknown:
        raise UsageError(f"no handler declares kind {', '.join(unknown)}", f"known: {', '.join(sorted(known.specs))}")
