"""What a node must know of its kinds and languages, learnt from a child that imported the handlers.

The node itself never imports one: what a handler module does when it is imported stays in the workers.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import BrokenExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from pathlib import Path

from pebble import ProcessExpired, ProcessPool

from batchproc import log
from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import KindSpec
from batchproc.core.languages import AUTO
from batchproc.engine.pool import child_setup, forkserver, printed
from batchproc.handlers import registry
from batchproc.settings import Settings

# Importing handlers may be slow on a cold disk, but not without end.
_IMPORT_TIMEOUT = 120.0
PRELOAD = ("batchproc.engine.worker", *registry.BUILT_IN)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds a worker of these settings can run, and the languages it can recognise.

    ``auto`` is one of them where it can detect languages.
    """

    specs: dict[str, KindSpec]
    languages: tuple[str, ...]
    engine_version: str


def learn(settings: Settings, node_id: str, *, log_to_stderr: bool = True) -> Kinds:
    """Imports the handlers in a child process and returns what they declare. The caller holds the forkserver.

    Raises:
        UsageError: a handler module cannot be imported, or two declare the same kind.
        EnvironmentFault: the child died or hung.
    """
    server = None
    try:
        # The workers' own forkserver: what it preloads is then loaded once for all.
        server = forkserver.ensure_running(node_id, PRELOAD)
        context = multiprocessing.get_context("forkserver")
        with ProcessPool(max_workers=1, context=context) as pool:
            described: Kinds = pool.schedule(
                _describe, args=[settings, log_to_stderr], timeout=_IMPORT_TIMEOUT
            ).result()
    except (FutureTimeout, ProcessExpired, BrokenExecutor) as error:  # a timeout is an OSError, too
        if server is not None and forkserver.has_died(server):
            raise EnvironmentFault(
                f"the handlers could not be imported: {forkserver.WAS_KILLED}", "mend that and start again"
            ) from None
        raise EnvironmentFault(
            f"the handlers could not be imported: the process that tried it ended with {type(error).__name__}",
            "import the modules of the setting `handlers` by hand: python -c 'import MODULE'",
        ) from None
    except OSError as error:
        raise EnvironmentFault(f"no worker process can be started: {error}", "batchproc doctor tests it") from None
    return described


def _describe(settings: Settings, log_to_stderr: bool) -> Kinds:
    child_setup.die_with_the_node()
    logging = settings.logging
    with tempfile.TemporaryFile() as file:  # without a name: this process may be killed
        prints = Path(f"/proc/self/fd/{file.fileno()}")
        stderr = printed.redirect(prints)
        log.setup(logging.level, logging.format, logging.file, stderr=log_to_stderr and stderr, tells=False)
        try:
            return _described(settings)
        finally:
            printed.flush()
            printed.tell(prints)


def _described(settings: Settings) -> Kinds:
    # In the child alone: the node has no use for the engine's native code.
    from batchproc.ocr import detection
    from batchproc.ocr.tesseract import TesseractEngine

    handlers = registry.for_settings(settings)
    engine = TesseractEngine(settings.ocr.tessdata)
    try:
        languages = engine.languages() | ({AUTO} if detection.is_installed() else set())
        return Kinds(handlers.specs(), tuple(sorted(languages)), f"{engine.name} {engine.version}")
    finally:
        engine.close()
