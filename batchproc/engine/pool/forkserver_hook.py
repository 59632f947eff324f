"""What the forkserver does with itself when multiprocessing makes it import this module first of all.

Only there: the node leaves its pid in ``CONFIG_VARIABLE`` while it starts the forkserver, and everywhere else the
import does nothing. The forkserver is the parent of all workers, adopts what dead workers leave behind, and when its
node is gone, killed outright or not, ends everything below it and then itself.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import shutil
import signal
import warnings
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from batchproc.engine.pool import process_tree, processes

CONFIG_VARIABLE = "BATCHPROC_FORKSERVER"
WORKDIRS_FILE = "workdirs"
"""Beside the forkserver's socket: the folders of the node's pools, a JSON text a line."""

_NEEDED_BY_EVERY_WORKER = ("pebble", "batchproc.engine.pool.one_worker", "batchproc.engine.pool.child_setup")


def _set_up_if_forkserver() -> None:
    text = os.environ.get(CONFIG_VARIABLE)
    if text is None:
        return
    config = json.loads(text)
    if config["node_pid"] == os.getppid():
        _set_up(config)


def _set_up(config: dict[str, Any]) -> None:
    del os.environ[CONFIG_VARIABLE]
    for name, value in config["environment"].items():  # was changed only to get here
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.environ["OMP_THREAD_LIMIT"] = "1"  # here already: a library reads it when it is loaded
    with contextlib.suppress(PermissionError):  # already the leader of a session
        os.setsid()
    # A signal to the node's whole group (a terminal, systemd, timeout) is for the node to obey: it gives its jobs time.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")
    atexit.register(_end_everything, os.getpid(), config["node_pid"])
    for module in (*_NEEDED_BY_EVERY_WORKER, *config["preload"]):
        # What fails here fails again in the worker, where it is reported.
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def _end_everything(pid: int, node_pid: int) -> None:
    if os.getpid() != pid:
        return
    process_tree.kill_descendants(pid)
    if os.getppid() != node_pid:
        with contextlib.suppress(OSError, ValueError):
            _tidy_after_a_killed_node()


def _tidy_after_a_killed_node() -> None:
    """Removes the workers' folders, and multiprocessing's own with our socket in it."""
    socket = Path(forkserver._forkserver._forkserver_address)  # type: ignore[attr-defined] # not in typeshed
    listed = socket.with_name(WORKDIRS_FILE)
    for line in listed.read_text().splitlines():
        workdir = Path(json.loads(line))
        for folder in workdir.glob("slot-*"):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # it holds what is not ours
            workdir.rmdir()
    listed.unlink()
    socket.unlink()
    socket.parent.rmdir()


_set_up_if_forkserver()
