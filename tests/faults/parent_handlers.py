"""Kinds whose jobs are busy, with processes of their own below them, when something happens to the node."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler

MODULE = __name__
FAMILY = 4
"""How many process ids ``parent_busy`` writes down."""

# A child; in a session of its own, deaf to what can be ignored; the same, and nobody's child.
_FAMILY_SCRIPT = """
deaf='trap "" TERM HUP INT QUIT; echo $$ >> "$1"; exec /bin/sleep 600'
echo $$ >> "$1"
/usr/bin/setsid /bin/sh -c "$deaf" sh "$1" &
( /usr/bin/setsid /bin/sh -c "$deaf" sh "$1" & )
trap "" TERM
/bin/sleep 600
"""


class Busy(BaseModel, extra="forbid"):
    """``pids``: gets the ids of the worker and of what it starts, a line each. ``gate``: it ends when that is there.

    ``heard``: is made when the handler sees that it is to stop. ``lingers``: seconds that it goes on after that; None
    is for ever.
    """

    pids: str
    gate: str
    heard: str | None = None
    lingers: float | None = None


class Forking(BaseModel, extra="forbid"):
    """``token``: the argument of the programs it starts, a number of seconds, by which they are recognised."""

    started: str
    gate: str
    token: str


@handler("parent_busy", timeout=120)
def busy(ctx: Context, args: Busy) -> None:
    if Path(args.gate).exists():
        return
    with Path(args.pids).open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    # The environment by which they could be recognised is not theirs.
    subprocess.Popen(["/bin/sh", "-c", _FAMILY_SCRIPT, "sh", args.pids], env={})
    heard_at = None
    while not Path(args.gate).exists():
        if ctx.stopping and heard_at is None:
            heard_at = time.monotonic()
            if args.heard is not None:
                Path(args.heard).touch()
        if heard_at is not None and args.lingers is not None and time.monotonic() > heard_at + args.lingers:
            return
        time.sleep(0.01)


@handler("parent_forking", timeout=120)
def forking(_: Context, args: Forking) -> None:
    """Starts one program after the other that is nobody's child, in a session of its own, without an environment."""
    while not Path(args.gate).exists():
        starter = os.posix_spawn("/bin/sh", ["sh", "-c", f"/bin/sleep {args.token} &"], {}, setsid=True)
        os.waitpid(starter, 0)
        Path(args.started).touch()
