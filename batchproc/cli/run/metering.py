"""What counts the work of a node, as the settings have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from batchproc.cli.shared.app import App
from batchproc.engine.meters import AllMeters, Meters
from batchproc.engine.run_report import RunOptions


@contextmanager
def metered(app: App, options: RunOptions) -> Iterator[Meters]:
    """Of one job alone nothing is counted: somebody looks for what is wrong with it.

    What is not set is not even imported.
    """
    meters: list[Meters] = []
    with ExitStack() as stack:
        chosen = app.settings
        if not options.single and (chosen.metrics.textfile is not None or chosen.metrics.port is not None):
            from batchproc.ops.metrics.exporting import exported

            figures = exported(
                chosen, app.database_url, for_ever=options.forever, scope=options.scope, window=options.window
            )
            meters.append(stack.enter_context(figures))
        if chosen.tracing.exporter is not None:
            from batchproc.ops.metrics.exporting import connector
            from batchproc.ops.tracing import traced

            spans = traced(chosen.tracing.exporter, app.schema, connector(app.database_url), options.window)
            meters.append(stack.enter_context(spans))
        yield AllMeters(meters)
