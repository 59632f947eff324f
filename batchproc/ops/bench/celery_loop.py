"""celery as the peer of ``bench queue``, with a Redis server of its own, in processes of its own.

Run as ``python -m batchproc.ops.bench.celery_loop ORDER``, one JSON object (``redis_server``, ``folder``, ``jobs``,
``processes``, ``late``, ``patience`` in seconds). It starts Redis on a socket in the folder, enqueues the jobs, starts
a worker, and writes ``{"seconds": ...}``: from the first task that was taken until none is queued or unacknowledged,
looked at every two milliseconds. Whoever started it ends its process group, and with it all that it started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import celery
import redis

_SOCKET: Final = "BATCHPROC_BENCH_SOCKET"
_LATE: Final = "BATCHPROC_BENCH_LATE"
_QUEUE: Final = "celery"  # celery's default
_UNACKNOWLEDGED: Final = "unacked"  # kombu's name for what was taken and not acknowledged
_LOOK: Final = 0.002
_ENDING: Final = 10.0


def application(socket: str, *, late: bool) -> Any:
    """The celery application, the same where tasks are enqueued and where they run."""
    made = celery.Celery("batchproc_bench", broker=f"redis+socket://{socket}")
    made.conf.update(task_ignore_result=True, task_acks_late=late, broker_connection_retry_on_startup=True)

    @made.task(name="bench_noop")  # type: ignore[untyped-decorator, unused-ignore]
    def noop() -> None:
        """Does nothing."""

    return made


# What ``celery --app`` finds in the worker.
app = application(os.environ[_SOCKET], late=os.environ.get(_LATE) == "1") if _SOCKET in os.environ else None


def main() -> None:
    """Serves one run."""
    order = json.loads(sys.argv[1])
    socket = str(Path(order["folder"]) / "redis.sock")
    memory_only = ("--port", "0", "--save", "", "--appendonly", "no", "--dir", order["folder"])
    server = subprocess.Popen(  # noqa: S603 - found on PATH, our own arguments
        [order["redis_server"], "--unixsocket", socket, *memory_only], stdout=subprocess.DEVNULL
    )
    broker = redis.Redis(unix_socket_path=socket)
    try:
        _wait_for_server(broker, server, order["patience"])
        task = application(socket, late=order["late"]).tasks["bench_noop"]
        for _ in range(order["jobs"]):
            task.apply_async()
        worker = _worker(socket, order)
        try:
            seconds = _seconds(broker, worker, order["jobs"], order["patience"])
        finally:
            _end(worker)
    finally:
        _end(server)
    print(json.dumps({"seconds": seconds}))  # noqa: T201 - the protocol


def _worker(socket: str, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "--app", "batchproc.ops.bench.celery_loop", "--quiet", "worker"]
    quiet = ["--loglevel", "error", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    pool = ["--pool", "prefork", "--concurrency", str(order["processes"])]
    environment = {**os.environ, _SOCKET: socket, _LATE: "1" if order["late"] else "0", "C_FORCE_ROOT": "1"}
    return subprocess.Popen([*command, *pool, *quiet], env=environment, stdout=subprocess.DEVNULL)  # noqa: S603


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asked to, so that celery ends its own children; by force when it does not."""
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for_server(broker: Any, server: subprocess.Popen[bytes], patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and server.poll() is None:
        try:
            broker.ping()
        except redis.exceptions.ConnectionError:
            time.sleep(_LOOK)
        else:
            return
    raise SystemExit("the Redis server did not start")


def _seconds(broker: Any, worker: subprocess.Popen[bytes], jobs: int, patience: float) -> float:
    """From the first task taken to the last acknowledged one."""
    deadline = time.monotonic() + patience
    while broker.llen(_QUEUE) >= jobs:
        if worker.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the celery worker did not begin")
        time.sleep(_LOOK)
    started = time.monotonic()
    while broker.llen(_QUEUE) or broker.hlen(_UNACKNOWLEDGED):
        if worker.poll() is not None:
            raise SystemExit("the celery worker ended early")
        time.sleep(_LOOK)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
