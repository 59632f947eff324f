"""What a worker process does with itself before its first job, and around each."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from uuid import UUID

from batchproc.core.outcome import ErrorClass, Failed, Outcome
from batchproc.engine.pool import process_tree, processes, reply
from batchproc.engine.pool.job_folder import JobFolder
from batchproc.engine.pool.outbox import OutboxWriter
from batchproc.engine.pool.process_title import WorkerTitle
from batchproc.engine.pool.progress import ProgressWriter

PROGRESS_FILE, OUTBOX_FILE, TEMP_FOLDER = "progress", "outbox", "tmp"
OOM_SCORE_ADJUSTMENT = 900

ADDRESS_SPACE_FACTOR = 4
"""The address space of a worker, and of each process that it starts, as a multiple of the limit for resident memory,
on top of what the worker has mapped when it is ready.

That limit is the node's to enforce. This is the backstop for what is quicker than the node looks, or asks for
everything at once, and far off, because much is mapped and never touched (thread stacks, the heaps of other runtimes)
and because native code near it may go on without the memory it did not get. It is a soft limit: a handler may lift it
for a program that reserves more.
"""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Plain data for one worker. ``entry`` is the pickled (function, initializer, initargs).

    It stays pickled until the worker is set up, so that a module that is missing there is a reported failure.
    """

    marker: str
    slot: int
    folder: str
    forkserver_pid: int
    nice: int
    memory_limit_mb: int | None
    entry: bytes


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The reply of a worker that is set up; ``failure`` tells why it is of no use."""

    pid: int
    failure: str | None


Told = tuple[int, bytes, float]
"""A job on its way to the worker: job_id, the bytes of its claim_id, and the smaller one of its limits in seconds."""

Reply = tuple[int, float, bytes | None]
"""A worker's return from a bundle: after how many jobs, and of the last one seconds and encoded outcome if that is too
large for the outbox."""

_progress: ProgressWriter | None = None
_title: WorkerTitle | None = None
_outbox: OutboxWriter | None = None
_job_folder: JobFolder | None = None
_function: Callable[[int, UUID], Outcome] | None = None
_failure: str | None = "the worker was not set up"
_memory_limit_mb: int | None = None
_outer_limit = resource.RLIM_INFINITY
_shortest_limit = float("inf")
_coming: deque[tuple[int, UUID]] = deque()


def current_progress() -> ProgressWriter:
    """The progress record of this worker process. Raises RuntimeError outside of one."""
    if _progress is None:
        raise RuntimeError("this process is not a worker")
    return _progress


def current_workdir() -> Path:
    """This worker's private temp folder, removed with it. Raises RuntimeError outside of a worker."""
    if _job_folder is None:
        raise RuntimeError("this process is not a worker")
    return _job_folder.path


def shortest_limit() -> float:
    """Seconds: the smaller one of the limits of the job that this worker has begun; infinite outside of a worker."""
    return _shortest_limit


def coming() -> Sequence[tuple[int, UUID]]:
    """Job and claim ids of what this worker has been sent and not begun, in order; nothing outside of a worker."""
    return _coming


def set_up_worker(setup: WorkerSetup) -> None:
    """Pebble's initializer. It never raises, for pebble would only log it: ``warm_up`` tells."""
    global _failure, _function, _memory_limit_mb, _outer_limit
    try:
        _isolate(setup)
        _mark(setup.marker)
        _give_resources(setup)
        _memory_limit_mb, _outer_limit = setup.memory_limit_mb, resource.getrlimit(resource.RLIMIT_AS)[0]
        bound_address_space()
        _function, initializer, initargs = pickle.loads(setup.entry)  # noqa: S301 - written by our own node
        initializer(*initargs)
        _failure = None
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the node must hear of it
        _failure = f"{type(error).__name__}: {error}"


def bound_address_space() -> None:
    """Sets the limit of ``ADDRESS_SPACE_FACTOR`` on top of what is mapped now; one from outside stays if it is lower.

    For an initializer, after it has loaded what its jobs need. Outside of a worker it does nothing.
    """
    stat = processes.read_stat(os.getpid())
    if _memory_limit_mb is None or stat is None:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bounds = [bound for bound in (_outer_limit, hard) if bound != resource.RLIM_INFINITY]
    wanted = min([stat.mapped + ADDRESS_SPACE_FACTOR * (_memory_limit_mb << 20), *bounds])
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def warm_up() -> WarmUp:
    """The first call in every worker: its reply shows that it is ready."""
    return WarmUp(os.getpid(), _failure)


