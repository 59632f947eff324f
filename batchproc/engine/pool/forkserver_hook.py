"""What the forkserver does with itself when multiprocessing makes it import this module first of all.

Only there: the node leaves its pid in ``CONFIG_VARIABLE`` while it starts the forkserver, and everywhere else the
import does nothing. The forkserver is the parent of all workers, adopts what dead workers leave behind, and when its
node is gone, killed outright or not, ends everything below it and then itself.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import json
import os
import signal
import sys
import time
import warnings
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from batchproc.engine.pool import process_title, process_tree, processes, removal

CONFIG_VARIABLE = "BATCHPROC_FORKSERVER"
WORKDIRS_FILE = "workdirs"
"""Beside the forkserver's socket: the folders of the node's pools, a JSON text a line, for when it is killed."""

GROUP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Which the node has blocked while it starts the forkserver."""

_DYING_SECONDS = 2.0
_NEEDED_BY_EVERY_WORKER = ("pebble", "batchproc.engine.pool.one_worker", "batchproc.engine.pool.child_setup")


def _set_up_if_forkserver() -> None:
    text = os.environ.get(CONFIG_VARIABLE)
    if text is None:
        return
    config = json.loads(text)
    if config["node_pid"] == os.getppid():
        _set_up(config)


def _set_up(config: dict[str, Any]) -> None:
    process_title.show("batchproc forkserver")
    del os.environ[CONFIG_VARIABLE]
    for name, value in config["environment"].items():  # was changed only to get here
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.environ["OMP_THREAD_LIMIT"] = "1"  # here already: a library reads it when it is loaded
    with contextlib.suppress(PermissionError):  # already the leader of a session
        os.setsid()
    _forget_signals()
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    _survive_a_refused_fork()
    warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")
    atexit.register(_end_everything, os.getpid(), config["node_pid"])
    for module in (*_NEEDED_BY_EVERY_WORKER, *config["preload"]):
        # What fails here fails again in the worker, where it is reported.
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def _survive_a_refused_fork() -> None:
    """Makes a fork for which there is no process or memory left one worker's failure.

    multiprocessing would let the forkserver end of it, and every worker with it. Its loop passes over an aborted
    connection, so that is what is raised there; what it has received for the worker is closed, by which the node knows.
    """
    fork = os.fork

    def fork_or_abort() -> int:
        try:
            pid = fork()
        except OSError as error:
            received = sys._getframe(1).f_locals
            for descriptor in (received["child_r"], received["child_w"], *received["fds"]):
                os.close(descriptor)
            raise ConnectionAbortedError(errno.ECONNABORTED, "no worker can be forked") from error
        if pid == 0:
            os.fork = fork
        return pid

    os.fork = fork_or_abort


def _forget_signals() -> None:
    """A signal to the node's group (a terminal, systemd, timeout) is for the node to obey: it gives its jobs time."""
    for number in GROUP_SIGNALS:
        before = signal.signal(number, signal.SIG_IGN)  # what is pending is dropped
        if number not in (signal.SIGTERM, signal.SIGINT):  # these come to all of a cgroup, too
            signal.signal(number, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _end_everything(pid: int, node_pid: int) -> None:
    if os.getpid() != pid:
        return
    process_tree.kill_descendants(pid)
    if _outlives(node_pid):
        with contextlib.suppress(OSError, ValueError):
            _tidy_after_a_killed_node()
        os._exit(1)  # nobody waits, and the libraries that were loaded for the workers take long to leave


def _outlives(node_pid: int) -> bool:
    """Whether the node is dead. One that was killed closes its end of our pipe a moment before that."""
    give_up = time.monotonic() + _DYING_SECONDS
    # A node that ends in order removes the list before it ends us.
    while os.getppid() == node_pid and _socket().with_name(WORKDIRS_FILE).exists() and time.monotonic() < give_up:
        time.sleep(0.001)
    return os.getppid() != node_pid


def _socket() -> Path:
    address = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined] # not in typeshed
    return Path(address or "not-there-yet")


def _tidy_after_a_killed_node() -> None:
    """Removes the workers' folders, and multiprocessing's own with our socket in it."""
    socket = _socket()
    listed = socket.with_name(WORKDIRS_FILE)
    for line in listed.read_text().splitlines():
        workdir = Path(json.loads(line))
        for folder in workdir.glob("slot-*"):
            removal.remove(folder)
        with contextlib.suppress(OSError):  # it holds what is not ours
            workdir.rmdir()
    listed.unlink()
    socket.unlink()
    socket.parent.rmdir()


_set_up_if_forkserver()
