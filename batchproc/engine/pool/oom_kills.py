"""How often the kernel has killed for want of memory where a process lives: in its cgroup, else on the machine.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (``memory.events``) and cgroup-v1/memory.rst
(``memory.oom_control``). Both count the processes of the group that any kill of the kernel's for memory has hit, also
one because the whole machine has none left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OF_MACHINE = Path("/proc/vmstat")
# Not those of groups below, where the kernel can tell them apart.
_OF_GROUP = {True: ("memory.oom_control",), False: ("memory.events.local", "memory.events")}


@dataclass(frozen=True, slots=True)
class Counter:
    """One file with a line ``oom_kill NUMBER``."""

    file: Path

    def read(self) -> int | None:
        """None when it cannot be read."""
        try:
            lines = self.file.read_bytes().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), None)


def counter_of(pid: int) -> Counter:
    """The one of the process's own cgroup; that of the machine, since boot, where there is none to be read."""
    candidates = [Counter(folder / name) for folder, is_v1 in _groups(pid) for name in _OF_GROUP[is_v1]]
    return next((counter for counter in candidates if counter.read() is not None), Counter(_OF_MACHINE))


def _groups(pid: int) -> list[tuple[Path, bool]]:
    """The folders of the cgroups that may account for its memory, and whether they are of version 1."""
    try:
        lines = os.fsdecode(Path(f"/proc/{pid}/cgroup").read_bytes()).splitlines()
    except OSError:  # it is gone
        return []
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            top = _CGROUPS / "memory" if number != "0" else _CGROUPS
            own = top / path.lstrip("/")
            # In a container the path may be the host's, of which only this group itself is to be seen, as the top.
            found.append((own if own.exists() else top, number != "0"))
    return found
