"""Lengths of time as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``26 ms``, ``0.4 s``, ``45 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``."""
    if 0 < seconds < 0.1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"
