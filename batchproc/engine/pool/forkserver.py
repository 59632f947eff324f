"""The one forkserver of this process: started with our hook, watched, and stopped with the last pool.

``multiprocessing`` keeps it, and the resource tracker that comes with it, in module globals; where it offers no way
to ask, those are read here and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing import connection, forkserver, process, resource_tracker
from pathlib import Path
from typing import Any

from loguru import logger

from batchproc.engine.pool import forkserver_hook, own_folder, processes
from batchproc.engine.pool.process_tree import MARKER_VARIABLE

STOP_SECONDS = 15.0
"""How long the forkserver may take to end by itself, and before that all that is below it."""

WAS_KILLED = "the forkserver, which starts the workers, was killed meanwhile: the system's log may say by whom"

SOCKET_FOLDER_PREFIX = "batchproc-fork-"
_MARKER_ROOM = 160
_DEATH_SECONDS = 0.5
_lock = threading.RLock()
_users = 0
_our_pid: int | None = None
_socket_folder: own_folder.OwnFolder | None = None
_tracker_is_ours = False


def marker(node_id: str, slot: int, generation: int) -> str:
    """The value of ``MARKER_VARIABLE`` in the processes of one worker. Raises ValueError when the id is too long."""
    text = f"{node_id}:{slot}:{generation}"
    if len(text.encode()) >= _MARKER_ROOM:
        raise ValueError(f"the node id {node_id!r} is too long")
    return text


def acquire() -> None:
    """One more pool uses the forkserver."""
    global _users, _tracker_is_ours
    with _lock:
        if _users == 0:
            _tracker_is_ours = _tracker_pid() is None
        _users += 1


def release() -> None:
    """The last pool to leave ends the forkserver, and the resource tracker if it came with it."""
    global _users
    with _lock:
        _users -= 1
        if _users > 0:
            return
        _stop_forkserver()
        if _tracker_is_ours:
            with contextlib.suppress(ChildProcessError):
                _tracker()._stop()


def ensure_running(node_id: str, preload: tuple[str, ...]) -> int:
    """The pid of the forkserver, which is started when there is none (any more).

    It gets this process's import path, and a marker in its environment that each worker overwrites with its own.
    Raises OSError.
    """
    global _our_pid
    with _lock:
        pid = running_pid()
        if pid is not None and pid == _our_pid:
            return pid
        if pid is not None:  # multiprocessing itself started one, between the death of ours and now
            logger.warning("the forkserver {} is not set up for workers and is replaced", pid)
            _stop_forkserver()
        _forget_dead_tracker()
        forkserver.set_forkserver_preload([forkserver_hook.__name__])
        with _environment(node_id, preload):
            _start_forkserver()
        _our_pid = running_pid()
        if _our_pid is None:
            raise OSError("the forkserver ended at once")
        logger.debug("forkserver {} started", _our_pid)
        return _our_pid


def tidy_if_killed(workdir: Path) -> None:
    """Lets a running forkserver remove the workers' folders in ``workdir`` when this process cannot any more."""
    with _lock, contextlib.suppress(OSError, ValueError):
        address = Path(getattr(forkserver._forkserver, "_forkserver_address", None) or "")
        listed = address.with_name(forkserver_hook.WORKDIRS_FILE)
        line = json.dumps(os.fspath(workdir.absolute())) + "\n"
        if address.is_socket() and not (listed.exists() and line in listed.read_text()):
            with listed.open("a") as file:
                file.write(line)


def _start_forkserver() -> None:
    """Its socket lies in a folder of its own: multiprocessing's would stay until this process ends."""
    global _socket_folder
    config = process.current_process()._config  # type: ignore[attr-defined] # multiprocessing's own
    before = config.get("tempdir")
    _remove_socket_folder()
    _socket_folder = own_folder.make(SOCKET_FOLDER_PREFIX)
    config["tempdir"] = os.fspath(_socket_folder.path)
    (_socket_folder.path / forkserver_hook.WORKDIRS_FILE).touch()
    try:
        with _unreached_by_signals():
            forkserver.ensure_running()
    except OSError as error:
        _remove_socket_folder()
        if "path too long" not in str(error):
            raise
        raise OSError(
            f"the path of the temp folder is too long for a socket ({error}): set TMPDIR to a shorter one"
        ) from None
    finally:
        config["tempdir"] = before


