"""The pool: slots that each run one job after the other in a worker process that can always be killed.

It knows nothing of the database or of handlers. Limits are enforced by a thread of its own, the watcher, whatever its
user is waiting for; the user only submits, and collects with ``poll`` what has ended.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.pool import forkserver, removal
from batchproc.engine.pool.shared import Shared
from batchproc.engine.pool.slot import CHECK_SECONDS, Slot
from batchproc.engine.pool.types import Ended, Entry, PoolOptions, Running, Work
from batchproc.engine.pool.worker_handle import WorkerHandle, WorkerPlan

__all__ = ["Ended", "Entry", "NoFreeSlot", "PoolOptions", "Running", "Work", "WorkerPool"]

_CLOSE_SECONDS = 5.0


class NoFreeSlot(RuntimeError):
    """No worker is ready and idle."""


class WorkerPool:
    """One single-worker pebble pool per slot. ``submit`` and ``poll`` belong to one thread; the rest to any.

    Args:
        heard: told, in threads of the pool, of what has ended before ``poll`` tells of it.

    Raises ValueError when the entry cannot be imported by a worker, or the node id is too long.
    """

    def __init__(
        self, options: PoolOptions, entry: Entry, heard: Callable[[Sequence[Ended]], None] = lambda _: None
    ) -> None:
        if options.workers < 1:
            raise ValueError("a pool needs at least one worker")
        forkserver.marker(options.node_id, options.workers, 2**31)
        self._options = options
        self._heard = heard
        self._endings: deque[Ended] = deque()
        self._shared = Shared(
            plan=WorkerPlan(options, _pickled(entry)),
            publish=self._publish,
            wake=self._wake,
            watch=self._watch,
            unwatch=self._unwatch,
            look_again=self._look_again,
        )
        self._slots = [Slot(number, self._shared) for number in range(options.workers)]
        self._watched: dict[int, tuple[Slot, WorkerHandle]] = {}
        self._watcher = threading.Thread(target=self._keep_watch, name="pool-watcher", daemon=True)
        self._next_look = float("inf")
        self._started = self._closed = self._made_workdir = False
        # While a descriptor is used: closed meanwhile, its number could be somebody else's.
        self._open = threading.Lock()

    def start(self) -> None:
        """Starts all workers and returns when each is ready.

        Raises:
            EnvironmentFault: a worker could not be started; says why. The pool is closed then.
        """
        if not self._options.workdir.exists():
            self._options.workdir.mkdir(mode=0o700, parents=True)
            self._made_workdir = True
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._nudge = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll = select.epoll()
        self._epoll.register(self._nudge, select.EPOLLIN)
        self._started = True
        forkserver.acquire()
        try:
            self._watcher.start()
            for slot in self._slots:
                slot.start()
            with self._shared.changed:
                self._shared.changed.wait_for(lambda: self.fault() or all(slot.settled for slot in self._slots))
            fault = self.fault()
            if fault is not None:
                raise fault
        except BaseException:
            self.close()
            raise

    def free(self) -> int:
        """How many slots have a worker that is ready and idle."""
        return sum(slot.free for slot in self._slots)

    def room_ahead(self, most: int = 1) -> int:
        """How many submissions may wait in slots that are at quick jobs, if they are like the last ones.

        Args:
            most: that may wait in one slot.
        """
        now = time.monotonic()
        return sum(slot.room_ahead(now, most) for slot in self._slots)

    def submit(self, *works: Work, expected: float = math.inf, ahead: bool = False) -> int:
        """Gives jobs, mostly a single one, to a free slot, in this order, and returns the slot's number.

        Each ends for itself, and is told by ``poll`` soon after. The limits of each count from its begin.

        Args:
            expected: seconds that they should take; others may wait behind them if that is little.
            ahead: without a free slot they may wait behind quick jobs; what waits too long ends as interrupted.

        Raises:
            NoFreeSlot: there is none; also after ``free`` told of one, for an idle worker may die at any time.
        """
        for slot in self._slots:
            if slot.free and slot.submit(works, expected=expected):
                return slot.number
        # Behind as little as there is; and of these the one that has been at its job for the shortest time: it should
        # be over first, if any is.
        for slot in sorted(self._slots, key=lambda slot: (slot.waiting, -slot.heard)) if ahead else ():
            if slot.submit(works, expected=expected, ahead=True):
                return slot.number
        raise NoFreeSlot(f"no slot is free for job {works[0].job_id}")

    def wakeup_fileno(self) -> int:
        """Readable when a job has ended, or a slot has become free or faulty. Only between ``start`` and ``close``."""
        return self._wakeup

    def poll(self) -> list[Ended]:
        """What has ended since the last call, at once; also after ``close``."""
        with self._open, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.eventfd_read(self._wakeup)
        return [self._endings.popleft() for _ in range(len(self._endings))]

    def running(self) -> list[Running]:
        """The job that each slot is at; what comes after it in its bundle is not told."""
        return [running for slot in self._slots if (running := slot.running())]

    def bundles(self) -> list[list[UUID]]:
        """The claims of the jobs that were submitted and have not ended, of each slot that has any."""
        return [held for slot in self._slots if (held := slot.holds())]

    def cancel(self, claim_id: UUID) -> bool:
        """Ends the job of this claim as cancelled, unless it has ended by then; False when unknown.

        Its worker is killed if it has begun; else it is taken back, and the others of its bundle never notice.
        """
        return any(slot.cancel(claim_id) for slot in self._slots)

    def interrupt(self, reason: str) -> None:
        """Kills all running jobs, which end as interrupted."""
        for slot in self._slots:
            slot.interrupt(reason)

    def drain(self) -> None:
        """The node is shutting down: handlers see it, workers that die interrupt their job and are not replaced."""
        self._shared.draining.set()
        for slot in self._slots:
            slot.ask_to_stop()

    def fault(self) -> EnvironmentFault | None:
        """Why a slot has no worker and gets none any more."""
        return next((slot.fault for slot in self._slots if slot.fault), None)

    def close(self) -> None:
        """Kills what still runs (its jobs end as interrupted); leaves no process, thread, descriptor or folder."""
        if self._closed or not self._started:
            return
        self._shared.closing.set()
        for slot in self._slots:
            slot.close()
        # Pebble's threads look about every 0.1 s; only a forkserver that does not answer can make it longer.
        self._join_slots(_CLOSE_SECONDS)
        pid = forkserver.running_pid()
        if pid is not None and not self._join_slots(0):
            forkserver.kill(pid)
        if not self._join_slots(self._options.kill_deadline + _CLOSE_SECONDS):
            logger.error("some workers could not be ended")
        self._look_again(0)
        self._watcher.join()
        forkserver.release()
        with self._open:
            self._closed = True
            self._epoll.close()
            os.close(self._nudge)
            os.close(self._wakeup)
        if self._made_workdir:
            removal.remove(self._options.workdir)

    def _join_slots(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        return all(slot.join(max(0.0, give_up - time.monotonic())) for slot in self._slots)

    def _publish(self, ended: Sequence[Ended]) -> None:
        try:
            self._heard(ended)
        except Exception as error:  # noqa: BLE001 - no outcome may be lost by it
            logger.opt(exception=error).error("what has ended could not be prepared, and is told all the same")
        self._endings.extend(ended)
        self._wake()

    def _wake(self) -> None:
        with self._open:
            if not self._closed:
                os.eventfd_write(self._wakeup, 1)

    def _watch(self, slot: Slot, worker: WorkerHandle) -> None:
        assert worker.process is not None
        descriptor = worker.process.end_fd
        with self._open:
            if not self._closed:
                self._watched[descriptor] = slot, worker
                self._epoll.register(descriptor, select.EPOLLIN)

    def _unwatch(self, worker: WorkerHandle) -> None:
        for descriptor, (_, watched) in list(self._watched.items()):
            if watched is worker:
                self._watched.pop(descriptor, None)
                with self._open, contextlib.suppress(OSError):
                    if not self._closed:
                        self._epoll.unregister(descriptor)

    def _look_again(self, when: float) -> None:
        """Makes the watcher look at ``when``, if it would not anyhow before."""
        with self._open:
            if when < self._next_look and not self._closed:
                os.eventfd_write(self._nudge, 1)

    def _keep_watch(self) -> None:
        while not self._shared.closing.is_set():
            try:
                self._next_look = float("inf")  # what comes from now on nudges
                now = time.monotonic()
                due = min(min(slot.check(now), slot.weigh(now)) for slot in self._slots)
                self._next_look = due
                self._wait_for_deaths(max(0.0, due - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - the limits must stay enforced
                logger.opt(exception=error).error("the pool's watcher failed, and goes on")
                self._shared.closing.wait(CHECK_SECONDS)

    def _wait_for_deaths(self, timeout: float) -> None:
        for descriptor, _ in self._epoll.poll(timeout):
            if descriptor == self._nudge:
                os.eventfd_read(self._nudge)
                continue
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)
            watched = self._watched.pop(descriptor, None)
            if watched is not None:
                slot, worker = watched
                slot.worker_died(worker)


def _pickled(entry: Entry) -> bytes:
    for function in (entry.function, entry.initializer):
        if function.__module__ == "__main__":
            raise ValueError(f"{function.__qualname__} must be in a module that workers can import")
    try:
        return pickle.dumps((entry.function, entry.initializer, entry.initargs))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"the entry cannot be sent to a worker: {error}") from error
