"""What is mounted below storage roots now, by the kernel's table of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_PLACE = 4
"""The field of a line that says where it is mounted (proc_pid_mountinfo(5))."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounted_below(roots: Iterable[bytes]) -> set[bytes]:
    """The folders below ``roots`` that another file system is mounted on, by the paths that lead through their root.

    Of the root of all files nothing is told: what is mounted below that is the whole system.
    """
    places = _places()
    real = {root: os.path.realpath(root) for root in roots}
    return {
        root.rstrip(b"/") + place[len(resolved) :]
        for root, resolved in real.items()
        for place in places
        if resolved != b"/" and place.startswith(resolved + b"/") and _is_another_device(place)
    }


def _places() -> list[bytes]:
    try:
        lines = _TABLE.read_bytes().splitlines()
    except OSError:
        return []
    return [_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[_PLACE]) for line in lines if line]


def _is_another_device(place: bytes) -> bool:
    """False for a bind mount of the same disk, which nothing tells from a folder, and for what does not answer."""
    try:
        return os.stat(place).st_dev != os.stat(os.path.dirname(place)).st_dev  # noqa: PTH116, PTH120 - bytes
    except OSError:
        return False
