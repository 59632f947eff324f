"""Kinds for the tests of whole runs; imported by workers through the setting ``handlers``."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from pathlib import Path

from psycopg.rows import dict_row
from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, Snooze, StorageUnavailable
from batchproc.handlers.registry import handler


class Touch(BaseModel, extra="forbid"):
    """``path``: a file that tells the test that the handler has begun."""

    path: str | None = None


class Word(BaseModel, extra="forbid"):
    """``word`` comes back in the result."""

    word: str


class Until(BaseModel, extra="forbid"):
    """``file``: the handler ends when it is there."""

    file: str
    started: str | None = None


class Echoed(BaseModel):
    word: str
    attempt: int


class Big(BaseModel):
    text: str


@handler("t_quick")
def quick(_: Context) -> None:
    """Does nothing."""


@handler("t_short", bundle=64)
def short(_: Context) -> None:
    """Each is quick, and a bundle of them is not."""
    time.sleep(0.005)


@handler("t_brief")
def brief(_: Context) -> None:
    """Takes long enough that several run at the same time."""
    time.sleep(0.1)


@handler("t_echo")
def echo(ctx: Context, args: Word) -> Echoed:
    ctx.follow_up("t_quick", {}, unique=f"after-{args.word}")
    return Echoed(word=args.word, attempt=ctx.attempt)


@handler("t_environment")
def environment(ctx: Context, args: Word) -> Echoed:
    """The value of an environment variable, empty when there is none."""
    return Echoed(word=os.environ.get(args.word, ""), attempt=ctx.attempt)


@handler("t_hang_in_c", timeout=1, max_attempts=1)
def hang_in_c(_: Context, args: Touch) -> None:
    """Holds the GIL in native code, with a child process of its own."""
    child = subprocess.Popen(["sleep", "600"])
    if args.path is not None:
        Path(args.path).write_text(f"{os.getpid()} {child.pid}")
    ctypes.PyDLL(None).sleep(600)


@handler("t_fail_once", base=0.01, cap=0.01)
def fail_once(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise ValueError("the document says: top secret")


@handler("t_fail", base=0.01, cap=0.01, max_attempts=2)
def fail(_: Context) -> None:
    raise ValueError("always")


@handler("t_declared", failure_codes={"no_luck"})
def declared(_: Context) -> None:
    raise Failure("no_luck", detail="page 3 of 7")


@handler("t_gone", base=60, failure_codes={"not_yet"})
def gone(_: Context) -> None:
    raise Failure("not_yet", detail="its volume is on its way", retry=True)


@handler("t_undeclared", base=0.01, cap=0.01, max_attempts=1)
def undeclared(_: Context) -> None:
    raise Failure("never_heard_of", retry=True)


@handler("t_snooze")
def snooze(ctx: Context, args: Touch) -> None:
    assert args.path is not None
    marker = Path(args.path)
    if not marker.exists():
        marker.touch()
        raise Snooze(0.01)


@handler("t_storage_gone")
def storage_gone(_: Context) -> None:
    raise StorageUnavailable("the archive is not mounted")


@handler("t_crash", max_crashes=2, base=0.01, cap=0.01)
def crash(_: Context) -> None:
    os.abort()


@handler("t_too_much")
def too_much(_: Context) -> Big:
    return Big(text="x" * 70_000)


@handler("t_dirty")
def dirty(_: Context) -> Big:
    return Big(text="a\x00b")


@handler("t_until", timeout=60)
def until(ctx: Context, args: Until) -> None:
    """Runs until a file appears, or until the node asks it to stop."""
    if args.started is not None:
        with Path(args.started).open("a") as started:
            started.write(f"{os.getpid()}\n")
    while not Path(args.file).exists() and not ctx.stopping:
        time.sleep(0.01)


@handler("t_deaf", timeout=60)
def deaf(_: Context, args: Touch) -> None:
    """Does not care about a shutdown."""
    assert args.path is not None
    Path(args.path).write_text(str(os.getpid()))
    time.sleep(60)


@handler("t_stubborn", timeout=60)
def stubborn(ctx: Context, args: Until) -> None:
    """Takes note of a shutdown in ``file``, and goes on."""
    assert args.started is not None
    Path(args.started).write_text(str(os.getpid()))
    while not ctx.stopping:
        time.sleep(0.01)
    Path(args.file).touch()
    time.sleep(60)


@handler("t_write")
def write(ctx: Context, args: Word) -> None:
    """Writes in the fenced transaction, then publishes and checks its progress."""
    ctx.progress(1, 2)
    with ctx.transaction() as connection:
        connection.execute("create table if not exists written (word text)")
        connection.execute("insert into written values (%s)", [args.word])
        ctx.checkpoint(connection)
    ctx.publish(Echoed(word=args.word, attempt=ctx.attempt))


@handler("t_lingering_lock", timeout=1, max_timeouts=1)
def lingering_lock(ctx: Context) -> None:
    """Hangs in the database with its job row locked."""
    with ctx.transaction() as connection:
        connection.execute("select pg_sleep(600)")


@handler("t_slot", timeout=60, stall_timeout=0.5, max_timeouts=1)
def slot(ctx: Context, args: Until) -> None:
    """Holds the resource ``ai`` until a file appears; says in another one that it does."""
    assert args.started is not None
    with ctx.slot("ai"):
        with Path(args.started).open("a") as started:
            started.write(f"{os.getpid()}\n")
        while not Path(args.file).exists():
            ctx.progress(0, 1)
            time.sleep(0.01)


@handler("t_leaves_open")
def leaves_open(ctx: Context) -> None:
    """Begins a transaction and never ends it."""
    ctx.connection.execute("begin")


@handler("t_lazy")
def lazy(_: Context) -> None:
    raise Snooze(0)


@handler("t_careless")
def careless(ctx: Context) -> None:
    """Leaves its connection and its folder as no other job expects them."""
    ctx.connection.row_factory = dict_row  # type: ignore[assignment]  # what careless people do
    shutil.rmtree(ctx.workdir)


@handler("t_surrogate")
def surrogate(_: Context) -> Big:
    return Big(text="a\ud800b")


@handler("t_big_follow_up")
def big_follow_up(ctx: Context) -> None:
    ctx.follow_up("t_quick", {"text": "x" * 70_000})


@handler("t_forks")
def forks(_: Context) -> None:
    """Lets its child return, too."""
    os.fork()
