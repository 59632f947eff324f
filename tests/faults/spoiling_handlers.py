"""Kinds that change the process of their worker, each in a way of its own (``how``), and one that looks at it."""

from __future__ import annotations

import gc
import locale
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loguru import logger
from psycopg.rows import dict_row
from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler
from tests.faults.worker_handlers import How


class State(BaseModel):
    """What a job finds its process to be."""

    descriptors: list[str]
    folder: str
    umask: int
    environment: dict[str, str]
    handled: list[str]
    blocked: list[int]
    alarm: float
    streams: list[str]
    sinks: int
    limits: list[list[int]]
    locale: str
    collecting: bool
    settings: list[Any]
    temp_tables: int


@handler("w_state")
def state(ctx: Context) -> State:
    """Describes its process, but for what is each worker's own."""
    own = ("TMPDIR", "BATCHPROC_SLOT", "RLIMIT_AS")
    umask = os.umask(0o077)
    os.umask(umask)
    names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name not in own]
    settings = ctx.connection.execute("select current_setting('statement_timeout'), current_setting('lock_timeout')")
    tables = ctx.connection.execute("select count(*) from pg_class where relpersistence = 't' and relname = 'leftover'")
    return State(
        descriptors=[Path(f"/proc/self/fd/{number}").readlink().name for number in range(3)],
        folder=os.fspath(Path.cwd()),
        umask=umask,
        environment={name: text for name, text in os.environ.items() if name not in own},
        handled=[str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1)],
        blocked=[int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        alarm=signal.getitimer(signal.ITIMER_REAL)[0],
        streams=[type(stream).__name__ for stream in (sys.stdin, sys.stdout, sys.stderr)],
        sinks=len(logger._core.handlers),  # type: ignore[attr-defined] # no other way to ask
        limits=[list(resource.getrlimit(getattr(resource, name))) for name in names],
        locale=locale.setlocale(locale.LC_ALL),
        collecting=gc.isenabled(),
        settings=list(settings.fetchone() or []),
        temp_tables=(tables.fetchone() or [0])[0],
    )


def _close_standard(_: Context) -> None:
    for number in range(3):
        os.close(number)


def _redirect(_: Context) -> None:
    descriptor = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(descriptor, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - left open on purpose


def _set_process(_: Context) -> None:
    os.chdir("/")
    os.umask(0)
    os.environ["HTTP_PROXY"] = "http://tenant-a:secret@proxy"
    os.environ.pop("PATH", None)
    locale.setlocale(locale.LC_ALL, "C")
    gc.disable()


def _set_signals(_: Context) -> None:
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    signal.alarm(1)


def _lower_soft_limit(_: Context) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))


def _lower_hard_limit(_: Context) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))


def _set_log(_: Context) -> None:
    logger.remove()
    logger.configure(extra={"tenant": "a"})


def _set_session(ctx: Context) -> None:
    ctx.connection.execute("set lock_timeout = 0")
    ctx.connection.execute("create temp table leftover (secret text)")
    ctx.connection.execute("set statement_timeout = '1ms'")
    ctx.connection.row_factory = dict_row  # type: ignore[assignment] # what careless people do


SPOILING: dict[str, Callable[[Context], None]] = {
    "closes standard descriptors": _close_standard,
    "redirects them": _redirect,
    "folder, umask, environment": _set_process,
    "signals": _set_signals,
    "soft limit": _lower_soft_limit,
    "hard limit": _lower_hard_limit,
    "log": _set_log,
    "session": _set_session,
}


@handler("w_spoil")
def spoil(ctx: Context, args: How) -> None:
    SPOILING[args.how](ctx)


@handler("w_close_all", max_crashes=1)
def close_all(_: Context) -> None:
    """Nothing can be sent any more."""
    os.closerange(0, 1000)


@handler("w_leaves_thread")
def leaves_thread(ctx: Context) -> None:
    """Leaves a thread that holds on to the job's connection."""
    session = ctx.connection

    def go_on() -> None:
        while True:
            session.execute("select 1")
            time.sleep(0.01)

    threading.Thread(target=go_on, daemon=True).start()
