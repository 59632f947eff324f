"""The keeper of a slot: a thread of its own that kills the slot's workers and starts new ones.

So no slot waits for another, and none needs a new thread, which a fork bomb could refuse it, to end a job.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING

from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.engine.pool.shared import Shared
from batchproc.engine.pool.verdict import DIED, START, WORN, Verdict
from batchproc.engine.pool.worker_handle import StartFailure, WorkerHandle

if TYPE_CHECKING:
    from batchproc.engine.pool.slot import Slot

_MAX_BARREN = 10
_LONGEST_PAUSE = 5.0
_KILL_AGAIN_SECONDS = 1.0


class Keeper:
    """Carries out, one after the other, the verdicts on the workers of one slot.

    ``fault`` is set when no worker could be started any more.
    """

    def __init__(self, slot: Slot, shared: Shared) -> None:
        self.fault: EnvironmentFault | None = None
        self._slot = slot
        self._shared = shared
        self._options = shared.plan.options
        self._generation = 0
        self._barren = 0
        self._last_end = ""
        self._was_ready = False
        self._held: list[WorkerHandle] = []  # started, and not discarded yet
        self._orders: queue.SimpleQueue[Verdict | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._keep, name=f"slot-{slot.number}", daemon=True)

    def start(self) -> None:
        """Starts the thread, and with it the first worker."""
        self._thread.start()
        self._orders.put(START)

    def replace(self, verdict: Verdict) -> None:
        """The slot's worker has to go, or is dead, and another is needed."""
        self._orders.put(verdict)

    def job_done(self) -> None:
        """A worker has done a job: the next ones may be started without a pause."""
        self._barren = 0

    def close(self) -> None:
        """Begins the end; ``join`` waits for it."""
        self._orders.put(None)

    def join(self, timeout: float) -> bool:
        """Whether the thread has ended by then."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # The thread.

    def _keep(self) -> None:
        while (verdict := self._orders.get()) is not None:
            try:
                self._turn_over(verdict)
            except Exception as error:  # noqa: BLE001 - whatever it is, no job may be lost by it
                logger.opt(exception=error).error("slot {} failed", self._slot.number)
                held = list(self._held)
                for worker in held:
                    with contextlib.suppress(Exception):
                        self._shared.unwatch(worker)
                        worker.kill(self._options.kill_deadline)
                self._give_up(f"{type(error).__name__}: {error}")
                for worker in held:
                    with contextlib.suppress(Exception):
                        self._discard(worker)
        self._say_farewell()

    def _discard(self, worker: WorkerHandle) -> None:
        self._held.remove(worker)
        worker.discard()

    def _turn_over(self, verdict: Verdict) -> None:
        old = self._slot.worker
        if old is not None and verdict is not WORN:
            self._end(old, verdict)
        if self._shared.draining.is_set() or self._shared.closing.is_set():
            self._slot.retire("no worker for it")
        elif (worker := self._started_worker()) is not None:
            self._was_ready = True
            self._slot.install(worker)
        if old is not None:
            if verdict is WORN:
                self._shared.unwatch(old)
                old.kill(self._options.kill_deadline)
            self._discard(old)

    def _end(self, worker: WorkerHandle, verdict: Verdict) -> None:
        """Kills the worker and concludes its jobs. The slot is free only when the whole tree is gone."""
        self._shared.unwatch(worker)
        bundle = self._slot.bundle
        gone = worker.kill(self._options.kill_deadline)
        work = bundle.at(worker.read_progress()) if bundle is not None else None
        log = logger.bind(job_id=work.job_id) if work is not None else logger
        level = "WARNING" if work is not None or verdict is not DIED else "DEBUG"
        how = worker.how_it_ended() if verdict is DIED else "killed"
        log.log(level, "worker {} of slot {} {}: {}", worker.pid, self._slot.number, verdict.reason, how)
        worker.tell_printed(**({} if work is None else {"job_id": work.job_id}))
        if bundle is None:
            self._barren = self._barren + 1 if worker.jobs == 0 else 0
            self._last_end = f"{verdict.reason}: {how}"
        else:
            self._slot.conclude(bundle, verdict, worker)
        while not gone and not self._shared.closing.wait(_KILL_AGAIN_SECONDS):
            gone = worker.kill(_KILL_AGAIN_SECONDS)

    def _started_worker(self) -> WorkerHandle | None:
        """A worker that is ready; None, and the slot is given up, when none can be had."""
        self._slot.await_worker()
        reason = f"its workers end as soon as they are started, the last one {self._last_end}"
        attempts = self._options.start_attempts if self._barren <= _MAX_BARREN else 0
        for attempt in range(attempts):
            if self._shared.closing.wait(_pause(self._barren + attempt)):
                break
            self._generation += 1
            worker = WorkerHandle(self._shared.plan, self._slot.number, self._generation)
            self._held.append(worker)
            try:
                worker.start(self._shared.closing)
            except StartFailure as failure:
                reason = str(failure)
                logger.debug("worker {} of slot {} cannot be started: {}", worker.pid, self._slot.number, reason)
                worker.kill(self._options.kill_deadline)
                self._discard(worker)
            else:
                return worker
        if self._shared.closing.is_set():
            self._slot.retire("no worker for it")
        else:
            self._give_up(reason)
        return None

    def _give_up(self, reason: str) -> None:
        self.fault = EnvironmentFault(
            f"slot {self._slot.number} has no worker: {reason}",
            "mend that and start again; `batchproc doctor` tests it",
        )
        if self._was_ready:  # else the pool's start reports it
            logger.error("{}", self.fault)
        self._slot.retire("no worker for it")

    def _say_farewell(self) -> None:
        self._slot.retire("the pool was closed", self._options.kill_deadline)
        for worker in list(self._held):
            self._discard(worker)


def _pause(failures: int) -> float:
    """Nothing before the first try, then longer and longer."""
    return 0.0 if failures == 0 else min(0.1 * 2.0 ** (failures - 1), _LONGEST_PAUSE)