@contextlib.contextmanager
def _unreached_by_signals() -> Iterator[None]:
    """What is started meanwhile has them blocked; the hook, once the forkserver has left our group, forgets them.

    A signal to our group would kill it before. The resource tracker stays in the group, with SIGHUP and SIGQUIT
    blocked; it sees to the others itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, forkserver_hook.GROUP_SIGNALS)
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, forkserver_hook.GROUP_SIGNALS)  # it has unblocked some
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def running_pid() -> int | None:
    """The pid of the forkserver if it lives."""
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    return pid if pid is not None and _child_lives(pid) else None


def has_died(pid: int) -> bool:
    """Whether the forkserver ``pid`` was killed: it survives a fork that is refused.

    Waits a moment, for it closes its ends of the pipes before it is dead.
    """
    with contextlib.suppress(OSError):
        ended = os.pidfd_open(pid)
        try:
            connection.wait([ended], _DEATH_SECONDS)
        finally:
            os.close(ended)
    return running_pid() != pid


def kill(pid: int) -> None:
    """Kills a forkserver that does not answer; all workers die with it."""
    with _lock:
        if running_pid() == pid:
            logger.warning("the forkserver {} does not answer and is killed", pid)
            os.kill(pid, signal.SIGKILL)


def resume() -> None:
    """Lets a forkserver that somebody has stopped go on."""
    pid = running_pid()
    found = processes.read_stat(pid) if pid is not None else None
    if found is not None and found.state in "Tt":
        logger.warning("the forkserver {} was stopped and is continued", pid)
        processes.send(found.process, signal.SIGCONT)


def _stop_forkserver() -> None:
    server: Any = forkserver._forkserver
    pid = getattr(server, "_forkserver_pid", None)
    if pid is None:
        return
    if _socket_folder is not None:  # what is left is ours to remove
        (_socket_folder.path / forkserver_hook.WORKDIRS_FILE).unlink(missing_ok=True)
    killer = threading.Timer(STOP_SECONDS, os.kill, [pid, signal.SIGKILL])  # not reaped before _stop returns
    killer.start()
    try:
        server._stop()
    except ChildProcessError:  # somebody else has waited for it
        server._forkserver_pid = server._forkserver_alive_fd = server._forkserver_address = None
    finally:
        killer.cancel()
        killer.join()
        _remove_socket_folder()


def _remove_socket_folder() -> None:
    global _socket_folder
    if _socket_folder is not None:
        _socket_folder.remove()
        _socket_folder = None


@contextlib.contextmanager
def _environment(node_id: str, preload: tuple[str, ...]) -> Iterator[None]:
    """What the forkserver finds in its environment; the hook puts back there what is only for its own start."""
    changed = {
        # Exactly the node's modules: without these it would look into the current folder first.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONSAFEPATH": "1",
    }
    before = {name: os.environ.get(name) for name in changed}
    config = {"node_pid": os.getpid(), "environment": before, "preload": preload}
    changed[forkserver_hook.CONFIG_VARIABLE] = json.dumps(config)
    changed[MARKER_VARIABLE] = f"{node_id}:".ljust(_MARKER_ROOM, "-")
    restore = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in restore.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _tracker() -> Any:
    return resource_tracker._resource_tracker


def _tracker_pid() -> int | None:
    pid: int | None = getattr(_tracker(), "_pid", None)
    return pid


def _forget_dead_tracker() -> None:
    """So that a new one is started without a warning on standard error: we keep nothing that could leak."""
    pid = _tracker_pid()
    if pid is None or _child_lives(pid):
        return
    logger.warning("the resource tracker {} has died; another is started", pid)
    tracker = _tracker()
    with tracker._lock:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            os.close(tracker._fd)
        tracker._fd = tracker._pid = None


def _child_lives(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
