"""Kinds for the faults of the database; imported by workers through the setting ``handlers``."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler


class Until(BaseModel, extra="forbid"):
    """The handler makes a file in ``folder`` named by its job, and ends when the file ``go`` is there."""

    folder: str


class Pages(BaseModel, extra="forbid"):
    """``folder``: as of ``Until``; at page ``stop_at`` it is waited for."""

    folder: str
    pages: int
    stop_at: int


class Worked(BaseModel):
    attempt: int


@handler("d_quick", timeout=60)
def quick(ctx: Context) -> Worked:
    """Does nothing, and says so in the database."""
    ctx.follow_up("d_follow_up", unique=f"after-{ctx.job_id}")
    return Worked(attempt=ctx.attempt)


@handler("d_follow_up", timeout=60)
def follow_up(_: Context) -> None:
    """What comes after ``d_quick``."""


@handler("d_brief", timeout=60)
def brief(_: Context) -> None:
    """Is busy for a moment, without the database."""
    time.sleep(0.05)


@handler("d_until", timeout=120, base=0.01, cap=0.01)
def until(ctx: Context, args: Until) -> Worked:
    """Is busy until it is told to end, without the database."""
    _wait_for_go(ctx, args.folder)
    return Worked(attempt=ctx.attempt)


@handler("d_write", timeout=60, base=0.01, cap=0.01, max_attempts=50)
def write(ctx: Context) -> None:
    """Writes one row in its fenced transaction."""
    with ctx.transaction() as connection:
        connection.execute("insert into written (job_id, page) values (%s, 1)", [ctx.job_id])


@handler("d_holds", timeout=120, base=0.01, cap=0.01)
def holds(ctx: Context, args: Until) -> None:
    """Is in the middle of its transaction until it is told to go on."""
    with ctx.transaction() as connection:
        connection.execute("insert into written (job_id, page) values (%s, 1)", [ctx.job_id])
        _wait_for_go(ctx, args.folder)
        connection.execute("select 1")


@handler("d_pages", timeout=120, base=0.01, cap=0.01)
def pages(ctx: Context, args: Pages) -> None:
    """Writes page after page, each with its checkpoint, from where it was left."""
    row = ctx.connection.execute("select count(*) from written where job_id = %s", [ctx.job_id]).fetchone()
    assert row is not None
    for page in range(row[0] + 1, args.pages + 1):
        if page == args.stop_at:
            _wait_for_go(ctx, args.folder)
        ctx.progress(page, args.pages)
        with ctx.transaction() as connection:
            connection.execute("insert into written (job_id, page) values (%s, %s)", [ctx.job_id, page])
            ctx.checkpoint(connection)


@handler("d_sleeps_in_database", timeout=1, max_timeouts=1)
def sleeps_in_database(ctx: Context) -> None:
    """Hangs in the database with its job row locked."""
    with ctx.transaction() as connection:
        connection.execute("select pg_sleep(600)")


@handler("d_hangs", timeout=1, max_timeouts=1)
def hangs(_: Context, args: Until) -> None:
    """Hangs without the database."""
    Path(args.folder, "hangs").write_text(f"{os.getpid()}")
    time.sleep(600)


@handler("d_slot", timeout=60, max_attempts=1)
def slot(ctx: Context) -> None:
    """Holds the resource ``ai`` for a moment."""
    with ctx.slot("ai"):
        pass


def _wait_for_go(ctx: Context, folder: str) -> None:
    with Path(folder, f"begun-{ctx.job_id}-{ctx.attempt}").open("a") as begun:
        begun.write(f"{os.getpid()}\n")  # a line each time: what is interrupted keeps its attempt's number
    while not Path(folder, "go").exists():
        ctx.progress(0, 1)
        time.sleep(0.01)
