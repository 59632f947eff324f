"""Kinds that only the benches enqueue; not among the built-in handlers."""

from __future__ import annotations

import time

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler


@handler("bench_noop", timeout=60)
def noop(_: Context) -> None:
    """Does nothing: what is measured is the queue."""


class Started(BaseModel):
    """When a handler began, by the clock that all processes of a machine share."""

    monotonic: float


@handler("bench_started", timeout=60)
def started(_: Context) -> Started:
    """Tells when it began."""
    return Started(monotonic=time.monotonic())


class Nap(BaseModel, extra="forbid"):
    """How long a job takes, and whose it is."""

    milliseconds: int
    owner: int = 0


@handler("bench_sleep", timeout=60)
def sleep(_: Context, args: Nap) -> None:
    """Takes time, and no CPU."""
    time.sleep(args.milliseconds / 1000)


NAP_SECONDS = 0.1


@handler("bench_nap", timeout=60)
def nap(_: Context) -> None:
    """Waits a moment, which costs next to no processor time: what is measured is the node."""
    time.sleep(NAP_SECONDS)