def run_bundle(number: int, told: Sequence[Told]) -> Reply:
    """Jobs in the worker, one after the other; their outcomes go into the outbox, under that number.

    It returns early when an outcome is too large for the outbox, or when the worker should get no other job. Whatever
    it raises, the worker is replaced for.
    """
    assert _progress is not None
    assert _outbox is not None
    assert _title is not None
    _outbox.begin(number)
    _coming.clear()
    _coming.extend((job_id, UUID(bytes=claim)) for job_id, claim, _ in told)
    try:
        for position, (_, _, shortest) in enumerate(told):
            job_id, claim_id = _coming.popleft()
            begun = _progress.begin(claim_id)
            if _progress.skips(position):
                if not _outbox.skip(position):
                    return position, 0.0, None
                continue
            _title.begin(job_id)
            reply = run_job(job_id, claim_id, shortest)
            seconds = time.monotonic() - begun
            if not _outbox.put(position, seconds, reply):
                return position + 1, seconds, reply
            if _progress.unfit:
                return position + 1, 0.0, None
        return len(told), 0.0, None
    finally:
        _title.end()


def run_job(job_id: int, claim_id: UUID, shortest: float) -> bytes:
    """One job in the worker, whose smaller limit is so many seconds; returns the encoded outcome. It does not raise."""
    global _shortest_limit
    try:
        _shortest_limit = shortest
        assert _function is not None
        outcome = _function(job_id, claim_id)
        if isinstance(outcome, Failed) and outcome.error_class is ErrorClass.OUT_OF_MEMORY:
            current_progress().declare_unfit()  # its memory is in pieces, and its peak stays what it was
        return reply.encode(outcome)
    except MemoryError as error:
        current_progress().declare_unfit()
        return reply.encode(Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", _place(error)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is this attempt's failure alone
        return reply.encode(Failed(ErrorClass.TRANSIENT, "internal_error", _place(error)))
    finally:
        _tidy_up()


def _tidy_up() -> None:
    """After a job. Whatever becomes of it, the job has had its outcome."""
    try:
        clean = _job_folder is not None and _job_folder.tidy()
    except BaseException:  # noqa: BLE001 - no memory, no descriptor, a disk that fails
        clean = False
    if not clean:
        current_progress().declare_unfit()


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def _isolate(setup: WorkerSetup) -> None:
    """A session of its own, mortal, and bound to the life of the forkserver and so of the node."""
    with contextlib.suppress(PermissionError):  # already the leader of a session
        os.setsid()
    # Pebble's handler for SIGTERM runs Python code, which a call that holds the interpreter's lock never lets it do.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    die_with_the_node()
    if os.getppid() != setup.forkserver_pid:  # it died before the signal was asked for
        os._exit(1)
    os.dup2(2, 1)  # what a handler or a library prints is no part of the node's output


def die_with_the_node() -> None:
    """For every child of the forkserver: it is killed with it, and does not keep it alive."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGKILL)
    _close_inherited_pipes()


def _close_inherited_pipes() -> None:
    """Lets go of what keeps the forkserver and the resource tracker alive, and lets no other program inherit anything.

    The forkserver ends when the last copy of its "alive" pipe is closed; with a copy here a busy worker would keep it,
    and thereby itself, alive after its node was killed.
    """
    for owner, name in (
        (forkserver._forkserver, "_forkserver_alive_fd"),
        (resource_tracker._resource_tracker, "_fd"),
    ):
        descriptor = getattr(owner, name, None)
        if descriptor is not None:
            os.close(descriptor)
            setattr(owner, name, None)
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.set_inheritable(int(entry.name), False)


def _mark(marker: str) -> None:
    """Makes the marker visible in /proc for this process, for what it forks, and for the programs it starts.

    /proc shows the environment that the forkserver was started with. There the marker's place was kept free, so it
    is written in place; setting the variable alone would show only in programs started from here.
    """
    name = process_tree.MARKER_VARIABLE
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    address = getenv(name.encode())
    text = marker.encode() + b"\0"
    if not address or len(ctypes.string_at(address)) < len(text):
        raise RuntimeError("the forkserver was not set up for workers")
    ctypes.memmove(address, text, len(text))
    os.environ[name] = marker


def _give_resources(setup: WorkerSetup) -> None:
    global _job_folder, _outbox, _progress, _title
    folder = Path(setup.folder)
    _progress = ProgressWriter(folder / PROGRESS_FILE)
    _title = WorkerTitle(setup.slot)
    _progress.told = _title.progress
    _outbox = OutboxWriter(folder / OUTBOX_FILE)
    _job_folder = JobFolder(folder / TEMP_FOLDER)
    os.environ["TMPDIR"] = str(_job_folder.path)
    tempfile.tempdir = None
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )  # it would hold a document
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJUSTMENT))
    if setup.nice:
        os.nice(setup.nice)
        with contextlib.suppress(OSError):  # sessions are scheduled as groups where the kernel does that
            Path("/proc/self/autogroup").write_text(str(setup.nice))
