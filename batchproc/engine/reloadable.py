"""Which settings a running node takes over, and by what: those that its own process decides by, each time anew."""

from __future__ import annotations

from batchproc import log
from batchproc.engine.braking import Braking
from batchproc.engine.dispatcher import Dispatcher
from batchproc.engine.reloading import Apply
from batchproc.engine.run_report import RunOptions
from batchproc.settings import Settings


def brake_jobs(settings: Settings, options: RunOptions) -> int | None:
    """``dispatch.brake`` for such a run; None never brakes."""
    jobs = settings.dispatch.brake
    return None if options.single or jobs == "off" else int(jobs)


def takers(
    dispatcher: Dispatcher,
    braking: Braking,
    accept: Apply,
    options: RunOptions,
    *,
    log_to_stderr: bool,
) -> dict[str, Apply]:
    """By the dotted name of each setting what takes it over; to be called in the dispatcher's thread.

    Args:
        accept: takes ``run.accept_codes``.
    """

    def log_anew(settings: Settings) -> None:
        logging = settings.logging
        log.setup(
            logging.level,
            logging.format,
            logging.file,
            stderr=log_to_stderr,
            rotate=logging.rotate,
            keep=logging.keep,
        )

    return {
        "logging.level": log_anew,
        "logging.format": log_anew,
        "logging.file": log_anew,
        "run.accept_codes": accept,
        "dispatch.brake": lambda settings: braking.change(brake_jobs(settings, options)),
        "dispatch.reserved": lambda settings: dispatcher.reserve(min(settings.dispatch.reserved, options.workers - 1)),
        "pool.shutdown_grace": lambda settings: dispatcher.stop.change(settings.pool.shutdown_grace),
    }
