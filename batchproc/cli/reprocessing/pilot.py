"""``reprocess --pilot``: some documents are read to look at the result, and what would be gained and lost is told."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.run.node import database_server, node_of, watched
from batchproc.cli.run.progress import ProgressLine
from batchproc.cli.shared.app import App
from batchproc.cli.shared.output import emit_json, print_broken, table
from batchproc.config import worker_count
from batchproc.core.counted import counted
from batchproc.core.errors import UsageError
from batchproc.core.job import JobState, Lane
from batchproc.core.kinds import OCR
from batchproc.core.versions import is_older
from batchproc.documents.readings import Reading
from batchproc.engine import guardian, signals
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.ops import campaign_result
from batchproc.ops.campaign_result import CampaignResult
from batchproc.ops.estimates import Estimate, Work, estimated
from batchproc.ops.reprocessing import BEGUN, Reprocessed
from batchproc.queue.campaign_listing import CampaignListing, FailedJobs
from batchproc.queue.inspection import Inspection
from batchproc.version import __version__

_FAULT = 3
_LOOK_SECONDS = 0.5
_NAMED = 5  # of either sort, so that it stays one screen; --json has more


@dataclass(frozen=True, slots=True)
class Pilot:
    """What was enqueued as a pilot.

    ``fits``: how many documents it stands for, and ``works`` what it would be to read all of them; ``scope``: where its
    jobs wait.
    """

    done: Reprocessed
    fits: int
    scope: Scope
    works: Sequence[Work] = ()


def pilot_scope(tenant_id: int | None, lane: Lane) -> Scope:
    """Where the jobs of a pilot wait, together with other ``ocr`` jobs of that lane."""
    return Scope(frozenset() if tenant_id is None else frozenset([tenant_id]), frozenset([OCR]), frozenset([lane]))


def require_readers(app: App, connection: Connection[TupleRow]) -> None:
    """Raises UsageError while a node of an older release lives: it would discard the jobs."""
    for node in Inspection(app.schema).nodes(connection):
        if node["alive"] and is_older(node["code_version"], __version__):
            raise UsageError(
                f"a node on {node['host']}, process {node['pid']}, is of release {node['code_version']}, which knows no"
                " pilots",
                "let it end, or end it, and give the command again",
            )


def run_pilot(app: App, pilot: Pilot, as_json: bool) -> int:
    """Reads what was enqueued, here and wherever else a node runs, and prints what came of it.

    No connection is open, for this process may be forked. The exit code is 3 where the environment failed, else 0.
    """
    if not app.own_process:
        return _run(app, pilot, as_json)
    return guardian.guarded(lambda: _run(app, pilot, as_json), lambda: database_server(app))


def _run(app: App, pilot: Pilot, as_json: bool) -> int:
    options = RunOptions(workers=worker_count(app.settings), scope=pilot.scope, pilot=True)
    with ProgressLine(functools.partial(watched, app, options), signals.heard, quiet=app.quiet) as line:
        report = node_of(app, begun=line.begin).run(options)
    with app.connect() as connection:
        if not report.stopped:
            _await_others(app, connection, pilot)
        _show(app, connection, pilot, as_json)
    # That documents cannot be read is what a pilot is to find out.
    return _FAULT if report.exit_code == _FAULT else 0


def _await_others(app: App, connection: Connection[TupleRow], pilot: Pilot) -> None:
    """Until other nodes have ended those of its jobs that they run, and a signal ends the wait."""
    listing, campaign_id = CampaignListing(app.schema), pilot.done.campaign_id
    while campaign_id is not None and listing.one(connection, campaign_id).jobs[JobState.RUNNING]:
        if signals.heard():
            break
        time.sleep(_LOOK_SECONDS)


def _show(app: App, connection: Connection[TupleRow], pilot: Pilot, as_json: bool) -> None:
    campaign_id = pilot.done.campaign_id
    if campaign_id is None:
        result, failures, left = CampaignResult(), [], 0
    else:
        listing = CampaignListing(app.schema)
        result = campaign_result.of_campaign(connection, app.schema, campaign_id)
        failures = listing.failures(connection, campaign_id)
        left = listing.one(connection, campaign_id).documents_left
    # By now the past has the pilot, too.
    whole = estimated(connection, app.schema, pilot.works, workers=worker_count(app.settings))
    if as_json:
        emit_json(_plain(pilot, result, failures, left, whole))
        return
    for line in told(pilot, result, failures, left, whole):
        print_broken(line)
    _name_documents(result)


def _plain(
    pilot: Pilot, result: CampaignResult, failures: Sequence[FailedJobs], left: int, whole: Estimate
) -> dict[str, Any]:
    return {
        "campaign_id": pilot.done.campaign_id,
        "fits": pilot.fits,
        "enqueued": pilot.done.enqueued,
        "already_queued": pilot.done.already_queued,
        "left_alone": dict(sorted(pilot.done.left_alone.items())),
        "left": left,
        "failures": _by_code(failures),
        "result": campaign_result.plain(result),
        "estimate": asdict(whole) | _scaled(pilot.fits, result),
    }


def told(pilot: Pilot, result: CampaignResult, failures: Sequence[FailedJobs], left: int, whole: Estimate) -> list[str]:
    """What came of it, in lines of at most 80 columns.

    Args:
        left: documents of it that still wait.
        whole: of reading all that fit.
    """
    done = pilot.done
    if done.campaign_id is None:
        queued = f"; {done.already_queued:,} wait as another pilot's" if done.already_queued else ""
        return [f"no documents to read as a pilot{queued}", *_left_out(done)]
    fit = "fits" if pilot.fits == 1 else "fit"
    pilots = f"a pilot of {counted(done.enqueued, 'document')}, of {pilot.fits:,} that {fit}"
    text = [f"campaign {done.campaign_id}: {pilots}"]
    text += campaign_result.lines(result)
    if failures:
        codes = ", ".join(f"{code} {jobs:,}" for code, jobs in _by_code(failures).items())
        text.append(f"not read      {codes}")
    text += _left_out(done)
    if left:
        text.append(f"still to read {left:,}: batchproc run, then batchproc campaigns show {done.campaign_id}")
    if pilot.fits > done.enqueued:
        first, *more = [*_words_of_all(pilot.fits, result), *whole.lines()]
        text += [f"all that fit  {first}", *(f"{'':14}{line}" for line in more)]
    return text


def _words_of_all(fits: int, result: CampaignResult) -> list[str]:
    scaled = {name: _about(count) for name, count in _scaled(fits, result).items()}
    return [f"about {scaled['words_gained']} words gained, {scaled['words_lost']} lost"] if scaled else []


def _left_out(done: Reprocessed) -> list[str]:
    begun = done.left_alone[BEGUN]
    return [f"left out      {begun:,} that a job has begun to read, and not ended"] if begun else []


def _scaled(fits: int, result: CampaignResult) -> dict[str, int]:
    """The words of all that fit if they are as those of the pilot; nothing without any of these."""
    if not result.documents:
        return {}
    share = fits / result.documents
    gained = result.words_gained + result.first_words
    return {
        "words_gained": round(gained * share),
        "words_lost": round(result.words_lost * share),
    }


def _about(count: int) -> str:
    """To two digits: a sample tells no more."""
    return f"{int(float(f'{count:.2g}')):,}"


def _by_code(failures: Sequence[FailedJobs]) -> dict[str, int]:
    codes: dict[str, int] = {}
    for failed in failures:
        codes[failed.failure_code] = codes.get(failed.failure_code, 0) + failed.jobs
    return codes


def _name_documents(result: CampaignResult) -> None:
    for name, readings in (("lost", result.most_lost), ("gained", result.most_gained)):
        if readings:
            click.echo(f"\nmost words {name}:")
            table(
                ("document_id", "tenant", "lost", "gained", "before", "after", "revisions"),
                [_row(reading) for reading in readings[:_NAMED]],
            )
    worst = next(iter(result.most_lost or result.most_gained), None)
    if worst is not None:
        click.echo()
        print_broken(
            f"look at one: batchproc documents diff {worst.document_id} {worst.before_revision} {worst.revision_id}"
        )


def _row(reading: Reading) -> list[Any]:
    return [
        reading.document_id,
        reading.tenant,
        reading.words_lost,
        reading.words_gained,
        _rounded(reading.before_confidence),
        _rounded(reading.confidence),
        f"{reading.before_revision} {reading.revision_id}",
    ]


def _rounded(confidence: float | None) -> float | None:
    return None if confidence is None else round(confidence, campaign_result.DIGITS)
