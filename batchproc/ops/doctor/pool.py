"""The doctor's trial of the pool: one worker, really started, that loads the engine and answers.

What a run learns of its kinds is learnt for it, and so the settings are held against that here, too.
"""

from __future__ import annotations

import select
import tempfile
import time
from pathlib import Path
from uuid import UUID, uuid4

from PIL import Image

from batchproc.core.errors import EnvironmentFault
from batchproc.core.failure_codes import unknown_accepted
from batchproc.core.languages import wanted
from batchproc.core.outcome import Completed, ErrorClass, Failed, Outcome
from batchproc.engine import kinds, worker
from batchproc.engine.pool import forkserver
from batchproc.engine.pool.types import Work
from batchproc.engine.pool.worker_pool import Entry, PoolOptions, WorkerPool
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.ops.doctor.findings import Findings, Patient
from batchproc.settings import Ocr

_START_SECONDS = 60.0
_TRIAL_SECONDS = 60.0
_PAGE = (200, 100)

_ocr: Ocr | None = None


def check_pool(patient: Patient, findings: Findings) -> None:
    """A worker with the handlers of the settings starts, recognises an empty page and answers in time."""
    started = time.monotonic()
    node_id = str(uuid4())
    forkserver.acquire()
    try:
        known = kinds.learn(patient.settings, node_id)
        outcome = _tried(patient, node_id)
    finally:
        forkserver.release()
    seconds = time.monotonic() - started
    if not isinstance(outcome, Completed):
        reason = outcome.detail or outcome.code if isinstance(outcome, Failed) else type(outcome).__name__.lower()
        findings.fault(f"a worker started, but {reason}", "see the log: batchproc -v doctor")
        return
    findings.note(f"a worker started, loaded {known.engine_version} and answered in {seconds:.1f} s")
    findings.note(f"kinds {', '.join(sorted(known.specs))}")
    for unknown in unknown_accepted(patient.settings.run.accept_codes, known.specs.values()):
        findings.warning(unknown, "correct run.accept_codes, or add the module of its kind to `handlers`")


def _tried(patient: Patient, node_id: str) -> Outcome:
    settings = patient.settings
    with tempfile.TemporaryDirectory(prefix="batchproc-doctor-", ignore_cleanup_errors=True) as folder:
        options = PoolOptions(
            workers=1,
            node_id=node_id,
            workdir=Path(folder),
            preload=kinds.PRELOAD,
            memory_limit_mb=settings.pool.memory_limit_mb,
            nice=settings.pool.nice,
            start_attempts=1,
            start_timeout=_START_SECONDS,
        )
        told = worker.WorkerOptions(patient.known_url, settings)
        pool = WorkerPool(options, Entry(try_engine, prepare, (told,)))
        try:
            pool.start()
            pool.submit(Work(0, uuid4(), _TRIAL_SECONDS))
            return _answer(pool)
        finally:
            pool.close()


def _answer(pool: WorkerPool) -> Outcome:
    give_up = time.monotonic() + _TRIAL_SECONDS + 2 * _START_SECONDS
    while time.monotonic() < give_up:
        for ended in pool.poll():
            return ended.outcome
        select.select([pool.wakeup_fileno()], [], [], 1.0)
    raise EnvironmentFault("a worker started but does not answer", "see the log: batchproc -v doctor")


def prepare(options: worker.WorkerOptions) -> None:
    """In the worker: what a node's workers do, too."""
    global _ocr
    worker.initialize(options)
    _ocr = options.settings.ocr


def try_engine(_job_id: int, _claim_id: UUID) -> Outcome:
    """In the worker: loads the languages of the settings."""
    assert _ocr is not None, "prepare ran before"
    engine = TesseractEngine(_ocr.tessdata)
    try:
        engine.recognise(Image.new("L", _PAGE, 255), dpi=300, languages=wanted(_ocr.languages).languages)
    except OcrFailure as failure:
        return Failed(ErrorClass.PERMANENT, failure.code, detail=failure.detail)
    finally:
        engine.close()
    return Completed()
