"""What the commands that run jobs have in common: their node, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from batchproc.cli.shared.app import App
from batchproc.core.job import Claim
from batchproc.core.limits import LONGEST_DELAY
from batchproc.core.outcome import Outcome
from batchproc.database import connect
from batchproc.engine.meters import Meters
from batchproc.engine.node import Node
from batchproc.engine.pool.processes import ProcessId, read_stat
from batchproc.engine.run_report import Begun, RunOptions
from batchproc.engine.sd_notify import Notifier
from batchproc.ops.run_ahead import MOST_SECONDS, RunAhead, RunLook
from batchproc.queue.inspection_run import RunInspection
from batchproc.settings import Settings


def unobserved(_claim: Claim, _outcome: Outcome, _seconds: float) -> None:
    """For a node whose attempts nobody looks at one by one."""


def node_of(
    app: App,
    observe: Callable[[Claim, Outcome, float], None] = unobserved,
    *,
    notifier: Notifier | None = None,
    read_again: Callable[[], Settings] | None = None,
    notes: Path | None = None,
    meters: Meters | None = None,
    begun: Callable[[Begun], None] = lambda _: None,
) -> Node:
    """A node of these settings, which keeps an embedded server running; the rest as ``Node`` takes it."""
    return Node(
        app.settings,
        app.database_url,
        app.direct_url,
        observe,
        log_to_stderr=app.log_to_stderr,
        revive=app.server.revive if app.is_embedded else lambda: None,
        notifier=notifier,
        read_again=read_again,
        notes=notes,
        meters=meters,
        begun=begun,
    )


def watched(app: App, options: RunOptions, begun: Begun) -> Callable[[], RunLook]:
    """What looks at what a run of these options has before it, on a connection of its own."""
    scope, settings = options.scope, app.settings
    inspection = RunInspection(app.schema, scope.tenant_ids, scope.kinds or begun.kinds, scope.lanes, begun.able)
    ahead = RunAhead(
        inspection,
        begun.run_id,
        lambda: longest_wait(options, settings),
        workers=options.workers,
        tells_time=options.max_jobs is None,
        language_kinds=begun.language_kinds,
        lease=settings.dispatch.lease,
    )

    def look() -> RunLook:
        with connect(app.database_url, settings={"statement_timeout": f"{MOST_SECONDS}s"}) as connection:
            return ahead.look(connection)

    return look


def longest_wait(options: RunOptions, settings: Settings) -> float:
    """Seconds from now within which a retry has to be due for such a run to wait for it, as `Draining` has it."""
    if options.forever:
        return LONGEST_DELAY
    wait = settings.dispatch.drain_wait
    if options.window is None:
        return wait
    return max(0.0, min(wait, options.window.claims_left(settings.pool.shutdown_grace)))


def database_server(app: App) -> list[ProcessId]:
    """The embedded server, which a node may have started again; it outlives every run."""
    pid = app.server.pid if app.is_embedded else None
    stat = read_stat(pid) if pid is not None else None
    return [stat.process] if stat is not None else []
