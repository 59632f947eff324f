"""``why``: what keeps a job from running."""

from __future__ import annotations

import click

from batchproc.cli.shared.app import ID, App, pass_app
from batchproc.cli.shared.messages import wrapped
from batchproc.cli.shared.output import emit_json, json_option, print_broken, shown
from batchproc.core.durations import duration
from batchproc.core.shown_text import one_line
from batchproc.ops.why import Answer, why
from batchproc.queue.inspection_waiting import look_at_waiting

_WIDTH = 78


@click.command("why")
@click.argument("job_id", type=ID)
@json_option
@pass_app
def why_(app: App, job_id: int, as_json: bool) -> None:
    """Say why a job is not running, and what would change that. It also tells about when the job will run.

    \b
    batchproc why 4711
    """
    with app.connect() as connection:
        facts = look_at_waiting(connection, app.schema, job_id)
    spec = app.registry.specs().get(facts.job.kind)
    answer = why(
        facts,
        needs_languages=spec is not None and spec.needs_languages,
        max_node_losses=app.settings.retry.max_node_losses,
        known_here=spec is not None,
    )
    if as_json:
        emit_json(answer.plain())
    else:
        _print(answer)


def _print(answer: Answer) -> None:
    print_broken(f"job {answer.job_id}: {answer.kind} of {answer.tenant}, {answer.lane} lane, {answer.state}")
    for reason in answer.reasons:
        told = wrapped(f"- {one_line(reason.text)}", _WIDTH)
        if reason.remedy:
            told += wrapped(f"  > {one_line(reason.remedy)}", _WIDTH, indent=4)
        for line in told:
            click.echo(line)
    if answer.expected_at is not None and answer.expected_seconds is not None:
        print_broken(f"expected to begin in about {duration(answer.expected_seconds)} ({shown(answer.expected_at)})")
