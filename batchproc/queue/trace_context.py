"""The span of whoever enqueues a job, carried along with it, as W3C Trace Context has it (version 00, traceparent)."""

from __future__ import annotations

import re
import sys

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def current_traceparent() -> str | None:
    """The current span of OpenTelemetry as a ``traceparent``; None without one, or where nothing has loaded it.

    No setting is needed: an application that is traced has loaded it, and others pay nothing.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    found = carrier.get("traceparent", "")
    return found if _TRACEPARENT.fullmatch(found) else None
