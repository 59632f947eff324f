"""Kinds for the tests of parents that are killed or suspended: a job that tells of itself, and one with a family."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.errors import ClaimLost
from batchproc.handlers.registry import handler

TABLE = b"create table written (job_id bigint not null, claim_id uuid not null)"
_WRITE = b"insert into written values (%s, %s)"


class Folder(BaseModel, extra="forbid"):
    """``folder``: where the job tells how it goes. ``wait``: its first execution waits there for a file ``go_on``."""

    folder: str
    wait: bool = False

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def begin(self) -> bool:
        """Takes note of an execution, as ``pid``; whether it is the first."""
        with (self.path / "executions").open("a") as executions:
            executions.write(f"{os.getpid()}\n")
            return executions.tell() <= len(f"{os.getpid()}\n")

    def await_go(self) -> None:
        while not (self.path / "go_on").exists():
            time.sleep(0.005)


@handler("t_chosen", timeout=60)
def chosen(_: Context, args: Folder) -> None:
    """The job of the stop points."""
    if args.begin() and args.wait:
        args.await_go()


@handler("t_family", timeout=60)
def family(_: Context, args: Folder) -> None:
    """Has children that want to live on: a plain one, one in a session of its own, one that lost its parent."""
    if not args.begin():
        return
    own_session = subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
    plain = subprocess.Popen(["sleep", "600"])
    orphaned = subprocess.run(
        ["sh", "-c", "trap '' TERM HUP; setsid sleep 600 >/dev/null 2>&1 & echo $!"], capture_output=True, check=True
    )
    listed = args.path / "family.new"
    listed.write_text(f"{os.getpid()} {own_session.pid} {plain.pid} {int(orphaned.stdout)}")
    listed.rename(args.path / "family")
    args.await_go()


@handler("t_writer", timeout=60)
def writer(ctx: Context, args: Folder) -> None:
    """Writes in its fenced transaction, the first execution only when it is told to; says when it could not."""
    if args.begin() and args.wait:
        args.await_go()
    try:
        with ctx.transaction() as connection:
            connection.execute(_WRITE, [ctx.job_id, ctx.claim_id])
    except ClaimLost:
        (args.path / "lost").touch()
        raise
