"""Every command of the command line, by name: where it is, and its line in the list of all."""

from __future__ import annotations

import click

from batchproc.cli import examples
from batchproc.cli.completion import offered
from batchproc.cli.line import global_options
from batchproc.cli.line.groups import tree
from batchproc.cli.line.lazy import LazyCommands, Listed

_COMMANDS = {
    "bench": Listed("batchproc.cli.benches.bench:bench", "Measure how fast it is here."),
    "campaigns": Listed(
        "batchproc.cli.campaigns.campaigns:campaigns", "What one command began (reprocess, import), as a whole."
    ),
    "completion": Listed(
        "batchproc.cli.completion.completion:completion",
        "Print what makes SHELL complete commands, options and values.",
    ),
    "db": Listed("batchproc.cli.installation.db:db", "Start, stop, look into and back up the embedded PostgreSQL."),
    "demo": Listed("batchproc.cli.installation.demo:demo", "See it work, with documents of its own."),
    "doctor": Listed("batchproc.cli.installation.doctor:doctor", "Check what a run needs, and say what to do."),
    "documents": Listed(
        "batchproc.cli.documents.documents:documents", "Look at documents, their text and its revisions."
    ),
    "enqueue": Listed("batchproc.cli.jobs.enqueue:enqueue", "Enqueue a job of KIND."),
    "import": Listed(
        "batchproc.cli.importing.import_:import_", "Register files as documents of a tenant and enqueue their OCR."
    ),
    "jobs": Listed("batchproc.cli.jobs.jobs:jobs", "Look at jobs, run them again, end, give up on or move them."),
    "kinds": Listed(
        "batchproc.cli.admin.kinds:kinds",
        "List kinds, pause, resume and limit them.",
    ),
    "metrics": Listed(
        "batchproc.cli.reports.metrics:metrics",
        "Print the queue's figures for Prometheus.",
    ),
    "migrate": Listed(
        "batchproc.cli.installation.migrate:migrate",
        "Apply the migrations that the database lacks. Behind a transaction pooler set database.direct_url.",
    ),
    "prune": Listed("batchproc.cli.jobs.prune:prune", "Delete jobs that ended long ago, with their attempts."),
    "report": Listed("batchproc.cli.reports.report:report", "Report what a run did, or the jobs of a campaign."),
    "reprocess": Listed(
        "batchproc.cli.reprocessing.reprocess:reprocess", "Enqueue documents again: those that fit all filters."
    ),
    "run": Listed("batchproc.cli.run.run:run", "Run everything that is due, then exit."),
    "status": Listed("batchproc.cli.status.status:status", "Show what waits, what runs, and which nodes there are."),
    "storage": Listed(
        "batchproc.cli.admin.storage:storage", "Tell storage roots that are mounted from those that are not."
    ),
    "tenants": Listed("batchproc.cli.admin.tenants:tenants", "List, add and change tenants."),
    "usage": Listed(
        "batchproc.cli.reports.usage:usage",
        "Show what tenants used: jobs, pages and seconds of workers.",
    ),
    "why": Listed("batchproc.cli.jobs.why:why_", "Say why a job is not running, and what would change that."),
}


def every_command() -> LazyCommands:
    """The commands, each imported when it is asked for, with its examples and the values that a shell completes."""
    return LazyCommands(_COMMANDS, _finish)


def _finish(name: str, command: click.Command) -> None:
    examples.attach(name, command)
    offered.attach(name, command)
    for path, inner in tree(name, command):
        global_options.accept_behind(inner, shown=path == "run")
