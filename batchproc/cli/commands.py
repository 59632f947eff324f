"""Every command of the command line, by name."""

from __future__ import annotations

import click

from batchproc.cli import examples
from batchproc.cli.bench import bench
from batchproc.cli.campaigns import campaigns
from batchproc.cli.completion import completion
from batchproc.cli.db import db
from batchproc.cli.demo import demo
from batchproc.cli.doctor import doctor
from batchproc.cli.documents import documents
from batchproc.cli.enqueue import enqueue
from batchproc.cli.import_ import import_
from batchproc.cli.jobs import jobs
from batchproc.cli.kinds import kinds
from batchproc.cli.metrics import metrics
from batchproc.cli.migrate import migrate
from batchproc.cli.prune import prune
from batchproc.cli.report import report
from batchproc.cli.reprocess import reprocess
from batchproc.cli.run import run
from batchproc.cli.status import status
from batchproc.cli.storage import storage
from batchproc.cli.tenants import tenants
from batchproc.cli.usage import usage
from batchproc.cli.why import why_

_COMMANDS: tuple[click.Command, ...] = (
    run,
    import_,
    enqueue,
    reprocess,
    campaigns,
    status,
    report,
    usage,
    why_,
    jobs,
    documents,
    tenants,
    kinds,
    storage,
    db,
    migrate,
    doctor,
    metrics,
    prune,
    bench,
    demo,
    completion,
)


def register(group: click.Group) -> None:
    """Adds the commands to the command line's group."""
    for command in _COMMANDS:
        group.add_command(command)
    examples.attach(group)
