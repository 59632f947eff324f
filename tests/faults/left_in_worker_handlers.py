"""Jobs that leave something in their worker, each in a way of its own (``how``), and jobs that would meet it.

All are of one kind, because queues take turns: so they run in the order in which they were enqueued.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Listener
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader
from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler

_leaked: list[object] = []


class Found(BaseModel):
    """The worker, and what the job met in it."""

    pid: int
    seen: list[Any] = []


def _daemon(go_on: Callable[[], object]) -> None:
    """A thread that calls it for ever, whatever becomes of it."""

    def loop() -> None:
        while True:
            with contextlib.suppress(Exception):  # as careless as a heartbeat
                go_on()
            time.sleep(0.01)

    threading.Thread(target=loop, daemon=True).start()


def _use_later(ctx: Context) -> None:
    _daemon(lambda: ctx.connection.execute("select 1/0"))


def _exit_later(_: Context) -> None:
    threading.Timer(0.5, os._exit, [7]).start()


def _report_later(ctx: Context) -> None:
    _daemon(lambda: ctx.progress(77, 100))


THREADS: dict[str, Callable[[Context], None]] = {
    "uses the connection": _use_later,
    "ends the process": _exit_later,
    "reports progress": _report_later,
}


def thread(ctx: Context, how: str) -> Found:
    THREADS[how](ctx)
    return Found(pid=os.getpid())


def short_thread(_: Context, _how: str) -> Found:
    """Its threads end a moment after it."""
    ThreadPoolExecutor(2).submit(time.sleep, 0.05)
    threading.Thread(target=time.sleep, args=[0.05]).start()
    return Found(pid=os.getpid())


def stall(_: Context, _how: str) -> None:
    time.sleep(30)


def nap(_: Context, _how: str) -> Found:
    time.sleep(0.7)
    return Found(pid=os.getpid())


def rows(ctx: Context, _how: str) -> Found:
    """Writes ten rows, one in each transaction."""
    for _ in range(10):
        with ctx.transaction() as connection:
            connection.execute("insert into public.kept values (%s)", [ctx.job_id])
            time.sleep(0.02)
    return Found(pid=os.getpid())


def _caught(connection: psycopg.Connection[Any]) -> None:
    with contextlib.suppress(psycopg.Error):
        connection.execute("select 1/0")


def swallow(ctx: Context, how: str) -> None:
    """An error of SQL that is caught where nothing is left to save, or a transaction that is ended by hand."""
    with ctx.transaction() as connection:
        connection.execute("insert into public.kept values (%s)", [ctx.job_id])
        if how == "caught":
            _caught(connection)
        elif how == "caught in a savepoint":
            try:
                with connection.transaction():
                    connection.execute("select 1/0")
            except psycopg.Error:
                pass
        else:
            connection.execute("rollback")


def masks(ctx: Context, _how: str) -> None:
    with ctx.transaction() as connection, ctx.slot("ai"):
        _caught(connection)
        raise Failure("no_text")


def holds(ctx: Context, _how: str) -> None:
    with ctx.slot("ai"):
        pass


# What is left in the session.


def _attributes(ctx: Context) -> None:
    connection = ctx.connection
    connection.read_only = connection.deferrable = True
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    connection.cursor_factory = psycopg.RawCursor
    connection.prepare_threshold = 0


def _adapters(ctx: Context) -> None:
    set_json_loads(lambda _: [1], ctx.connection)
    for name in ("int8", "text"):
        ctx.connection.adapters.register_loader(name, TextLoader)


def _held_cursor(ctx: Context) -> None:
    with ctx.transaction() as connection:
        connection.execute("declare mine cursor with hold for select 'a secret'")


def _drop_prepared(ctx: Context) -> None:
    """Behind the back of psycopg, which would go on to use it."""
    ctx.connection.execute("select 1", prepare=True)
    (name,) = ctx.connection.execute("select min(name) from pg_prepared_statements").fetchone() or ("",)
    ctx.connection.execute(sql.SQL("deallocate {}").format(sql.Identifier(name)))


def _sequence(ctx: Context) -> None:
    ctx.connection.execute("select nextval('public.numbers')")


SESSION: dict[str, Callable[[Context], Any]] = {
    "nothing": lambda _: None,
    "attributes": _attributes,
    "adapters": _adapters,
    "a cursor": _held_cursor,
    "a prepared statement": lambda ctx: ctx.connection.execute("prepare mine as select 'a secret'"),
    "a statement of psycopg is dropped": _drop_prepared,
    "a sequence": _sequence,
    "a pipeline": lambda ctx: _leaked.append(ctx.connection.pipeline().__enter__()),
    "the connection itself": lambda ctx: _leaked.append(ctx.connection),
}


def session(ctx: Context, how: str) -> Found:
    SESSION[how](ctx)
    return Found(pid=os.getpid())


_PROBE = """
    select current_setting('transaction_isolation'), current_setting('transaction_read_only'), 7::int8,
        'text'::text, '{"a": 1}'::jsonb, (select count(*) from pg_cursors where name = 'mine'),
        (select count(*) from pg_prepared_statements where from_sql)
