"""What a run needs before it begins, and what is said when that is not so."""

from __future__ import annotations

from collections.abc import Mapping

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.done_again import done_again
from batchproc.core.durations import duration
from batchproc.core.errors import UsageError
from batchproc.core.failure_codes import unknown_accepted
from batchproc.core.job import JobState, KindSpec
from batchproc.core.languages import AUTO, Able, named, remedy
from batchproc.engine.kinds import Kinds
from batchproc.engine.ready import Scope
from batchproc.engine.window import LEAVING, Window
from batchproc.queue.inspection_waiting import JobFacts, look_at_job
from batchproc.settings import Settings


def cannot_be_claimed(
    connection: Connection[TupleRow],
    schema: str,
    job_id: int,
    specs: Mapping[str, KindSpec],
    languages: tuple[str, ...],
    default_languages: tuple[str, ...],
) -> UsageError:
    """The error for a job that was asked for by its id and could not be claimed: why, by what it is now.

    Args:
        specs: the kinds that are known here.
        languages: those that are installed here, as ``Kinds`` has them.
        default_languages: those of the settings.
    """
    try:
        job = look_at_job(connection, schema, job_id)
    except UsageError as unknown:
        return unknown
    spec = specs.get(job.kind)
    if job.finished_at is not None or job.state in (JobState.RUNNING, JobState.HELD):
        return UsageError(*_does_not_wait(job))
    if spec is None:
        return UsageError(
            f"job {job_id} is of kind {job.kind}, and no handler here knows it",
            "name the module of its handler in handlers: of the settings (BATCHPROC_CONF), found by PYTHONPATH",
        )
    able = Able(frozenset(specs), frozenset(languages), default_languages)
    lacking = able.lacks(job.languages, job.tenant_languages) if spec.needs_languages else frozenset()
    if lacking:
        return UsageError(f"job {job_id} needs {named(lacking)}, and that is not installed here", remedy(lacking))
    # Another node had it for a moment, or a command that changes it.
    return UsageError(f"somebody else held job {job_id} just now", f"try it again: batchproc run --once {job_id}")


def _does_not_wait(job: JobFacts) -> tuple[str, str]:
    """What is so, and what to do."""
    told = f"job {job.job_id} does not wait to be run: "
    if job.state == JobState.RUNNING and job.node_alive:
        again = f"batchproc jobs cancel {job.job_id} ends it; what it does: batchproc why {job.job_id}"
        return f"{told}it is running, on node {job.node_pid} on {job.node_host}", again
    if job.state == JobState.RUNNING:
        return f"{told}it ran on a node that is gone", "the next run takes it back: batchproc run"
    if job.state == JobState.HELD and job.campaign_paused:
        return f"{told}its campaign is paused", f"batchproc campaigns resume {job.campaign_id}"
    if job.state == JobState.HELD:
        return f"{told}its campaign goes on again, and has not released it yet", "the next run does: batchproc run"
    if job.state == JobState.COMPLETED:
        return f"{told}it is completed", done_again(job.job_id, job.kind, job.tenant, job.document_id)
    code = f" with {job.failure_code}" if job.failure_code else ""
    again = f"batchproc jobs retry {job.job_id}, then: batchproc run --once {job.job_id}"
    return f"{told}it was {job.state}{code}", again


def require_time(window: Window | None, grace: float) -> None:
    """Raises UsageError when the window is to end so soon that nothing would be claimed.

    Args:
        grace: ``pool.shutdown_grace``, in seconds.
    """
    if window is None or window.claims_left(grace) > 0:
        return
    before = f"pool.shutdown_grace ({duration(grace)})" if grace >= LEAVING else duration(LEAVING)
    raise UsageError(
        f"--until leaves no time: it is over at {window.shown}, in {duration(max(0.0, window.left))},"
        f" and claims end {before} before that",
        "give it longer" + (", or make pool.shutdown_grace shorter" if grace > LEAVING else ""),
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
