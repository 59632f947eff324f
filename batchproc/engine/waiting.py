"""Waiting for descriptors, of which a large pool has more than ``select`` can take."""

from __future__ import annotations

import select
from collections.abc import Iterable


def wait_readable(descriptors: Iterable[int], seconds: float) -> None:
    """Returns when one of them is readable, or after so many seconds."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(max(0.0, seconds) * 1000)
