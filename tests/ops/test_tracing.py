"""A span of every attempt, below the span of whoever enqueued the job."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from batchproc.api import Queue
from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.engine.node import Node, RunOptions
from batchproc.engine.window import Window
from batchproc.ops import tracing
from batchproc.ops.metrics.exporting import connector
from batchproc.ops.tracing import AttemptSpans, provider_for, traced
from batchproc.queue.trace_context import current_traceparent
from tests.engine.running import Bench, bench_on, settings

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, StatusCode, use_span

HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


@contextmanager
def somebodys_span() -> Iterator[Span]:
    """The span of an application, which is traced by a provider of its own."""
    span = TracerProvider(shutdown_on_exit=False).get_tracer("app").start_span("upload")
    with use_span(span, end_on_exit=True):
        yield span


def spans_of_run(bench: Bench) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = AttemptSpans("batchproc", connector(bench.url), provider)
    meters.start()
    try:
        Node(settings(handlers=HANDLERS), bench.url, bench.url, lambda *_: None, meters=meters).run(
            RunOptions(workers=2)
        )
    finally:
        meters.close()
    return list(exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def test_each_attempt_is_a_span_below_that_of_the_enqueuer(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    with somebodys_span() as upload:
        echo = Queue(bench.url).enqueue("t_echo", tenant="acme", args={"word": "x"})
        bench.jobs.enqueue_many(bench.connection, [NewJob(tenant, "b_slow")])
    untraced = bench.enqueue(tenant, "t_fail_once")

    spans = spans_of_run(bench)

    recorded = {
        str(claim_id): seconds
        for claim_id, seconds in bench.rows("select claim_id, seconds from batchproc.job_attempts")
    }
    assert {attributes(span)["batchproc.claim_id"] for span in spans} == set(recorded)
    of_upload = [span for span in spans if span.parent is not None]
    above = upload.get_span_context()
    assert {(span.parent.trace_id, span.parent.span_id) for span in of_upload if span.parent} == {
        (above.trace_id, above.span_id)
    }
    # t_echo is followed by a t_quick; b_slow was killed twice.
    assert sorted(span.name for span in of_upload) == ["b_slow", "b_slow", "t_echo", "t_quick"]
    assert {attributes(span)["batchproc.job_id"] for span in spans if span.parent is None} == {untraced}
    for span in spans:
        assert span.start_time is not None
        assert span.end_time is not None
        seconds = recorded[attributes(span)["batchproc.claim_id"]]
        assert (span.end_time - span.start_time) / 1e9 == pytest.approx(seconds, abs=0.002)
        assert attributes(span)["batchproc.tenant"] == "acme"
    [first] = [span for span in spans if attributes(span)["batchproc.job_id"] == echo.job_id]
    assert (attributes(first)["batchproc.outcome"], first.status.status_code) == ("completed", StatusCode.UNSET)
    slow = [span for span in spans if span.name == "b_slow"]
    assert [(span.status.status_code, span.status.description) for span in slow] == [(StatusCode.ERROR, "timeout")] * 2
    assert [attributes(span)["error.type"] for span in slow] == ["timeout", "timeout"]


def test_what_a_job_has_to_carry_is_one_bounded_line() -> None:
    assert current_traceparent() is None
    with somebodys_span() as span:
        context = span.get_span_context()
        assert current_traceparent() == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_whoever_is_not_traced_loads_nothing_of_it() -> None:
    code = (
        "import sys, batchproc.cli.main as m\n"
        "assert dict(m.cli.commands)\n"  # all of them imported
        "from batchproc.queue.trace_context import current_traceparent\n"
        "assert current_traceparent() is None\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus_client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_an_exporter_that_is_not_installed_is_told(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"no exporter called jaeger is installed; there are: .*console"):
        provider_for("jaeger")


def test_an_exporter_that_hangs_holds_no_run_beyond_its_window(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()

    class Hangs(InMemorySpanExporter):
        def shutdown(self) -> None:
            go_on.wait(60)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Hangs()))
    monkeypatch.setattr(tracing, "provider_for", lambda _: provider)
    began = time.monotonic()
    window = Window(began + 1.0, time.monotonic, 1.0, "then")
    try:
        with traced("hangs", "batchproc", connector(bench.url), window):
            pass
        assert time.monotonic() < window.end
    finally:
        go_on.set()


def test_the_console_is_stderr(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    bench.enqueue(bench.tenant("acme"), "t_quick")
    with traced("console", "batchproc", connector(bench.url)) as meters:
        node = Node(settings(handlers=HANDLERS), bench.url, bench.url, lambda *_: None, meters=meters)
        node.run(RunOptions(workers=1))
    assert '"name": "t_quick"' in told.getvalue()
    assert '"service.name": "batchproc"' in told.getvalue()
