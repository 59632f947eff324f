"""One worker as the node holds it: process, pebble pool, folder, progress record and outbox, from start to removal."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import tempfile
import threading
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from loguru import logger
from pebble import ProcessPool

from batchproc.engine.pool import child_setup, forkserver, printed, process_tree, processes, removal
from batchproc.engine.pool.memory_evidence import MemoryEvidence
from batchproc.engine.pool.one_worker import UNKNOWN_EXIT, OneWorkerContext, WorkerProcess
from batchproc.engine.pool.outbox import OutboxReader, Record
from batchproc.engine.pool.process_tree import Origin
from batchproc.engine.pool.processes import ProcessId
from batchproc.engine.pool.progress import Progress, ProgressReader
from batchproc.engine.pool.types import PoolOptions, Work

BACKSTOP_SECONDS = 10.0
"""How much later than the node's own limit pebble's, which goes by the wall clock, is set."""

_REPORT_SECONDS = 0.5


class StartFailure(Exception):
    """The worker did not become ready; the text says why."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What all workers of a pool have in common. ``entry`` as in ``child_setup.WorkerSetup``."""

    options: PoolOptions
    entry: bytes


class WorkerHandle:
    """A worker of one slot. Everything but ``start`` and ``discard`` may be called from any thread."""

    def __init__(self, plan: WorkerPlan, slot: int, generation: int) -> None:
        self._plan = plan
        self._marker = forkserver.marker(plan.options.node_id, slot, generation)
        self._slot = slot
        self._name = f"slot-{slot}-{generation}-"
        self._folder: Path | None = None
        self._context = OneWorkerContext()
        self._pool: ProcessPool | None = None
        self._forkserver_pid: int | None = None
        self._identity: ProcessId | None = None
        self._seen: frozenset[ProcessId] = frozenset()
        self._undead: frozenset[ProcessId] = frozenset()
        self._memory = MemoryEvidence()
        self._outbox: OutboxReader | None = None
        self.progress: ProgressReader | None = None
        self.pid: int | None = None
        self.jobs = 0
        self.bundles = 0

    @property
    def process(self) -> WorkerProcess | None:
        """None as long as nothing was started."""
        return self._context.process if self.pid is not None else None

    def start(self, abort: threading.Event) -> None:
        """Returns when the worker has run its initializer and answered.

        Raises:
            StartFailure: it did not, or ``abort`` was set. The caller kills and discards it.
        """
        try:
            self._await(self._launch(self._make_folder()), abort)
        except StartFailure:
            raise
        except Exception as error:
            raise StartFailure(self._why(error)) from error

    def schedule(self, works: Sequence[Work]) -> futures.Future[child_setup.Reply]:
        """Sends jobs to the worker, which runs one after the other. Raises RuntimeError when the worker has died."""
        assert self._pool is not None
        assert self._outbox is not None
        assert self.progress is not None
        timeout = sum(work.timeout for work in works) + BACKSTOP_SECONDS
        told = [
            (work.job_id, work.claim_id.bytes, min(work.timeout, work.stall_timeout or work.timeout)) for work in works
        ]
        self.progress.skip_none()
        return self._pool.schedule(child_setup.run_bundle, (self._outbox.begin(), told), timeout=timeout)

    def outcomes(self) -> list[Record]:
        """The outcomes that it has written since the last call."""
        return self._outbox.take() if self._outbox is not None else []

    def skip(self, positions: Sequence[int]) -> None:
        """Takes back the jobs at these positions of what was sent, as far as they have not begun."""
        if self.progress is not None:
            self.progress.skip(positions)

    def read_progress(self) -> Progress:
        """What its progress record says now."""
        return self.progress.read() if self.progress is not None else Progress()

    def has_ended(self) -> bool:
        """Whether the process is dead, so that there is no worker."""
        process = self.process
        return process is None or bool(connection.wait([process.end_fd], 0))

    def weigh(self, limit_bytes: int) -> tuple[int, int]:
        """The number of processes and the resident bytes of the tree; remembers its members, for ``kill``."""
        if self._identity is None:
            return 0, 0
        if self._folder is not None:
            printed.bound(self._folder / printed.PRINTED_FILE)
        members = processes.tree(self._identity)
        self._seen = frozenset(member.process for member in members)
        if members:
            self._memory.note(members[0])
        return len(members), processes.resident_bytes(members, limit_bytes)

    def unfit(self) -> bool:
        """Whether it says of itself that it should get no other job."""
        return self.progress is not None and self.progress.unfit()

    def tell_printed(self, **bound: object) -> None:
        """Logs what it has printed and not logged itself. The worker must have been killed."""
        if self._folder is not None:
            printed.tell(self._folder / printed.PRINTED_FILE, **bound)

    def kill(self, limit: float) -> bool:
        """Kills the worker and all that came from it; False when something is still alive after ``limit`` seconds.

        What does not die is logged, again only when it has become something else.
        """
        if self.pid is None:
            return True
        root = self._identity or ProcessId(self.pid, 0)
        left = frozenset(process_tree.kill_tree(Origin(root, self._marker, self._forkserver_pid), self._seen, limit))
        before, self._undead = self._undead, left
        if left and left != before:
            logger.warning("processes {} of worker {} do not die", sorted(process.pid for process in left), self.pid)
        return not left

    def how_it_ended(self) -> str:
        """``killed by signal 11 (SIGSEGV)``, ``exit code 3``; waits a moment for the forkserver's report."""
        code = self._exit_code()
        if code is None or code == UNKNOWN_EXIT:
            return "ended, nobody knows how"
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        return f"killed by signal {-code}"

    def went_with_forkserver(self) -> bool:
        """Whether it died because the forkserver did."""
        died = self._exit_code() in (None, UNKNOWN_EXIT, -signal.SIGKILL)
        return died and forkserver.running_pid() != self._forkserver_pid

    def was_asked_to_end(self) -> bool:
        """Whether it died of a signal that also stops a node."""
        return self._exit_code() in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)

    def was_killed_for_memory(self) -> bool:
        """Whether it died for want of memory, by the kernel or by itself."""
        return self._memory.explains(self._exit_code())

    def discard(self) -> None:
        """Releases threads, descriptors and the folder. The worker must have been killed."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call] # pebble's
            self._context.close_writers()
            self._pool.join()
        process = self.process
        if process is not None:
            with contextlib.suppress(ValueError):  # unkillable: its descriptors go with the object
                process.close()
        if self._identity is not None and processes.identify(self._identity.pid) == self._identity:
            process_tree.reap(self._identity.pid)  # its forkserver died before it, and this process takes orphans
        if self.progress is not None:
            self.progress.close()
        if self._outbox is not None:
            self._outbox.close()
        if self._folder is not None:
            self.tell_printed()
            removal.remove(self._folder)

    def _make_folder(self) -> Path:
        self._folder = Path(tempfile.mkdtemp(prefix=self._name, dir=self._plan.options.workdir))
        (self._folder / child_setup.TEMP_FOLDER).mkdir(mode=0o700)
        self.progress = ProgressReader(self._folder / child_setup.PROGRESS_FILE)
        self._outbox = OutboxReader(self._folder / child_setup.OUTBOX_FILE)
        return self._folder

    def _launch(self, folder: Path) -> futures.Future[Any]:
        options = self._plan.options
        self._forkserver_pid = forkserver.ensure_running(options.node_id, options.preload)
        forkserver.tidy_if_killed(options.workdir)
        setup = child_setup.WorkerSetup(
            marker=self._marker,
            slot=self._slot,
            folder=os.fspath(folder),
            forkserver_pid=self._forkserver_pid,
            nice=options.nice,
            memory_limit_mb=options.memory_limit_mb,
            entry=self._plan.entry,
        )
        self._pool = ProcessPool(
            max_workers=1, initializer=child_setup.set_up_worker, initargs=(setup,), context=self._context
        )
        try:
            return self._pool.schedule(child_setup.warm_up)
        except Exception as error:
            if isinstance(error.__cause__, TimeoutError):
                forkserver.kill(self._forkserver_pid)
                raise StartFailure(str(error.__cause__)) from error
            raise
        finally:
            process = self._context.process
            if process is not None and process.pid is not None:
                self.pid = process.pid
                self._identity = processes.identify(process.pid)

    def _await(self, warm_up: futures.Future[Any], abort: threading.Event) -> None:
        patience = self._plan.options.start_timeout
        while not warm_up.done():
            futures.wait([warm_up], 0.1)
            patience -= 0.1
            if abort.is_set():
                raise StartFailure("the pool is closed")
            if patience <= 0:
                raise StartFailure(f"not ready after {self._plan.options.start_timeout:g} s")
        if warm_up.exception() is not None:
            reason = f"it ended before it was ready ({self.how_it_ended()})"
            raise StartFailure(forkserver.WAS_KILLED if self._lost_forkserver() else reason)
        failure = warm_up.result().failure
        if failure is not None:
            raise StartFailure(failure)

    def _why(self, error: Exception) -> str:
        """The reason in an operator's words, as far as it is known; pebble hides it behind an error without text."""
        if self._lost_forkserver():
            return forkserver.WAS_KILLED
        cause = error
        while not str(cause) and isinstance(cause.__cause__ or cause.__context__, Exception):
            cause = cause.__cause__ or cause.__context__  # type: ignore[assignment] # the line before says so
        if isinstance(cause, EOFError) or str(cause) == "can't start new thread":
            return "no process or memory is left for another worker (ulimit -u, pids.max of the cgroup)"
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no space left in {self._plan.options.workdir} (make room there, or set TMPDIR to another folder)"
        return f"{type(cause).__name__}: {cause}"

    def _lost_forkserver(self) -> bool:
        """Whether the forkserver that was asked for the worker lives no more."""
        return self._forkserver_pid is not None and forkserver.has_died(self._forkserver_pid)

    def _exit_code(self) -> int | None:
        process = self.process
        if process is None:
            return None
        process.join(_REPORT_SECONDS)
        return process.exitcode
