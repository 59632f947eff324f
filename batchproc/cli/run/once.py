"""What ``run --once`` shows of its job: the outcome, its time and memory; and one file that is only tried."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import broken, emit_json, fields, print_broken
from batchproc.core.durations import duration
from batchproc.core.job import Claim
from batchproc.core.outcome import Completed, Failed, Outcome
from batchproc.engine.attempt_notes import AttemptNotes, read_notes
from batchproc.engine.counts import Counts
from batchproc.engine.node import Node, RunOptions, RunReport
from batchproc.engine.ready import Scope
from batchproc.engine.workdir import node_folder
from batchproc.ops import debugging
from batchproc.ops.advice import tried_advice
from batchproc.ops.outcome_text import outcome_line
from batchproc.ops.peak_memory import PeakMemory
from batchproc.ops.stopped import ended_by_sigterm
from batchproc.ops.trying import Trial, Tried, trial
from batchproc.queue.inspection_run import RunInspection

_WORST_FIRST = (3, 1, 0)


class OnceWatch:
    """Prints what each attempt came to as it ends, or keeps it for ``--json``.

    Args:
        memory_limit_mb: what a worker may hold, for comparison; None where there is no worker.
        advice: what to do about a failure with that code, where nothing further will tell; None: nothing.
    """

    def __init__(
        self, memory_limit_mb: int | None, as_json: bool, advice: Callable[[str], str | None] = lambda _: None
    ) -> None:
        self._limit = memory_limit_mb
        self._advice = advice
        self._as_json = as_json
        self._stack = contextlib.ExitStack()
        self._seen = PeakMemory()
        self._folder: Path | None = None
        self._last: Claim | None = None
        self.attempts: list[dict[str, Any]] = []

    def __enter__(self) -> OnceWatch:
        self._folder = self._stack.enter_context(node_folder())
        self._stack.enter_context(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def notes(self) -> Path | None:
        """The folder for the notes of the workers."""
        return self._folder

    def observe(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """Is told of an attempt that has ended."""
        self._last = claim
        notes = read_notes(self._folder, claim.job_id) if self._folder is not None else None
        if self._as_json:
            self.attempts.append(_plain(claim, outcome, seconds, notes, self._seen.bytes))
            return
        for line in broken(outcome_line(claim, outcome, seconds), indent=2):
            click.echo(line)
        used = _used(notes, self._seen.bytes, self._limit)
        if used:
            click.echo(f"  {used}")
        if isinstance(outcome, Failed) and (told := self._advice(outcome.code)) is not None:
            for line in broken(f"  what to do: {told}", indent=4):
                click.echo(line)

    def tell_retry(self, counts: Counts) -> None:
        """Says of a failed attempt whose job was not given up on that this was not the last one."""
        if counts.retried and self._last is not None and not self._as_json:
            print_broken(f"  it will be tried again: batchproc why {self._last.job_id} tells when")


def tell_none_due(app: App, scope: Scope) -> None:
    """Says that nothing was found to be run, and what is due next."""
    inspection = RunInspection(app.schema, scope.tenant_ids, scope.kinds or tuple(app.registry.specs()), scope.lanes)
    with app.connect() as connection:
        later = inspection.next_due(connection)
    told = "no job is due"
    if later is not None:
        job = f"job {later.job_id} {later.kind} of {later.tenant}"
        told += f"; the next, {job}, is in {duration(later.seconds)}: batchproc run --once {later.job_id} runs it now"
    for line in broken(told, indent=0):
        click.echo(line)


def _used(notes: AttemptNotes | None, seen: int, limit_mb: int | None) -> str:
    limit = "" if limit_mb is None else f" of {limit_mb}"
    if notes is not None:
        took = duration(notes.processor_seconds)
        return f"{took} of processor time, at most {_mb(notes.peak_bytes)}{limit} MB of memory"
    return f"its worker did not live to tell; at most {_mb(seen)}{limit} MB of memory were seen" if seen else ""


def _mb(size: int) -> int:
    """In MiB, as ``pool.memory_limit_mb`` counts."""
    return round(size / (1 << 20))


def _plain(claim: Claim, outcome: Outcome, seconds: float, notes: AttemptNotes | None, seen: int) -> dict[str, Any]:
    failed = outcome if isinstance(outcome, Failed) else None
    return {
        "job_id": claim.job_id,
        "kind": claim.kind,
        "outcome": type(outcome).__name__.lower(),
        "error_class": failed and failed.error_class,
        "failure_code": failed and failed.code,
        "error_type": failed and failed.error_type,
        "detail": failed and failed.detail,
        "result": json.loads(outcome.result) if isinstance(outcome, Completed) and outcome.result else None,
        "seconds": round(seconds, 3),
        "processor_seconds": notes and notes.processor_seconds,
        "peak_bytes": notes.peak_bytes if notes else seen or None,
        "traceback": notes and notes.traceback,
    }


def try_file(app: App, file: Path, tenant: str | None, kinds: Sequence[str], in_process: bool, as_json: bool) -> int:
    """Does one file in a schema of its own, and shows what came of it; the worst exit code of its runs.

    Raises:
        UsageError: no such tenant or kind, or the file cannot be read.
    """
    with app.connect() as connection:
        owner = app.jobs.tenant(connection, tenant) if tenant is not None else None
    limit = None if in_process else app.settings.pool.memory_limit_mb
    with (
        # A node in a process of its own hears signals from its start.
        ended_by_sigterm("the trial") if in_process or not app.own_process else contextlib.nullcontext(),
        trial(app.settings, app.database_url, app.direct_url, file, owner, kinds) as tried,
        OnceWatch(limit, as_json, functools.partial(tried_advice, tenant=tenant)) as watch,
    ):
        codes = {report.exit_code for report in _runs(app, tried, watch, kinds, in_process)}
        result = tried.result()
    if as_json:
        emit_json({**_document(result), "pages": result.pages, "attempts": watch.attempts})
    else:
        _show(result)
    return next(code for code in _WORST_FIRST if code in codes)


def _runs(app: App, tried: Trial, watch: OnceWatch, kinds: Sequence[str], in_process: bool) -> list[RunReport]:
    """Runs all that is to be done with the file, until it is done or a signal ends it."""
    done: list[RunReport] = []
    for scope in tried.stages(kinds):
        if in_process:
            one = functools.partial(_in_process, tried, watch, scope)
            done += iter(one, None)
            continue
        node = Node(
            tried.settings,
            tried.database_url,
            app.direct_url,
            watch.observe,
            log_to_stderr=app.log_to_stderr,
            notes=watch.notes,
        )
        done.append(node.run(RunOptions(workers=1, scope=scope)))
        if done[-1].stopped:
            break
    return done


def _in_process(tried: Trial, watch: OnceWatch, scope: Scope) -> RunReport | None:
    """One job; None when no further one is due."""
    report = debugging.run_in_process(tried.settings, tried.database_url, None, scope, watch.observe, notes=watch.notes)
    return report if report.counts.claimed else None


def _document(result: Tried) -> dict[str, Any]:
    document = result.document
    return {
        "status": document.status,
        "failure_code": document.failure_code,
        "title": document.title,
        "title_source": document.title_source,
        "tags": list(document.tags),
        "fields": result.fields,
        "flags": list(document.flags),
        "page_count": document.page_count,
        "confidence": document.confidence,
    }


def _show(result: Tried) -> None:
    click.echo()
    fields([(name, value) for name, value in _document(result).items() if value not in (None, [], {})])
    if any(result.pages):
        click.echo()
        sys.stdout.buffer.write("\n\f\n".join(page.rstrip("\n") for page in result.pages).encode() + b"\n")