"""


def meets(ctx: Context, _how: str) -> Found:
    with ctx.transaction() as connection:
        seen = list(connection.execute(_PROBE + "where %s::int = 1", [1]).fetchone() or [])
    try:
        seen.append(ctx.connection.execute("select lastval()").fetchone())
    except psycopg.Error as error:
        seen.append(error.sqlstate)
    for kept in _leaked:
        if isinstance(kept, psycopg.Connection):
            seen.append(kept.closed)
    _leaked.clear()
    return Found(pid=os.getpid(), seen=seen)


def backend(ctx: Context, _how: str) -> Found:
    row = ctx.connection.execute("select pg_backend_pid()").fetchone()
    return Found(pid=os.getpid(), seen=list(row or []))


# What is left in the process.


def _forkserver() -> int | None:
    started = multiprocessing.get_context("forkserver").Process(target=os.getpid)
    started.start()
    started.join()
    return started.exitcode


def _executor() -> list[int]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as executor:
        return list(executor.map(abs, [-1, -2]))


def _manager() -> list[int]:
    with multiprocessing.get_context("spawn").Manager() as manager:
        return list(manager.list([1, 2]))


def _listener() -> bool:
    """Its socket is in the folder of multiprocessing, which is in the one of the worker."""
    with Listener(family="AF_UNIX") as listener:
        return bool(listener.address)


def _shared_memory() -> list[str]:
    """The warnings: that its helper was killed is none of the job's business."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        memory = SharedMemory(create=True, size=1000)
        memory.close()
        memory.unlink()
    return [str(warning.message) for warning in given]


MULTIPROCESSING: dict[str, tuple[Callable[[], Any], Any]] = {
    "forkserver": (_forkserver, 0),
    "executor": (_executor, [1, 2]),
    "manager": (_manager, [1, 2]),
    "listener": (_listener, True),
    "shared memory": (_shared_memory, []),
}
"""What to do with it, and what comes of it."""


def with_processes(_: Context, how: str) -> Found:
    return Found(pid=os.getpid(), seen=[MULTIPROCESSING[how][0]()])


def defaults(_: Context, _how: str) -> Found:
    """What new sockets and temporary files get; then it spoils them."""
    with tempfile.TemporaryDirectory() as folder:
        seen = [socket.getdefaulttimeout(), os.path.dirname(folder) == os.environ["TMPDIR"]]  # noqa: PTH120
    socket.setdefaulttimeout(0.001)
    tempfile.tempdir = "/nonexistent"
    return Found(pid=os.getpid(), seen=seen)


def memory(_: Context, how: str) -> Found:
    """Keeps, or only takes, so many MiB."""
    verb, amount = how.split()
    taken = bytearray(b"x") * (int(amount) << 20)
    if verb == "keep":
        _leaked.append(taken)
    return Found(pid=os.getpid())


class What(BaseModel, extra="forbid"):
    """Which of the functions above, and how."""

    do: str
    how: str = ""


JOBS: dict[str, Callable[[Context, str], Found | None]] = {
    function.__name__: function
    for function in (
        thread,
        short_thread,
        stall,
        nap,
        rows,
        swallow,
        masks,
        holds,
        session,
        meets,
        backend,
        with_processes,
        defaults,
        memory,
    )
}


@handler("l_job", timeout=30, failure_codes={"no_text"})
def job(ctx: Context, args: What) -> Found | None:
    return JOBS[args.do](ctx, args.how)


@handler("l_watched", timeout=20, stall_timeout=2, max_timeouts=1)
def watched(ctx: Context, args: What) -> Found | None:
    return JOBS[args.do](ctx, args.how)
