"""A span of every attempt for OpenTelemetry, below the span of whoever enqueued its job. Needs the extra ``tracing``.

The spans are made by the node, from what it knows when an attempt is over: so that of a worker that was killed is there
too. Their attributes are ids, words of the settings and failure codes; nothing of a document.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import metadata
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import BatchprocError, UsageError
from batchproc.core.job import Claim
from batchproc.core.outcome import Failed, Outcome
from batchproc.database import SqlFolder
from batchproc.engine.meters import Meters
from batchproc.engine.pool.types import Ended
from batchproc.engine.window import Window, patience
from batchproc.ops.within import OutOfTime, within
from batchproc.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_EVERY_SECONDS = 1.0
_MOST_KEPT = 20_000
"""Attempts whose spans are not made yet; while the database is away the oldest of more are lost."""
_BATCH = 500
_LAST_SECONDS = 40.0
"""For making the last spans, and handing them over, for which OpenTelemetry's processor takes 30 s at most."""
_CONSOLE = "console"
_ENTRY_POINTS = "opentelemetry_traces_exporter"
"""The group of entry points under which packages of exporters announce themselves (OTEL_TRACES_EXPORTER)."""


class _Over(NamedTuple):
    claim: Claim
    end: Ended
    ended_ns: int


class AttemptSpans(Meters):
    """Makes the spans in a thread of its own, with a connection of its own, so that no attempt waits for them."""

    def __init__(self, schema: str, connect: Callable[[], Connection[TupleRow]], provider: TracerProvider) -> None:
        self._sql = SqlFolder("batchproc.ops", schema)
        self._connect = connect
        self._provider = provider
        self._tracer = provider.get_tracer("batchproc", __version__)
        self._over: deque[_Over] = deque(maxlen=_MOST_KEPT)
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="tracing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ended(self, claim: Claim, end: Ended) -> None:
        self._over.append(_Over(claim, end, time.time_ns()))

    def close(self, window: Window | None = None) -> None:
        """Makes what is left, and hands it to the exporter, as far as the window lasts."""
        self._stop.set()
        try:
            within(patience(window, _LAST_SECONDS), self._hand_over)
        except OutOfTime:
            logger.warning("spans were lost: the database, or their exporter, takes too long")

    def _hand_over(self) -> None:
        self._thread.join()
        self._provider.shutdown()

    def _keep(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self._make_spans()
        self._make_spans()

    def _make_spans(self) -> None:
        if not self._over:
            return
        try:
            with closing(self._connect()) as connection:
                while self._over:
                    batch = [self._over[place] for place in range(min(_BATCH, len(self._over)))]
                    self._make(batch, connection)
                    for _ in batch:
                        self._over.popleft()
        except (psycopg.Error, BatchprocError) as error:
            logger.debug("spans of {} attempts wait for the database ({})", len(self._over), type(error).__name__)
        except IndexError:  # so many came meanwhile that the oldest were dropped
            return

    def _make(self, batch: Sequence[_Over], connection: Connection[TupleRow]) -> None:
        job_ids = [over.claim.job_id for over in batch]
        rows = connection.execute(self._sql["attempt_traces"], [job_ids]).fetchall()
        known = {job_id: (traceparent, tenant) for job_id, traceparent, tenant in rows}
        for over in batch:
            traceparent, tenant = known.get(over.claim.job_id, (None, None))
            self._make_one(over, traceparent, tenant)

    def _make_one(self, over: _Over, traceparent: str | None, tenant: str | None) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {} if traceparent is None else {"traceparent": traceparent}
        span = self._tracer.start_span(
            over.claim.kind,
            context=TraceContextTextMapPropagator().extract(carrier, context={}),  # type: ignore[arg-type]
            kind=SpanKind.CONSUMER,
            attributes=_attributes(over, tenant),
            start_time=over.ended_ns - round(over.end.seconds * 1e9),
        )
        if isinstance(over.end.outcome, Failed):
            span.set_status(Status(StatusCode.ERROR, over.end.outcome.code))
        span.end(over.ended_ns)


def _attributes(over: _Over, tenant: str | None) -> Mapping[str, str | int]:
    claim, outcome = over.claim, over.end.outcome
    found: dict[str, str | int | None] = {
        "batchproc.job_id": claim.job_id,
        "batchproc.claim_id": str(claim.claim_id),
        "batchproc.kind": claim.kind,
        "batchproc.tenant": tenant,
        "batchproc.attempt": claim.attempt,
        "batchproc.outcome": _named(outcome),
        "process.pid": over.end.worker_pid,
        # OpenTelemetry's semantic conventions for errors: of low cardinality.
        "error.type": outcome.code if isinstance(outcome, Failed) else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _named(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()


@contextmanager
def traced(
    exporter: str, schema: str, connect: Callable[[], Connection[TupleRow]], window: Window | None = None
) -> Iterator[AttemptSpans]:
    """Meters that send a span of each attempt to the installed exporter of that name.

    Args:
        window: the run is gone at its end, whether or not the last spans were sent.

    Raises:
        UsageError: the extra, or the exporter, is not installed.
    """
    spans = AttemptSpans(schema, connect, provider_for(exporter))
    spans.start()
    try:
        yield spans
    finally:
        spans.close(window)


def provider_for(exporter: str) -> TracerProvider:
    """A provider whose spans go there, named ``batchproc`` unless OTEL_SERVICE_NAME says otherwise; raises as above."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise _not_installed() from None
    named: dict[str, Any] = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "batchproc"}
    provider = TracerProvider(
        resource=Resource.create({**named, "service.version": __version__}), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
    return provider


def require_exporter(name: str) -> None:
    """Raises UsageError when the extra, or an exporter of that name, is not installed; nothing is sent anywhere."""
    try:
        is_installed = find_spec("opentelemetry.sdk") is not None
    except ModuleNotFoundError:  # not even what it would be a part of
        is_installed = False
    if not is_installed:
        raise _not_installed()
    if name != _CONSOLE:
        _entry_point(name)


def _exporter(name: str) -> SpanExporter:
    if name == _CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is for what was asked for
    made: SpanExporter = _entry_point(name).load()()
    return made


def _not_installed() -> UsageError:
    return UsageError("tracing.exporter is set, but OpenTelemetry is not installed", "pip install 'batchproc[tracing]'")


def _entry_point(name: str) -> metadata.EntryPoint:
    found = metadata.entry_points(group=_ENTRY_POINTS)
    for entry in found:
        if entry.name == name:
            return entry
    known = ", ".join(sorted({entry.name for entry in found} | {_CONSOLE}))
    raise UsageError(
        f"tracing.exporter: no exporter called {name} is installed; there are: {known}",
        "install one, such as opentelemetry-exporter-otlp for otlp",
    )
