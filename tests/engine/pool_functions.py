"""What the workers of the pool's tests run: every way in which a job can misbehave.

The number of a job says what it does (``Act``); the folder given to the initializer is where it leaves traces.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from enum import IntEnum
from multiprocessing import connection
from pathlib import Path
from typing import Any
from uuid import UUID

from batchproc.core.outcome import Completed, ErrorClass, Failed, FollowUp, Outcome
from batchproc.engine.pool import child_setup
from batchproc.engine.pool.child_setup import current_progress, current_workdir
from tests.waiting import wait_until


class Act(IntEnum):
    QUICK = 1
    DESCRIBE = 2
    HANG_IN_C = 3
    HANG_IN_PYTHON = 4
    HANG_DEAF = 5
    STOP_ITSELF = 6
    TREE_AND_HANG = 7
    TREE_AND_SEGFAULT = 8
    TREE_AND_EXIT_0 = 9
    COMETS = 10
    EXIT_0 = 11
    EXIT_3 = 12
    EXIT_255 = 13
    ABORT = 14
    SEGFAULT = 15
    KILL_ITSELF = 16
    DIE_WHILE_ANSWERING = 17
    NOT_JSON = 18
    NOT_AN_OUTCOME = 19
    NOT_PLAIN = 20
    TOO_LARGE = 21
    LARGE = 22
    RAISE = 23
    SYS_EXIT = 24
    GROW = 25
    GROW_IN_CHILDREN = 26
    GO_SILENT = 27
    COUNT_PAGES = 28
    WAIT_FOR_STOP = 29
    RUNAWAY = 30
    FAIL_AS_DECLARED = 31
    LOAD_WITHOUT_END = 32
    MIDDLING = 33
    SCRIBBLE = 34
    CLOSE_ALL = 35
    DECLARE_UNFIT = 36
    FALL_IDLE = 37
    NAP = 38
    NAP_AND_BE_UNFIT = 39


NAP_SECONDS = 0.2


_folder = Path()


class Strange:
    """Not plain data."""


def initialize(folder: str) -> None:
    global _folder
    _folder = Path(folder)
    faulthandler.disable()


def fail_to_initialize(folder: str) -> None:
    raise LookupError("no such engine")


def exit_in_initializer(folder: str) -> None:
    os._exit(4)


def hang_in_initializer(folder: str) -> None:
    _sleep_in_c()


def act(job_id: int, claim_id: UUID) -> Outcome:
    function: Callable[[], Any] = _ACTS[Act(job_id)]
    outcome: Outcome = function() or Completed(str(os.getpid()))
    return outcome


def _describe() -> Completed:
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    shell = ["sh", "-c", "echo $BATCHPROC_SLOT $TMPDIR $OMP_THREAD_LIMIT"]
    found = {
        "pid": os.getpid(),
        "group": int(stat[2]),
        "session": int(stat[3]),
        "sigterm": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "marked": os.environ["BATCHPROC_SLOT"] in Path("/proc/self/environ").read_text().split("=", 1)[1],
        "marker": os.environ["BATCHPROC_SLOT"],
        "environment": Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0"),
        "subprocess": subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split(),
        "tempdir": tempfile.gettempdir(),
        "workdir": str(current_workdir()),
        "temp_mode": current_workdir().stat().st_mode & 0o777,
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "nice": os.nice(0),
        "stdout": Path("/proc/self/fd/1").readlink() == Path("/proc/self/fd/2").readlink(),
        "inheritable": [fd for fd in range(3, 64) if _inheritable(fd)],
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "leaked": [name for name in os.environ if name in ("BATCHPROC_FORKSERVER", "PYTHONSAFEPATH")],
        "path": sys.path,
    }
    return Completed(json.dumps(found))


def _inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def _sleep_in_c() -> None:
    """Holds the interpreter's lock: no Python code runs in this process any more."""
    ctypes.PyDLL(None).sleep(600)


def _loop() -> None:
    while True:
        pass


def _hang_deaf() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    _sleep_in_c()


def _leave_trace() -> None:
    (_folder / str(os.getpid())).touch()


def _grow_tree() -> None:
    """Children in every position: own session, deaf, orphaned, forked without exec, without any environment."""
    sleep = "touch $1/$$; exec sleep 600"
    here = os.fspath(_folder)
    subprocess.Popen(["sh", "-c", sleep, "sh", here])
    subprocess.Popen(["sh", "-c", sleep, "sh", here], start_new_session=True)
    subprocess.Popen(["sh", "-c", "trap '' HUP TERM; sh -c 'touch $1/$$; exec sleep 600' sh $1 & wait", "sh", here])
    for environment in (None, dict(os.environ), {}):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                if environment is not None:
                    os.execve("/bin/sh", ["sh", "-c", sleep, "sh", here], environment)
                _leave_trace()
                _sleep_in_c()
            os._exit(0)
    _leave_trace()
    wait_until(lambda: len(list(_folder.iterdir())) >= 7)


def _tree_and_hang() -> None:
    _grow_tree()
    _sleep_in_c()


def _tree_and_segfault() -> None:
    _grow_tree()
    ctypes.string_at(0)


def _tree_and_exit_0() -> None:
    _grow_tree()
    os._exit(0)


