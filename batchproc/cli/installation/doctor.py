"""``doctor``: is everything here that a run needs?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import broken, emit_json, json_option
from batchproc.config import SettingsError, worker_count
from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line
from batchproc.embedded import default_home
from batchproc.ops.doctor import examine, not_examined
from batchproc.ops.doctor.findings import Check, Finding, Findings, Patient, Severity
from batchproc.packaged import packaged_conf

_FAILED = 3
_KEYS = ("check", "ok", "detail", "advice")
_MARK, _NAME = 8, 12
"""Cells of the columns before a finding."""
_FINE = 10
"""So many findings of one check that are as they should be are shown."""
_MARKS = {Severity.FAULT: ("FAILED", "red"), Severity.WARNING: ("warning", "yellow"), Severity.NOTE: ("ok", "green")}


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
    said: str | None = None
    for check in _examined(app):
        if not as_json:
            said = _print(check, said)
        checks.append(check)
    if as_json:
        emit_json({"checks": [{key: getattr(check, key) for key in _KEYS} for check in checks]})
    elif unmade := [check.check for check in checks if not check.findings]:
        for line in broken(f"not checked before that is mended: {', '.join(unmade)}", indent=0):
            click.echo(line)
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


def _print(check: Check, said: str | None) -> str | None:
    """Prints each finding of a check on lines of its own. Advice just given, ``said``, is not repeated.

    Returns:
        the advice given last.
    """
    name = check.check
    for finding in _shown(check.findings):
        mark, colour = _MARKS[finding.severity]
        first, *more = _fitted(f"{mark:<{_MARK}}{name:<{_NAME}}", finding.detail)
        if finding.advice is not None and finding.advice != said:
            more += _fitted(" " * (_MARK + _NAME), f"what to do: {finding.advice}")
            said = finding.advice
        click.echo(click.style(first[:_MARK], fg=colour) + first[_MARK:])
        for line in more:
            click.echo(line)
        name = ""
    return said


def _shown(findings: Sequence[Finding]) -> list[Finding]:
    """All that is wrong, and of what is not so much that it can be found."""
    wrong = [finding for finding in findings if finding.severity is not Severity.NOTE]
    fine = findings[len(wrong) :]
    if len(fine) <= _FINE:
        return [*wrong, *fine]
    return [*wrong, *fine[:_FINE], Finding(Severity.NOTE, f"and {len(fine) - _FINE} more that are as they should be")]


def _fitted(before: str, text: str) -> list[str]:
    """Behind ``before``; where a path or a command does not fit into its column, all lines but the first begin left."""
    line = before + one_line(text)
    lines = broken(line, indent=len(before))
    if all(part.startswith(" " * len(before)) for part in lines[1:]):
        return lines
    return [parts.rstrip() for parts in broken(line, indent=_MARK)]
