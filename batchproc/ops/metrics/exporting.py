"""What of a node's figures leaves it while it runs: over a port, into a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

from loguru import logger
from prometheus_client import CollectorRegistry, start_http_server
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc import settings
from batchproc.core.errors import EnvironmentFault
from batchproc.database import connect
from batchproc.engine.ready import Scope
from batchproc.engine.window import Window, patience
from batchproc.ops.metrics.node_metrics import NodeMetrics
from batchproc.ops.metrics.queue_metrics import EVERYTHING, QueueMetrics
from batchproc.ops.metrics.textfile import Textfile

APPLICATION = "batchproc metrics"
WRITE_SECONDS = 60.0
"""How often the file is written while a run goes on; node_exporter tells of files that grow old."""

_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 30
_JOIN_SECONDS = 5.0
_LAST_SECONDS = 60.0
"""For the last time that the file is written: the looks before that may take as long as a statement."""


def connector(database_url: str) -> Callable[[], Connection[TupleRow]]:
    """Opens connections for one look each, which neither wait nor read for long."""
    return lambda: connect(
        database_url,
        application_name=APPLICATION,
        connect_timeout=_CONNECT_SECONDS,
        settings={"statement_timeout": f"{_STATEMENT_SECONDS}s"},
    )


@contextmanager
def exported(
    chosen: settings.Settings,
    database_url: str,
    *,
    for_ever: bool,
    scope: Scope = EVERYTHING,
    window: Window | None = None,
) -> Iterator[NodeMetrics]:
    """The meters of a node; within, what they count leaves it as ``metrics.port`` and ``metrics.textfile`` say.

    The port is for a node that runs ``for_ever``: of others several may run at a time, and end before they are asked.
    A file that cannot be written is no reason to do no work: the log tells of it, and its figures grow old.

    Args:
        scope: what the node serves.
        window: the run is gone at its end, whether or not the file was written once more.

    Raises:
        EnvironmentFault: the port is taken.
    """
    node = NodeMetrics()
    queue = QueueMetrics(
        chosen.database.schema_name,
        connector(database_url),
        for_ever=for_ever,
        scope=scope,
        last_completed=lambda: node.last_completed,
    )
    with ExitStack() as stack:
        if chosen.metrics.textfile is not None:
            textfile = Textfile(chosen.metrics.textfile, node.registry, queue)
            stack.enter_context(_written_again_and_again(textfile, chosen.metrics.textfile.as_posix(), window))
        if chosen.metrics.port is not None and for_ever:
            stack.enter_context(_served(chosen.metrics, node, queue))
        stack.callback(_look_again, queue, window)
        stack.callback(node.over)
        yield node


@contextmanager
def _served(wanted: settings.Metrics, node: NodeMetrics, queue: QueueMetrics) -> Iterator[None]:
    assert wanted.port is not None
    # Of its own: the file is made of the node's, and of the queue beside it.
    served = CollectorRegistry()
    served.register(node.registry)
    served.register(queue)
    try:
        server, thread = start_http_server(wanted.port, wanted.address, served)
    except OSError as error:
        raise EnvironmentFault(
            f"metrics cannot be served on {wanted.address} port {wanted.port}: {error.strerror}",
            "give each node of this machine a metrics.port of its own, or none",
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_JOIN_SECONDS)


def _look_again(queue: QueueMetrics, window: Window | None) -> None:
    """What the file says in the end is all that it says until the next run; but counting many jobs takes its time."""
    if window is None or window.left > _STATEMENT_SECONDS:
        queue.look_again()


@contextmanager
def _written_again_and_again(textfile: Textfile, name: str, window: Window | None) -> Iterator[None]:
    stop = Event()

    def keep_writing() -> None:
        _write(textfile, name)
        while not stop.wait(WRITE_SECONDS):
            _write(textfile, name)
        _write(textfile, name)

    thread = Thread(target=keep_writing, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(patience(window, _LAST_SECONDS))
        if thread.is_alive():
            logger.warning("metrics.textfile {} was not written in the end: that takes too long", name)


def _write(textfile: Textfile, name: str) -> None:
    try:
        textfile.write()
    except OSError as error:  # the run goes on, and so does what it has counted
        logger.warning("metrics.textfile {} cannot be written: {}", name, error.strerror)
