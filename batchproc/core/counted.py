"""Numbers of things as people write them."""

from __future__ import annotations


def counted(number: int, name: str) -> str:
    """``1 job``, ``2 jobs``, ``12,345 documents``; the plural of ``name`` ends with s."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def waiting(jobs: int, which: str = "") -> str:
    """``1 job waits``, ``2 jobs wait``, ``3 due jobs wait``."""
    return f"{counted(jobs, f'{which} job'.strip())} {'waits' if jobs == 1 else 'wait'}"
