"""What the commands that run jobs have in common: their node, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from batchproc.cli.app import App
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.database import connect
from batchproc.engine.meters import Meters
from batchproc.engine.node import Node
from batchproc.engine.pool.processes import ProcessId, read_stat
from batchproc.engine.ready import Scope
from batchproc.engine.sd_notify import Notifier
from batchproc.queue.inspection import Due, Inspection
from batchproc.settings import Settings


def node_of(
    app: App,
    observe: Callable[[Claim, Outcome, float], None],
    *,
    notifier: Notifier | None = None,
    read_again: Callable[[], Settings] | None = None,
    notes: Path | None = None,
    meters: Meters | None = None,
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
    )


def waiting(app: App, scope: Scope) -> Due:
    """How many jobs of that scope are due, and how many run."""
    with connect(app.database_url) as connection:
        return Inspection(app.schema).count_due(
            connection, tenant_ids=scope.tenant_ids, kinds=scope.kinds, lanes=scope.lanes
        )


def database_server(app: App) -> list[ProcessId]:
    """The embedded server, which a node may have started again; it outlives every run."""
    pid = app.server.pid if app.is_embedded else None
    stat = read_stat(pid) if pid is not None else None
    return [stat.process] if stat is not None else []
