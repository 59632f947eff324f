"""A kind whose jobs are sent to a worker many at a time: most are quick, the others go wrong in a way of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler

KINDS = __name__
LIMIT = 3


class Do(BaseModel, extra="forbid"):
    """``do``: one of ``WAYS``. ``folder``: where every execution is noted, and looked for what a job waits for."""

    do: str
    folder: str


class Seen(BaseModel):
    """The worker, and how many jobs of the kind were running by the database's word."""

    pid: int
    running: int = 0


def _sleep_in_c(_: Context, _args: Do) -> None:
    ctypes.PyDLL(None).sleep(600)


def _segfault(_: Context, _args: Do) -> None:
    ctypes.string_at(0)


def _grow(_: Context, _args: Do) -> None:
    held = []
    while True:
        held.append(bytearray(b"x") * (16 << 20))


def _until(_: Context, args: Do) -> None:
    """Until the file ``end`` is there."""
    while not (Path(args.folder) / "end").exists():
        time.sleep(0.01)


def _fail(_: Context, _args: Do) -> None:
    raise Failure("unreadable_file")


def _write(ctx: Context, _args: Do) -> None:
    with ctx.transaction() as connection:
        connection.execute("insert into public.written values (%s)", [ctx.job_id])


WAYS: dict[str, Callable[[Context, Do], None]] = {
    "quick": lambda _ctx, _args: None,
    "hang in C": _sleep_in_c,
    "segmentation fault": _segfault,
    "exit 0": lambda _ctx, _args: os._exit(0),
    "kill": lambda _ctx, _args: os.kill(os.getpid(), signal.SIGKILL),
    "grow": _grow,
    "wait": _until,
    "fail": _fail,
    "write": _write,
    "close descriptors": lambda _ctx, _args: os.closerange(3, 1000),
}


@handler(
    "q_job",
    bundle=64,
    timeout=2,
    max_timeouts=1,
    max_crashes=1,
    base=0.01,
    cap=0.01,
    failure_codes={"unreadable_file"},
)
def job(ctx: Context, args: Do) -> Seen:
    with (Path(args.folder) / "executions").open("a") as file:
        file.write(f"{ctx.job_id}\n")
    WAYS[args.do](ctx, args)
    return Seen(pid=os.getpid())


@handler("q_patient", bundle=64, timeout=60)
def patient(ctx: Context, args: Do) -> Seen:
    return job(ctx, args)


@handler("q_other", bundle=5, timeout=60)
def other(ctx: Context, args: Do) -> Seen:
    return job(ctx, args)


@handler("q_limited", bundle=64, timeout=60, limit=LIMIT)
def limited(ctx: Context) -> Seen:
    (running,) = ctx.connection.execute(
        "select count(*) from batchproc.processing_jobs where kind = 'q_limited' and state = 'running'"
    ).fetchone() or (0,)
    return Seen(pid=os.getpid(), running=running)
