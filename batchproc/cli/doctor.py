"""``doctor``: is everything here that a run needs?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.output import broken, emit_json, json_option
from batchproc.config import SettingsError, worker_count
from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line
from batchproc.embedded import default_home
from batchproc.ops.doctor import examine, not_examined
from batchproc.ops.doctor.findings import Check, Findings, Patient
from batchproc.packaged import packaged_conf

_FAILED = 3
_NARROW = 10


@click.command()
@json_option
@pass_app
def doctor(app: App, as_json: bool) -> int:
    """Check what a run needs, and say what to do.

    The embedded database is started for it. Nothing else is changed. Exits with 3 when a check failed; warnings fail
    nothing.
    """
    if not app.verbose:
        app.override(logging__level="error")
    checks: list[Check] = []
    for check in _examined(app):
        if not as_json:
            _print(check, said=checks[-1].advice if checks else None)
        checks.append(check)
    if as_json:
        emit_json({"checks": [asdict(check) for check in checks]})
    return 0 if all(check.ok for check in checks) else _FAILED


def _examined(app: App) -> Iterator[Check]:
    try:
        settings = app.settings
        home = default_home(os.environ)
        known_url = app.server.url if app.is_embedded else app.database_url
    except BatchprocError as error:
        yield from not_examined(_unreadable(error))
        return
    patient = Patient(
        settings=settings,
        sources=_sources(click.get_current_context().find_root().params, os.environ),
        home=home,
        embedded_folder=app.server.place.base if app.is_embedded else None,
        database_url=lambda: app.database_url,
        known_url=known_url,
        workers=worker_count(settings),
    )
    yield from examine(patient)


def _unreadable(error: BatchprocError) -> Check:
    findings = Findings()
    problems = error.problems if isinstance(error, SettingsError) else (error.message,)
    for problem in problems:
        findings.fault(problem, error.hint or "correct that")
    return findings.conclude("settings")


def _sources(flags: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Where the settings come from, the later ones laid over those before; names only, no values."""
    found = [f"the defaults of {packaged_conf() / 'batchproc.yaml'}"]
    if flags.get("conf") is not None:
        found.append(f"{flags['conf']} (--conf)")
    elif environ.get("BATCHPROC_CONF"):
        found.append(f"{environ['BATCHPROC_CONF']} (BATCHPROC_CONF)")
    found += sorted(name for name in environ if name.startswith("BATCHPROC_") and "__" in name)
    found += ["BATCHPROC_DATABASE_URL"] * bool(environ.get("BATCHPROC_DATABASE_URL"))
    found += ["--database"] * bool(flags.get("database"))
    return ", then ".join(found)


def _print(check: Check, said: str | None) -> None:
    """Prints a check; advice that the one before it gave already, ``said``, is not repeated."""
    mark, colour = ("FAILED", "red") if not check.ok else ("warning", "yellow") if check.is_warning else ("ok", "green")
    indent = 8 + _NARROW + 2
    first, *more = broken(f"{mark:<8}{check.check:<{_NARROW}}  {one_line(check.detail)}", indent=indent)
    if check.advice is not None and check.advice != said:
        more += broken(" " * indent + f"what to do: {one_line(check.advice)}", indent=indent)
    click.echo(click.style(first[:8], fg=colour) + first[8:])
    for line in more:
        click.echo(line)