def _comets() -> None:
    """Processes that are always about to be another one, in another session, with another parent."""
    end = time.monotonic() + 20
    for _ in range(6):
        if os.fork() == 0:
            while time.monotonic() < end:
                if os.fork() != 0:
                    os._exit(0)
                os.setsid()
            os._exit(0)
    _leave_trace()
    _sleep_in_c()


def _runaway() -> None:
    for _ in range(150):
        if os.fork() == 0:
            signal.pause()
    _sleep_in_c()


def _die_while_answering() -> Outcome:
    send = connection.Connection._send  # type: ignore[attr-defined] # its innermost write

    def half(self: Any, buf: Any, *rest: Any) -> None:
        if len(buf) > 100_000:
            send(self, bytes(buf)[: len(buf) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, buf)

    connection.Connection._send = half  # type: ignore[attr-defined]
    return _large()


def _large() -> Outcome:
    return Completed("x" * 1_000_000)


def _raise() -> None:
    raise ValueError("a text that may quote a document")


def _sys_exit() -> None:
    sys.exit(5)


def _grow() -> None:
    hog = []
    while True:
        hog.append(bytearray(8 << 20))
        _nap(0.01)


def _grow_in_children() -> None:
    for _ in range(4):
        subprocess.Popen([sys.executable, "-c", "x = bytearray(60 << 20); import time; time.sleep(600)"])
    _sleep_in_c()


def _go_silent() -> None:
    for _ in range(5):
        current_progress().beat()
        _nap(0.1)
    current_progress().set(3, 9)
    current_progress().note_backend(4242)
    _sleep_in_c()


def _load_without_end() -> None:
    current_progress().loading(True)
    _sleep_in_c()


def _count_pages() -> None:
    for page in range(10):
        _nap(0.1)
        current_progress().set(page + 1, 10)


def _wait_for_stop() -> Outcome:
    current_progress().set(0, 1)
    wait_until(current_progress().stopping)
    return Completed("stopped")


def _scribble() -> None:
    """Over all that the node reads of this worker's outcomes."""
    outbox: Any = child_setup._outbox
    outbox._memory[:] = os.urandom(len(outbox._memory))


def _close_all() -> None:
    os.closerange(0, 1000)


def _nap_and_be_unfit() -> None:
    time.sleep(2 * NAP_SECONDS)
    current_progress().declare_unfit()


def _fall_idle() -> None:
    """Stops the process when it is between this job and the next."""
    tidy_up = child_setup._tidy_up

    def tidy_up_and_stop() -> None:
        child_setup._tidy_up = tidy_up
        tidy_up()
        outbox: Any = child_setup._outbox
        put = outbox.put

        def put_and_stop(*record: Any) -> bool:
            del outbox.put
            written: bool = put(*record)
            os.kill(os.getpid(), signal.SIGSTOP)
            return written

        outbox.put = put_and_stop

    child_setup._tidy_up = tidy_up_and_stop


def _nap(seconds: float) -> None:
    time.sleep(seconds)


_ACTS = {
    Act.QUICK: lambda: None,
    Act.DESCRIBE: _describe,
    Act.HANG_IN_C: _sleep_in_c,
    Act.HANG_IN_PYTHON: _loop,
    Act.HANG_DEAF: _hang_deaf,
    Act.STOP_ITSELF: lambda: os.kill(os.getpid(), signal.SIGSTOP),
    Act.TREE_AND_HANG: _tree_and_hang,
    Act.TREE_AND_SEGFAULT: _tree_and_segfault,
    Act.TREE_AND_EXIT_0: _tree_and_exit_0,
    Act.COMETS: _comets,
    Act.EXIT_0: lambda: os._exit(0),
    Act.EXIT_3: lambda: os._exit(3),
    Act.EXIT_255: lambda: os._exit(255),
    Act.ABORT: os.abort,
    Act.SEGFAULT: lambda: ctypes.string_at(0),
    Act.KILL_ITSELF: lambda: os.kill(os.getpid(), signal.SIGKILL),
    Act.DIE_WHILE_ANSWERING: _die_while_answering,
    Act.NOT_JSON: lambda: Completed(lambda: None),  # type: ignore[arg-type] # on purpose
    Act.NOT_AN_OUTCOME: lambda: 42,
    Act.NOT_PLAIN: lambda: Completed(None, (FollowUp("x", {"a": Strange()}),)),
    Act.TOO_LARGE: lambda: Completed("x" * 5_000_000),
    Act.LARGE: _large,
    Act.RAISE: _raise,
    Act.SYS_EXIT: _sys_exit,
    Act.GROW: _grow,
    Act.GROW_IN_CHILDREN: _grow_in_children,
    Act.GO_SILENT: _go_silent,
    Act.COUNT_PAGES: _count_pages,
    Act.WAIT_FOR_STOP: _wait_for_stop,
    Act.RUNAWAY: _runaway,
    Act.LOAD_WITHOUT_END: _load_without_end,
    Act.MIDDLING: lambda: Completed("x" * 5_000),
    Act.SCRIBBLE: _scribble,
    Act.CLOSE_ALL: _close_all,
    Act.DECLARE_UNFIT: lambda: current_progress().declare_unfit(),
    Act.FALL_IDLE: _fall_idle,
    Act.NAP: lambda: time.sleep(NAP_SECONDS),
    Act.NAP_AND_BE_UNFIT: _nap_and_be_unfit,
    Act.FAIL_AS_DECLARED: lambda: Failed(ErrorClass.PERMANENT, "unreadable_file", "ValueError at x.py:1", "page 3"),
}
