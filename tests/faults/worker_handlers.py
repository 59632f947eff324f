"""Kinds that hang, die or leave processes behind, each in a way of its own (``how``)."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler
from tests.waiting import wait_until

KINDS = __name__


class How(BaseModel, extra="forbid"):
    """``folder``: where the handler leaves notes for the test."""

    how: str
    folder: str | None = None

    def note(self, name: object, text: object = "") -> None:
        """Appends a line to the file of that name."""
        if self.folder is not None:
            with (Path(self.folder) / str(name)).open("a") as file:
                file.write(f"{text}\n")


def sleep_in_c(seconds: float = 600) -> None:
    """Holds the interpreter's lock: no Python code runs in this process any more."""
    ctypes.PyDLL(None).sleep(int(seconds))


# Hangs.


def _loop(_ctx: Context, _args: How) -> None:
    while True:
        pass


def _deaf(_ctx: Context, _args: How) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    sleep_in_c()


def _in_transaction(ctx: Context, args: How) -> None:
    with ctx.transaction() as connection:
        args.note("backends", connection.info.backend_pid)
        time.sleep(600)


def _in_query(ctx: Context, args: How) -> None:
    with ctx.transaction() as connection:
        args.note("backends", connection.info.backend_pid)
        connection.execute("select pg_sleep(600)")


HANGS: dict[str, Callable[[Context, How], Any]] = {
    "in Python": lambda _ctx, _args: time.sleep(600),
    "in C": lambda _ctx, _args: sleep_in_c(),
    "deaf": _deaf,
    "stopped": lambda _ctx, _args: os.kill(os.getpid(), signal.SIGSTOP),
    "loop": _loop,
    "subprocess": lambda _ctx, _args: subprocess.run(["sleep", "600"], check=False),
    "in a transaction": _in_transaction,
    "in a query": _in_query,
}
SLEEPING = [how for how in HANGS if how != "loop"]


@handler("w_hang", timeout=1, max_timeouts=1)
def hang(ctx: Context, args: How) -> None:
    args.note("pids", os.getpid())
    HANGS[args.how](ctx, args)


@handler("w_hang_long", timeout=60)
def hang_long(ctx: Context, args: How) -> None:
    HANGS[args.how](ctx, args)


# Trees.

_NOTE_AND_SLEEP = 'echo $$ >> "$1/tree"; exec sleep 600'
TREE = 6
"""So many processes ``grow_tree`` leaves below the worker."""


def _shell(args: How, script: str, **options: Any) -> None:
    subprocess.Popen(["sh", "-c", script, "sh", str(args.folder)], **options)


def _daemon(args: How, environment: dict[str, str]) -> None:
    """Forked twice, in a session of its own: it looks like nobody's."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["sh", "-c", _NOTE_AND_SLEEP, "sh", str(args.folder)], environment)
        os._exit(0)


def grow_tree(args: How) -> None:
    """A child, a grandchild, a session of its own, two daemons (one with an emptied environment), a deaf one."""
    assert args.folder is not None
    before = _grown(args)
    _shell(args, _NOTE_AND_SLEEP)
    _shell(args, f"sh -c '{_NOTE_AND_SLEEP}' sh \"$1\" & wait")
    _shell(args, _NOTE_AND_SLEEP, start_new_session=True)
    _shell(args, f"trap '' TERM HUP INT; {_NOTE_AND_SLEEP}")
    _daemon(args, dict(os.environ))
    _daemon(args, {})
    wait_until(lambda: _grown(args) >= before + TREE)


def _grown(args: How) -> int:
    noted = Path(str(args.folder)) / "tree"
    return len(noted.read_text().split()) if noted.exists() else 0


def _fork_and_live() -> None:
    """Children without end that stay."""
    while True:
        if os.fork() == 0:
            sleep_in_c()


def _fork_and_leave(apart: bool) -> None:
    """Each generation forks the next and is gone, perhaps in a session of its own."""
    end = time.monotonic() + 60
    for _ in range(4):
        if os.fork() == 0:
            while time.monotonic() < end:
                if os.fork() != 0:
                    os._exit(0)
                if apart:
                    os.setsid()
            os._exit(0)


def _fork_and_wait() -> None:
    """One child after the other, as a shell script does."""
    if os.fork() == 0:
        while True:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)


FORKING: dict[str, Callable[[], None]] = {
    "one after the other": _fork_and_wait,
    "generations": lambda: _fork_and_leave(apart=False),
    "generations apart": lambda: _fork_and_leave(apart=True),
}


@handler("w_tree", timeout=1, max_timeouts=1)
def tree_and_hang(ctx: Context, args: How) -> None:
    args.note("pids", os.getpid())
    if args.how in FORKING:
        FORKING[args.how]()
    else:
        grow_tree(args)
    sleep_in_c()


@handler("w_short_tree", timeout=0.3, max_timeouts=1)
def short_tree(ctx: Context, args: How) -> None:
    """Its tree may not be there in whole when its time is up."""
    with ctx.transaction():
        subprocess.Popen(["sleep", "600"])
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        sleep_in_c()


@handler("w_helper", timeout=60)
def helper(ctx: Context, args: How) -> None:
    """Runs with a tree of its own until the file ``end`` is there."""
    grow_tree(args)
    args.note("helper", os.getpid())
    end = Path(str(args.folder)) / "end"
    while not end.exists():
        time.sleep(0.01)


class Seen(BaseModel):
    """What a job finds: its worker, and what else runs or has run below that."""

    pid: int
    below: list[int]


@handler("w_leaves")
def leaves(_: Context, args: How) -> Seen:
    """Returns while its tree lives."""
    grow_tree(args)
    return Seen(pid=os.getpid(), below=[])


@handler("w_below")
def below(_: Context) -> Seen:
    """What is below its worker."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Seen(pid=os.getpid(), below=[int(pid) for pid in children])


# Deaths.


class Large(BaseModel):
    text: str


def _die_while_answering() -> Large:
    send = connection.Connection._send  # type: ignore[attr-defined] # its innermost write

    def half(self: Any, buf: Any, *rest: Any) -> None:
        if len(buf) > 10_000:
            send(self, bytes(buf)[: len(buf) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, buf)

    connection.Connection._send = half  # type: ignore[attr-defined]
    return Large(text="x" * 60_000)


DEATHS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit 0": (lambda: os._exit(0), "exit code 0"),
    "exit 3": (lambda: os._exit(3), "exit code 3"),
    "abort": (os.abort, "killed by signal 6 (SIGABRT)"),
    "segmentation fault": (lambda: ctypes.string_at(0), "killed by signal 11 (SIGSEGV)"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9 (SIGKILL)"),
    "while answering": (_die_while_answering, "killed by signal 9 (SIGKILL)"),
}
"""How to die, and what is recorded of it."""


@handler("w_die", max_crashes=1)
def die(_: Context, args: How) -> Any:
    return DEATHS[args.how][0]()


@handler("w_exit", max_attempts=1)
def exit_politely(_: Context, args: How) -> None:
    """An exception to Python, which costs no worker."""
    sys.exit(int(args.how))


@handler("w_until", timeout=60, base=0.01, cap=0.01)
def until(ctx: Context, args: How) -> None:
    """Runs until the file ``end`` is there."""
    args.note("pids", os.getpid())
    end = Path(str(args.folder)) / "end"
    while not end.exists():
        time.sleep(0.01)
