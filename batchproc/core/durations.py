"""Lengths of time as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``<1 ms``, ``26 ms``, ``0.4 s``, ``95 s``, ``2 min 30 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``."""
    if 0 < seconds < 0.1:
        milliseconds = round(seconds * 1000)
        return f"{milliseconds} ms" if milliseconds else "<1 ms"
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"
