"""``campaigns revert``: the documents of a campaign get the text back that they had before."""

from __future__ import annotations

import click

from batchproc.cli.shared.app import ID, App, pass_app
from batchproc.cli.shared.asking import MANY, require_yes
from batchproc.cli.shared.exit_codes import left_over
from batchproc.cli.shared.login import login_name
from batchproc.cli.shared.output import emit_json, json_option, print_broken
from batchproc.cli.shared.terminal import StatusLine
from batchproc.core.counted import counted
from batchproc.core.kinds import CLASSIFY
from batchproc.ops.reverting import Reverted, Reverting

_BUSY = "held by somebody all the while: give the command again"
# Of one document, and of several.
_STAYS = {
    "person": ("keeps a text that a person chose", "keep a text that a person chose"),
    "first": ("keeps its text: it had none before", "keep their text: they had none before"),
    "gone": ("keeps its text: the revision before was pruned", "keep their text: the revision before was pruned"),
    "busy": (f"was {_BUSY}", f"were {_BUSY}"),
}


@click.command("revert")
@click.argument("campaign_id", type=ID)
@click.option("--dry-run", is_flag=True, help="Only say what would be reverted.")
@click.option("--yes", is_flag=True, help=f"Do not ask, also where more than {MANY} documents change.")
@json_option
@pass_app
def revert_campaign(app: App, campaign_id: int, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Give a campaign's documents back the revision before it.

    \b
    batchproc campaigns revert 7 --dry-run
    batchproc campaigns revert 7 --yes

    Only where the campaign's text is the current one still: what was read again, restored or typed since stays. So does
    text that a person chose, and the first text of a document. Jobs `classify` follow, so that titles and tags do. The
    campaign's readings are kept, and one can be had again with documents restore.
    """
    app.log_to_stderr = app.verbose  # it would tell what is printed
    work = Reverting(app.jobs, campaign_id, login_name(), app.registry[CLASSIFY].spec)
    status = StatusLine()
    with app.connect() as connection:
        planned = work.count(connection)
        if not dry_run:
            require_yes(planned.reverted, "documents", "reverted", yes=yes)
            documents = counted(planned.reverted, "document")
            done = work.run(
                connection,
                told=lambda now: status.show(f"{now.reverted} of {documents} reverted"),
            )
    status.clear()
    _print(planned if dry_run else done, campaign_id, dry_run=dry_run, as_json=as_json)
    return 0 if dry_run else left_over(done.stays["busy"])


def _print(done: Reverted, campaign_id: int, *, dry_run: bool, as_json: bool) -> None:
    stays = {reason: documents for reason, documents in sorted(done.stays.items()) if documents}
    if as_json:
        emit_json(
            {
                "campaign_id": campaign_id,
                "reverted": done.reverted,
                "stays": stays,
                "classify_campaign_id": done.campaign_id,
                "classify_jobs": done.classify_jobs,
                "dry_run": dry_run,
            }
        )
        return
    would, it = "would get" if dry_run else "got", "it" if done.reverted == 1 else "they"
    print_broken(
        f"campaign {campaign_id}: {counted(done.reverted, 'document')} {would} the text back that {it} had before"
    )
    for reason, documents in stays.items():
        one, several = _STAYS[reason]
        print_broken(f"{documents} {one if documents == 1 else several}")
    if done.campaign_id is not None:
        follow = "follows" if done.classify_jobs == 1 else "follow"
        jobs = counted(done.classify_jobs, f"{CLASSIFY} job")
        print_broken(f"{jobs} {follow}, as campaign {done.campaign_id}: batchproc run")
