"""Process trees: all that comes from one worker is found, frozen and killed.

Nothing here waits for a process it did not name: ``waitpid(-1)`` would steal the statuses that others wait for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from batchproc.engine.pool.processes import (
    ProcessId,
    Stat,
    Visit,
    all_pids,
    descendants,
    environment,
    is_alive,
    nothing,
    read_stat,
    send,
    tree,
)

MARKER_VARIABLE = "BATCHPROC_SLOT"
"""Environment variable that every process of a worker carries; its value names node, slot and worker."""

Search = Callable[[Visit], list[Stat]]
"""Finds processes, and calls the function for each the moment it is found."""

_STOPPED, _UNINTERRUPTIBLE = frozenset("TtZXx"), "D"
_PAUSE = 0.001
# A process waiting for a disk stops only when the disk answers; the kill does not wait longer than this for it.
_DISK_PATIENCE = 0.25


@dataclass(frozen=True, slots=True)
class Origin:
    """What tells that a process comes from one worker, also after that worker has died.

    ``forkserver`` is the parent of the workers and adopts what they leave behind; it is never signalled itself.
    """

    root: ProcessId
    marker: str
    forkserver: int | None = None


def kill_tree(origin: Origin, known: Iterable[ProcessId] = (), limit: float = 10.0) -> list[ProcessId]:
    """Kills a worker and all that comes from it.

    Frozen first, so that nothing can fork away while the others die; the worker, which adopts its orphans, dies last.
    Then what is found by ``leftovers`` goes the same way.

    Args:
        origin: the worker.
        known: processes that belonged to it when they were last seen.
        limit: seconds after which it is given up; all that is found is killed at least once, however few they are.

    Returns:
        What is still alive: stuck in the kernel, or another user's.
    """
    give_up = time.monotonic() + limit
    known = frozenset(known)
    ours = frozenset({os.getsid(0), origin.forkserver or 0})  # the forkserver leads a session
    survivors: list[ProcessId] = []
    if _still(origin.root):
        _freeze(partial(tree, origin.root, dead=set()), give_up, ours)
        survivors += _kill_all(partial(descendants, origin.root.pid), give_up)
        survivors += _kill_all(lambda _: [top] if (top := _still(origin.root)) else [], give_up)
    _freeze(partial(leftovers, origin, known), give_up, ours)
    survivors += _kill_all(partial(leftovers, origin, known), give_up)
    return [process for process in dict.fromkeys(survivors) if is_alive(process)]


def kill_descendants(pid: int, limit: float = 10.0, spared: Iterable[ProcessId] = ()) -> None:
    """Kills everything below a process, but not itself, nor those that are spared with what is below them."""
    give_up = time.monotonic() + limit
    left_out = {process.pid for process in spared if is_alive(process)}
    _freeze(partial(descendants, pid, dead=set(left_out)), give_up, frozenset({os.getsid(pid), os.getsid(0)}))
    _kill_all(partial(descendants, pid, dead=left_out), give_up)


def leftovers(origin: Origin, known: frozenset[ProcessId], visit: Visit = nothing) -> list[Stat]:
    """What a dead worker left: by marker, session or group, by having been seen below it, or as an unmarked orphan.

    An orphan without any marker was started with an emptied environment. It can only come from a dead worker: a
    living one keeps its own orphans, and a starting one has the forkserver's marker.
    """
    found: dict[int, Stat] = {}
    for pid in all_pids():
        candidate = read_stat(pid)
        if candidate is None or not candidate.alive or candidate.process == origin.root or pid == origin.forkserver:
            continue
        if candidate.process in known or _comes_from(candidate, origin):
            visit(candidate)
            for member in (candidate, *descendants(pid, visit)):
                found[member.process.pid] = member
    found.pop(os.getpid(), None)
    return [member for member in found.values() if member.alive]


def reap(pid: int) -> int | None:
    """The exit code of a child of ours that has ended (negative: a signal), as far as it is one."""
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    return None


def _comes_from(candidate: Stat, origin: Origin) -> bool:
    if candidate.process.started < origin.root.started:
        return False
    if origin.root.pid in (candidate.session, candidate.group):
        return True
    entries = environment(candidate.process.pid)
    if entries is None:
        return False
    if f"{MARKER_VARIABLE}={origin.marker}".encode() in entries:
        return True
    unmarked = not any(entry.startswith(MARKER_VARIABLE.encode() + b"=") for entry in entries)
    return unmarked and origin.forkserver is not None and candidate.parent == origin.forkserver


def _freeze(search: Search, give_up: float, ours: frozenset[int]) -> None:
    """Stops what is found until two searches in a row find the same processes, all stopped.

    One is not enough: while it goes on, an orphan may move to a parent whose children were already read. ``ours`` are
    sessions whose groups hold others too.
    """
    before: set[ProcessId] = set()
    forbidden: set[ProcessId] = set()
    groups: set[int] = set()
    patience = time.monotonic() + _DISK_PATIENCE

    def stop(member: Stat) -> None:
        if member.group not in groups and member.session not in ours:
            # One call for a whole group, which no fork can slip through. A session that a worker's tree has made has
            # no groups but its own.
            groups.add(member.group)
            with contextlib.suppress(OSError):
                os.killpg(member.group, signal.SIGSTOP)
        elif member.alive and member.state not in "Tt" and not _signalled(member.process, signal.SIGSTOP):
            forbidden.add(member.process)

    # What cannot be frozen is killed while it runs, which takes time too.
    give_up -= (give_up - time.monotonic()) / 2
    while time.monotonic() < give_up:
        groups.clear()
        members = [member for member in search(stop) if member.alive and member.process not in forbidden]
        moving = [member for member in members if member.state not in _STOPPED]
        now = {member.process for member in members}
        if not moving and now == before:
            return
        if now == before and time.monotonic() > patience and all(m.state == _UNINTERRUPTIBLE for m in moving):
            return
        before = now
        if moving:
            time.sleep(_PAUSE)


def _kill_all(search: Search, give_up: float) -> list[ProcessId]:
    """Kills what is found, once or until nothing alive is; returns what is not known to be dead."""
    forbidden: set[ProcessId] = set()
    pause = _PAUSE
    while True:
        living = [m for m in search(nothing) if m.alive and m.process not in forbidden]
        forbidden |= {m.process for m in living if not _signalled(m.process, signal.SIGKILL)}
        if not living or time.monotonic() > give_up:
            return list(forbidden | {member.process for member in living})
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
        for member in living:
            if member.parent == os.getpid():
                reap(member.process.pid)


def _signalled(process: ProcessId, number: signal.Signals) -> bool:
    """False when it belongs to another user, whose processes are left alone."""
    try:
        send(process, number)
    except PermissionError:
        return False
    return True


def _still(process: ProcessId) -> Stat | None:
    found = read_stat(process.pid)
    return found if found is not None and found.process == process else None
