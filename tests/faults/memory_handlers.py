"""Kinds that use up memory, or the space in their folder; imported by workers through the setting ``handlers``."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from batchproc.engine.pool import processes
from batchproc.handlers.context import Context
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.registry import handler
from batchproc.ocr.errors import FAILURE_CODES

CHUNK = 4 << 20
ROOM = 256 << 10
FILLER = "filler"

# What grows by itself, and what starts it in a session of its own and waits.
GROW = f"""
import os, sys
taken, held = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), []
while True:
    held.append(b"x" * {CHUNK})
    os.pwrite(taken, b"%16d" % (len(held) * {CHUNK}), 0)
"""
GROW_APART = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {GROW!r}, *sys.argv[1:]], start_new_session=True)
"""


class Taken(BaseModel, extra="forbid"):
    """``taken``: a file that is told how many bytes are held."""

    taken: str
    where: Literal["child", "grandchild"] = "child"


class Hold(BaseModel, extra="forbid"):
    """So many MiB are held."""

    mb: int


class Mapped(BaseModel, extra="forbid"):
    """``mb``: address space that is mapped and never touched; ``seconds``: how long for the node to see that."""

    mb: int
    seconds: float


class Scores(BaseModel):
    """``oom_score_adj`` of a worker, of a program it started, of one in a session of its own below that."""

    worker: int
    child: int
    grandchild: int


class Space(BaseModel, extra="forbid"):
    """``by``: who writes, and so whose error it is."""

    by: Literal["handler", "subprocess", "sqlite", "quota"]


class OcrWithin(BaseModel, extra="forbid"):
    """``room_kb``: what may be mapped beyond what is mapped when the job starts."""

    document_id: int
    room_kb: int


class Linked(BaseModel, extra="forbid"):
    """``path``: a folder that is not the handler's."""

    path: str


class Written(BaseModel):
    bytes: int


@handler("m_quick")
def quick(_: Context) -> None:
    """Does nothing."""


@handler("m_grow", timeout=60, max_crashes=1)
def grow(_: Context, args: Taken) -> None:
    """Takes all the memory there is, as fast as it can."""
    exec(GROW.replace("sys.argv[1]", repr(args.taken)), {})


@handler("m_grow_below", timeout=60, max_crashes=1)
def grow_below(_: Context, args: Taken) -> None:
    """The same in a program that it waits for, or in one below that in a session of its own."""
    code = GROW if args.where == "child" else GROW_APART
    subprocess.run([sys.executable, "-c", code, args.taken], check=True)


@handler("m_outlive", timeout=60, max_crashes=1)
def outlive(ctx: Context, args: Hold) -> None:
    """Holds what it may hold until all that grow have ended."""
    held = b"x" * (args.mb << 20)
    growing = "select from batchproc.processing_jobs where kind like 'm\\_grow%' and state <> 'discarded'"
    while ctx.connection.execute(growing).rowcount:
        time.sleep(0.02)
    assert len(held) == args.mb << 20


@handler("m_too_much_at_once", timeout=60, max_crashes=1)
def too_much_at_once(_: Context) -> None:
    """Asks for more than the backstop behind the node's watch allows, in one piece."""
    bytearray(1 << 40)


@handler("m_in_cplusplus", timeout=60, max_crashes=1)
def in_cplusplus(_: Context, args: Mapped) -> None:
    """Gets near its limit without touching anything, until the node knows, and then meets an uncaught bad_alloc."""
    spare = mmap.mmap(-1, args.mb << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    time.sleep(args.seconds)
    new = ctypes.CDLL("libstdc++.so.6")._Znwm
    new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
    new(1 << 40)
    spare.close()


@handler("m_aborts", timeout=60, max_crashes=1)
def aborts(_: Context) -> None:
    """For no want of memory."""
    os.abort()


@handler("m_killed", timeout=60, max_crashes=1)
def killed(_: Context) -> None:
    """By nobody that the node knows."""
    os.kill(os.getpid(), 9)


@handler("m_scores")
def scores(_: Context) -> Scores:
    cat = "cat /proc/self/oom_score_adj"
    child, grandchild = (
        int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        for command in (["sh", "-c", cat], ["sh", "-c", f"setsid -w {cat}"])
    )
    return Scores(worker=int(Path("/proc/self/oom_score_adj").read_text()), child=child, grandchild=grandchild)


@handler("m_ocr_within", timeout=120, max_crashes=1, max_attempts=1, failure_codes=FAILURE_CODES)
def ocr_within(ctx: Context, args: OcrWithin) -> OcrResult:
    """The real OCR, in so little memory."""
    stat = processes.read_stat(os.getpid())
    assert stat is not None
    limit = stat.mapped + (args.room_kb << 10), resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, limit)
    result = ocr(ctx, OcrArgs(document_id=args.document_id))
    assert isinstance(result, OcrResult)
    return result


@handler("m_fill", base=0.05, cap=0.2, max_attempts=200)
def fill(ctx: Context, args: Space) -> Written:
    """Writes 256 kB into its folder."""
    target = ctx.workdir / "written"
    assert not target.exists(), "what an earlier attempt left half written"
    match args.by:
        case "handler":
            target.write_bytes(bytes(ROOM))
        case "subprocess":
            with target.open("wb") as file:
                subprocess.run(["head", "-c", str(ROOM), "/dev/zero"], stdout=file, check=True)
        case "sqlite":
            with contextlib.closing(sqlite3.connect(target)) as database:
                database.execute("create table written as select zeroblob(?)", [ROOM])
                database.commit()
        case "quota":
            if ctx.attempt == 1:
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
            target.write_bytes(bytes(ROOM))
    return Written(bytes=target.stat().st_size)


@handler("m_link_in")
def link_in(ctx: Context, args: Linked) -> None:
    (ctx.workdir / "link").symlink_to(args.path)


@handler("m_link_over")
def link_over(ctx: Context, args: Linked) -> None:
    """Puts a link in the place of its folder."""
    shutil.rmtree(ctx.workdir)
    ctx.workdir.symlink_to(args.path)


@handler("m_fill_and_die", timeout=60, base=0.05, cap=0.1)
def fill_and_die(ctx: Context) -> None:
    """At its first attempt leaves no space on the disk, and its slot without a worker."""
    if ctx.attempt == 1:
        fill_up(ctx.workdir.parents[2])
        os._exit(3)


def fill_up(folder: Path) -> None:
    """Writes into the file ``filler`` there until nothing more fits on the disk."""
    with (folder / FILLER).open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
