"""The pieces of multiprocessing that make a ``pebble.ProcessPool`` have one worker, once.

Against what was measured with pebble 5.2.3: a pool replaces a worker that ended by itself, in its own time; it does
not notice an exit with status 0; and a worker killed while it holds the pool's lock leaves a pool that hangs.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from multiprocessing import connection, context, forkserver, popen_forkserver, reduction, spawn, util
from typing import Any

from batchproc.engine.pool import forkserver as node_forkserver

ANSWER_SECONDS = 60.0
"""How long the forkserver, which may still be importing, has to answer a request for a worker."""

UNKNOWN_EXIT = 1000
"""The exit code, which no process can have, of one whose end nobody could report."""

_REPORT_SECONDS = 0.1


class NoLock:
    """In the place of pebble's lock of its pipes: each end of them has one user, and nothing is left locked."""

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:  # noqa: ARG002 - as of a lock
        return True

    def release(self) -> None:
        pass


class WorkerPopen(popen_forkserver.Popen):
    """Starts a process through the forkserver without the node's main module, and sees its end for itself.

    The main module would be imported again by each worker, with all of the command line. The end of the process is
    seen by its pidfd, also when the forkserver, which reports its exit code, is dead or stopped.
    """

    def __init__(self, process_obj: Any) -> None:
        self._polling = threading.Lock()
        self.pidfd: int | None = None
        super().__init__(process_obj)

    def _launch(self, process_obj: Any) -> None:
        # As in CPython's popen_forkserver, but for the main module and the limit.
        preparation = spawn.get_preparation_data(process_obj._name)
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)
        buffer = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(preparation, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, writer = forkserver.connect_to_new_process(self._fds)  # type: ignore[attr-defined] # typeshed lacks it
        parent_writer = os.dup(writer)
        close_fds = util.close_fds  # type: ignore[attr-defined] # typeshed lacks it
        self.finalizer = util.Finalize(self, close_fds, (parent_writer, self.sentinel))
        with open(writer, "wb") as pipe:  # noqa: PTH123 - a descriptor
            pipe.write(buffer.getbuffer())
        self._await_answer()
        self.pid = forkserver.read_signed(self.sentinel)
        with contextlib.suppress(OSError):  # no pidfd on this kernel: the forkserver's report has to do
            self.pidfd = os.pidfd_open(self.pid)

    def _await_answer(self) -> None:
        give_up = time.monotonic() + ANSWER_SECONDS
        while not connection.wait([self.sentinel], 1.0):
            node_forkserver.resume()
            if time.monotonic() > give_up:
                raise TimeoutError("the forkserver does not answer")

    @property
    def end_fd(self) -> int:
        """Readable when the process has ended."""
        return self.sentinel if self.pidfd is None else self.pidfd

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """The exit code, read once: two threads that both read the forkserver's report would lose it."""
        if flag != os.WNOHANG:
            connection.wait(self._ends())
        with self._polling:
            if self.returncode is None and connection.wait(self._ends(), 0):
                self.returncode = self._reported_exit()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if self.returncode is None:
            connection.wait(self._ends(), timeout)
        return self.poll()

    def close(self) -> None:
        super().close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def _reported_exit(self) -> int:
        """Of a process that has ended: the report comes in a moment, if it comes."""
        if connection.wait([self.sentinel], _REPORT_SECONDS):
            with contextlib.suppress(OSError, EOFError):
                return int(forkserver.read_signed(self.sentinel))
        return UNKNOWN_EXIT

    def _ends(self) -> list[int]:
        return [self.sentinel, self.end_fd]


class WorkerProcess(context.ForkServerProcess):
    """A process started by ``WorkerPopen``."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - multiprocessing's name
        return WorkerPopen(process_obj)

    @property
    def end_fd(self) -> int:
        """Readable when the process has ended. Only for a started process."""
        end_fd: int = self._popen.end_fd  # type: ignore[attr-defined] # multiprocessing's attribute
        return end_fd


class OneWorkerContext:
    """A multiprocessing context for ``pebble.ProcessPool(context=...)``: forkserver, no locks, and only one process."""

    def __init__(self) -> None:
        self._context = context.ForkServerContext()
        self._ends: list[connection.Connection[Any, Any]] = []
        self.process: WorkerProcess | None = None

    def Process(self, *args: Any, **kwargs: Any) -> WorkerProcess:  # noqa: N802 - multiprocessing's name
        """Raises OSError for a second one, by which pebble knows that the pool is broken, and says so at once."""
        if self.process is not None:
            raise OSError("the worker of this slot has ended")
        self.process = WorkerProcess(*args, **kwargs)
        return self.process

    def Pipe(self, duplex: bool = True) -> tuple[Any, Any]:  # noqa: N802 - multiprocessing's name
        ends = self._context.Pipe(duplex)
        self._ends += ends
        return ends

    def RLock(self) -> Any:  # noqa: N802 - multiprocessing's name
        return NoLock()

    def get_start_method(self) -> str:
        return "forkserver"

    def close_writers(self) -> None:
        """Gives a thread that waits for the rest of a dead worker's message its end of file."""
        for end in self._ends:
            if end.writable:
                end.close()
