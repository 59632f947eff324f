"""``report --list``: which runs there were."""

from __future__ import annotations

from typing import Any

from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import emit_rows
from batchproc.core.durations import duration
from batchproc.queue.run_history import RunHistory

_COLUMNS = ("run_id", "began", "took", "scope", "completed", "discarded", "left", "exit")
_COUNTS = ("claimed", "completed", "discarded", "partial", "left")


def list_runs(app: App, after: int, limit: int, as_json: bool) -> None:
    """Prints a page of runs, the newest first."""
    with app.connect() as connection:
        found = RunHistory(app.schema).runs(connection, before=after or None, limit=limit + 1)
    following = found[limit - 1]["run_id"] if len(found) > limit else None
    rows = [_row(run) for run in found[:limit]]
    emit_rows("runs", rows if as_json else [_readable(row) for row in rows], _COLUMNS, following, as_json)


def _row(run: dict[str, Any]) -> dict[str, Any]:
    counts = run["counts"] or {}
    names = ("run_id", "started_at", "finished_at", "goes_on", "seconds", "exit_code")
    scope = ("tenants", "kinds", "lanes", "single", "pilot")
    return {
        **{name: run[name] for name in names},
        **{name: run[name] for name in scope},
        **{name: counts.get(name) for name in _COUNTS},
    }


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    ended = "killed" if row["exit_code"] is None else row["exit_code"]
    return row | {
        "began": row["started_at"],
        "took": duration(row["seconds"]) if row["finished_at"] or row["goes_on"] else None,
        "scope": _scope(row),
        "exit": "goes on" if row["goes_on"] else ended,
    }


def _scope(row: dict[str, Any]) -> str:
    marks = [name for name, holds in (("one job", row["single"]), ("pilot", row["pilot"])) if holds]
    return ", ".join([*marks, *row["tenants"], *row["kinds"], *row["lanes"]]) or "all"
