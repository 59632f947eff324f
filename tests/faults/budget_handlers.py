"""Kinds that end their attempts in every way that has a budget, or that a brake watches."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler


class Place(BaseModel, extra="forbid"):
    """``file``: what the kind says it is."""

    file: str


class Pages(BaseModel, extra="forbid"):
    """``file`` holds how many of ``pages`` are done."""

    file: str
    pages: int


@handler("b_stalls", timeout=60, stall_timeout=0.4, max_timeouts=2, base=0.01, cap=0.01)
def stalls(ctx: Context) -> None:
    """Begins well, then says nothing more."""
    ctx.progress(1, 10)
    time.sleep(60)


@handler("b_lively", timeout=60, stall_timeout=0.4, max_timeouts=1)
def lively(ctx: Context) -> None:
    """Takes three times as long as it may be silent."""
    for page in range(12):
        time.sleep(0.1)
        ctx.progress(page, 12)


@handler("b_slow", timeout=0.4, max_timeouts=2, base=0.01, cap=0.01)
def slow(ctx: Context) -> None:
    """Shows progress until its time is up."""
    while True:
        ctx.progress(0, 0)
        time.sleep(0.01)


@handler("b_crashes", max_crashes=3, base=0.01, cap=0.01)
def crashes(_: Context) -> None:
    os.abort()


@handler("b_page_then_crash", max_crashes=3, max_attempts=3, base=0.01, cap=0.01)
def page_then_crash(ctx: Context, args: Pages) -> None:
    """Saves one page an attempt, and dies before the next."""
    page_and(ctx, args, checkpoint=True)


@handler("b_page_unsaved", max_crashes=3, max_attempts=5, base=0.01, cap=0.01)
def page_unsaved(ctx: Context, args: Pages) -> None:
    """The same without a checkpoint."""
    page_and(ctx, args, checkpoint=False)


def page_and(ctx: Context, args: Pages, *, checkpoint: bool) -> None:
    done = Path(args.file)
    pages = int(done.read_text()) if done.exists() else 0
    if pages < args.pages:
        done.write_text(str(pages + 1))
        if checkpoint:
            ctx.checkpoint()
        os.abort()


@handler("b_page_then_hang", timeout=0.4, max_timeouts=3, max_attempts=3, base=0.01, cap=0.01)
def page_then_hang(ctx: Context, args: Pages) -> None:
    """Saves one page an attempt, and hangs on the next."""
    done = Path(args.file)
    pages = int(done.read_text()) if done.exists() else 0
    if pages < args.pages:
        done.write_text(str(pages + 1))
        ctx.checkpoint()
        time.sleep(60)


@handler("b_dies")
def dies(_: Context) -> None:
    """A crash that is tried again after the usual time."""
    os.abort()


def forkserver() -> psutil.Process:
    """The worker's parent; when that is another already, it was adopted, perhaps by the tests' own process."""
    parent = psutil.Process(os.getppid())
    assert any("forkserver" in argument for argument in parent.cmdline()), parent
    return parent


@handler("b_kills_forkserver")
def kills_forkserver(_: Context) -> None:
    forkserver().kill()
    time.sleep(60)


@handler("b_kills_node")
def kills_node(_: Context) -> None:
    """The node is the forkserver's parent."""
    os.kill(forkserver().ppid(), signal.SIGKILL)
    time.sleep(60)


@handler("b_waits", timeout=60)
def waits(_: Context, args: Place) -> None:
    """Ends when the file is there."""
    while not Path(args.file).exists():
        time.sleep(0.01)


@handler("b_tree", timeout=60)
def tree(_: Context, args: Place) -> None:
    """Hangs with a helper, deaf to SIGTERM; both process ids are in the file."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(args.file).write_text(f"{os.getpid()} {helper.pid}")
    time.sleep(60)


@handler("b_in_query", timeout=60)
def in_query(ctx: Context, args: Place) -> None:
    """Hangs in the database with its row locked."""
    with ctx.transaction() as connection:
        Path(args.file).touch()
        connection.execute("select pg_sleep(600)")


@handler("b_short", timeout=60)
def short(_: Context) -> None:
    time.sleep(0.3)


@handler("b_raises", base=1, cap=1)
def raises(_: Context, args: Place) -> None:
    """As a broken release does, as long as the file is not there."""
    if not Path(args.file).exists():
        raise ValueError("a broken release")


@handler("b_raises_at_once", base=0.01, cap=0.01)
def raises_at_once(_: Context) -> None:
    raise ValueError("one bad job")


@handler("b_missing", failure_codes={"source_missing"})
def missing(_: Context, args: Place) -> None:
    """As an archive that is not mounted, as long as the file is not there."""
    if not Path(args.file).exists():
        raise Failure("source_missing", detail="the archive is not there")


@handler("b_bad_scan", failure_codes={"unreadable_file"})
def bad_scan(_: Context) -> None:
    raise Failure("unreadable_file")


@handler("b_storage_gone")
def storage_gone(_: Context) -> None:
    raise Failure("storage_unavailable", detail="the archive is not mounted", retry=True)
