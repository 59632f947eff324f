"""Single processes as /proc shows them: what they are, what is below them, how big they are; and signals to them.

A process is known by its pid and its start time, so that a pid that was used again is never signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DEAD = frozenset("ZXx")
_PF_EXITING = 0x4  # include/linux/sched.h of the kernel


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process for ever: its pid, and its start in clock ticks since boot."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says; ``resident`` and ``mapped`` (all of its address space) in bytes.

    One that is ``exiting``, or a zombie, has lost its memory and, in cgroups of version 1, its group.
    """

    process: ProcessId
    state: str
    parent: int
    group: int
    session: int
    threads: int
    resident: int
    mapped: int
    exiting: bool

    @property
    def alive(self) -> bool:
        """False for a zombie, unless only its first thread has ended."""
        return self.state not in _DEAD or self.threads > 1


def prctl(option: int, value: int) -> None:
    """The Linux call of that name, with one number as its argument. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0))) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")


def read_stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    # The command's name is in brackets and may itself hold brackets and spaces.
    fields = content[content.rindex(b")") + 2 :].split()
    return Stat(
        process=ProcessId(pid, int(fields[19])),
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        threads=int(fields[17]),
        resident=int(fields[21]) * _PAGE_BYTES,
        mapped=int(fields[20]),
        exiting=bool(int(fields[6]) & _PF_EXITING),
    )


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now."""
    found = read_stat(pid)
    return found.process if found else None


def is_alive(process: ProcessId) -> bool:
    """False also for a zombie."""
    found = read_stat(process.pid)
    return found is not None and found.process == process and found.alive


Visit = Callable[[Stat], None]


def nothing(_: Stat) -> None:
    """The visit that does nothing."""


def descendants(pid: int, visit: Visit = nothing, dead: set[int] | None = None) -> list[Stat]:
    """Every process below this one, parents before their children, zombies included.

    ``dead`` collects the zombies for the next search of the same tree, which leaves them out: a worker that adopts
    orphans without end may have thousands.
    """
    found: list[Stat] = []
    seen = {pid} | (dead or set())
    parents = [pid]
    while parents:
        parent = parents.pop()
        # The newest first: among thousands of zombies they are the ones that may be gone in a moment.
        for child in reversed(_children(parent)):
            child_stat = None if child in seen else read_stat(child)
            if child_stat is None:
                continue
            visit(child_stat)
            seen.add(child)
            found.append(child_stat)
            if child_stat.alive:
                parents.append(child)
            elif dead is not None:
                dead.add(child)
    return found


def tree(root: ProcessId, visit: Visit = nothing, dead: set[int] | None = None) -> list[Stat]:
    """The process and everything below it, as ``descendants``; empty when it is gone."""
    top = read_stat(root.pid)
    if top is None or top.process != root:
        return []
    visit(top)
    return [top, *descendants(root.pid, visit, dead)]


def resident_bytes(members: list[Stat], limit: int) -> int:
    """Memory of a tree in bytes.

    Resident sizes count a page shared by two processes twice. Only when their sum is above ``limit`` are the
    proportional sizes read instead (``Pss`` of smaps_rollup), which do not, but take much longer. One process that is
    above it alone is enough.
    """
    total = sum(member.resident for member in members)
    if total <= limit or len(members) == 1:
        return total
    largest = max(member.resident for member in members)
    if largest > limit:
        return largest
    return sum(_proportional(member) for member in members)


def environment(pid: int) -> list[bytes] | None:
    """``NAME=value`` entries that the process was started with; None when they cannot be read."""
    content = _read(f"/proc/{pid}/environ", 1 << 18)
    return None if content is None else content.split(b"\0")


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signals exactly this process; False when it is gone. Raises PermissionError when it belongs to another user."""
    if process.pid <= 1 or process.pid == os.getpid():
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:  # no pidfd here (an old kernel, a sandbox) or no descriptor left: almost as exact
        return identify(process.pid) == process and _kill(process.pid, number)
    try:
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    if not _KERNEL_LISTS_CHILDREN:
        return [other for other in all_pids() if (found := read_stat(other)) and found.parent == pid]
    children: list[int] = []
    with contextlib.suppress(OSError):
        # The kernel lists children under the thread that forked them.
        for thread in _names(f"/proc/{pid}/task"):
            children += map(int, (_read(f"/proc/{pid}/task/{thread}/children", 1 << 20) or b"").split())
    return children


def all_pids() -> list[int]:
    """Of every process there is."""
    return [int(name) for name in _names("/proc") if name.isdigit()]


def _names(folder: str) -> list[str]:
    return os.listdir(folder)  # noqa: PTH208 - paths would take most of the time of a search


def _proportional(member: Stat) -> int:
    for line in (_read(f"/proc/{member.process.pid}/smaps_rollup") or b"").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return member.resident


def _read(path: str, most: int = 4096) -> bytes | None:
    """None when it cannot be read, which for files of /proc mostly means that the process is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while most > 0 and (part := os.read(handle, most)):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(handle)


_KERNEL_LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()
