"""What a worker process does with itself before its first job, and around each."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from uuid import UUID

from batchproc.core.outcome import ErrorClass, Failed, Outcome
from batchproc.engine.pool import process_tree, processes, reply
from batchproc.engine.pool.progress import ProgressWriter

PROGRESS_FILE, TEMP_FOLDER = "progress", "tmp"
_OOM_SCORE_ADJUSTMENT = 900


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Plain data for one worker. ``entry`` is the pickled (function, initializer, initargs).

    It stays pickled until the worker is set up, so that a module that is missing there is a reported failure.
    """

    marker: str
    folder: str
    forkserver_pid: int
    nice: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The reply of a worker that is set up; ``failure`` tells why it is of no use."""

    pid: int
    failure: str | None


_progress: ProgressWriter | None = None
_workdir: Path | None = None
_function: Callable[[int, str], Outcome] | None = None
_failure: str | None = "the worker was not set up"


def current_progress() -> ProgressWriter:
    """The progress record of this worker process. Raises RuntimeError outside of one."""
    if _progress is None:
        raise RuntimeError("this process is not a worker")
    return _progress


def current_workdir() -> Path:
    """This worker's private temp folder, removed with it. Raises RuntimeError outside of a worker."""
    if _workdir is None:
        raise RuntimeError("this process is not a worker")
    return _workdir


def set_up_worker(setup: WorkerSetup) -> None:
    """Pebble's initializer. It never raises, for pebble would only log it: ``warm_up`` tells."""
    global _failure, _function
    try:
        _isolate(setup)
        _mark(setup.marker)
        _give_resources(setup)
        _function, initializer, initargs = pickle.loads(setup.entry)  # noqa: S301 - written by our own node
        initializer(*initargs)
        _failure = None
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the node must hear of it
        _failure = f"{type(error).__name__}: {error}"


def warm_up() -> WarmUp:
    """The first call in every worker: its reply shows that it is ready."""
    return WarmUp(os.getpid(), _failure)


def run_job(job_id: int, claim_id: str) -> bytes:
    """One job in the worker; returns the encoded outcome. It does not raise."""
    try:
        current_progress().begin(UUID(claim_id))
        assert _function is not None
        return reply.encode(_function(job_id, claim_id))
    except MemoryError as error:
        return reply.encode(Failed(ErrorClass.OUT_OF_MEMORY, "out_of_memory", _place(error)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is this attempt's failure alone
        return reply.encode(Failed(ErrorClass.TRANSIENT, "internal_error", _place(error)))


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
    global _progress, _workdir
    folder = Path(setup.folder)
    _progress = ProgressWriter(folder / PROGRESS_FILE)
    _workdir = folder / TEMP_FOLDER
    os.environ["TMPDIR"] = str(_workdir)
    tempfile.tempdir = None
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )  # it would hold a document
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE_ADJUSTMENT))
    if setup.nice:
        os.nice(setup.nice)
        with contextlib.suppress(OSError):  # sessions are scheduled as groups where the kernel does that
            Path("/proc/self/autogroup").write_text(str(setup.nice))
