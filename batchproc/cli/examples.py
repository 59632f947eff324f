"""Examples at the end of ``--help``, by command; those that stand in a command's own text are not here."""

from __future__ import annotations

import re

import click

from batchproc.cli.line.groups import tree

_HEADING = "Examples:"
_PROGRAM = "batchproc"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "run  all that is due, then exit",
        "run --until 06:00 --exclusive  from cron, gone by six",
        "run --tenant acme --kind ocr  only these",
        "run --forever --lane interactive  as a service, until SIGTERM",
        "run --once 42  one job, with its traceback",
        "run --once 42 --in-process  the same in the debugger",
        "run --once --file scan.pdf  a file that is not kept",
    ),
    "campaigns list": ("campaigns list", "campaigns list --tenant acme --json"),
    "campaigns show": ("campaigns show 7",),
    "campaigns pause": ("campaigns pause 7  what runs may end",),
    "campaigns resume": ("campaigns resume 7",),
    "campaigns cancel": ("campaigns cancel 7 --dry-run", "campaigns cancel 7 --yes"),
    "jobs": (
        "jobs list --state discarded --tenant acme",
        "jobs show 42  its attempts, and what each met",
        "jobs retry 42",
    ),
    "jobs show": ("jobs show 42", "jobs show 42 --json | jq .attempts"),
    "documents": (
        "documents list --status failed",
        "documents text 7  what was recognised",
        "documents history 7  its revisions, oldest first",
    ),
    "documents list": (
        "documents list --tenant acme --status partial",
        "documents list --failure-code encrypted --json",
    ),
    "documents show": ("documents show 7",),
    "documents text": (
        "documents text 7",
        "documents text 7 --set corrected.txt  no OCR replaces it",
    ),
    "documents history": ("documents history 7",),
    "documents diff": (
        "documents diff 7  the text now beside that before",
        "documents diff 7 12 15 --all  what looks like noise too",
    ),
    "documents restore": ("documents restore 7 12",),
    "tenants": ("tenants add acme", "tenants set acme --languages deu,eng", "tenants list"),
    "tenants list": ("tenants list", "tenants list --json"),
    "tenants show": ("tenants show acme", "tenants show acme --json | jq .settings"),
    "tenants add": ("tenants add acme",),
    "tenants set": (
        "tenants set acme --languages deu,eng --mode redo",
        "tenants set acme --max-running 4 --weight 2",
        "tenants set acme --paused  none of its jobs begins",
    ),
    "storage": ("storage list", "storage accept /mnt/archive"),
    "storage list": ("storage list", "storage list --json"),
    "storage accept": ("storage accept /mnt/archive  what is there now is the archive",),
    "storage forget": ("storage forget /mnt/archive/2019  it will never come back",),
    "db": (
        "db status",
        "db psql  a session in psql",
        "db dump nightly.dump",
        "db restore nightly.dump --clean",
    ),
    "db start": ("db start",),
    "db stop": ("db stop", "db stop --force  also while a node works"),
    "db status": ("db status --json",),
    "db url": ('psql "$(batchproc db url)"',),
    "db psql": (
        "db psql",
        "db psql -- -Atc 'select count(*) from batchproc.documents'",
    ),
    "db dump": ("db dump nightly.dump",),
    "db restore": ("db restore nightly.dump", "db restore nightly.dump --clean  in place of what is there"),
    "migrate": ("migrate  after an upgrade",),
    "doctor": ("doctor", "doctor --json | jq '.findings'"),
    "bench": (
        "bench queue  jobs a second, beside bare commits",
        "bench ocr --pages 20  pages a second on this machine",
        "bench fairness",
    ),
    "bench claim": ("bench claim --jobs 1000000 --tenants 500",),
    "bench enqueue": ("bench enqueue --jobs 100000",),
    "bench fairness": ("bench fairness --tenants 20 --workers 4",),
    "bench latency": ("bench latency --jobs 200",),
    "bench ocr": ("bench ocr --pages 20 --workers 2 --peers",),
    "bench parent": ("bench parent --slots 8 --seconds 5",),
    "bench promotion": ("bench promotion --jobs 100000",),
    "bench prune": ("bench prune --finished 100000",),
    "bench queue": ("bench queue --jobs 10000 --workers 2,8", "bench queue --json"),
    "bench ranges": ("bench ranges --pages 100 --workers 4",),
    "bench ready": ("bench ready --tenants 1000",),
    "bench simulate": ("bench simulate --nodes 4 --slots 16 --documents 10000000",),
    "demo": ("demo", "demo --workers 4 --json"),
}
"""What follows ``batchproc`` on a line; two blanks before an explanation. Within 80 cells with all."""


def attach(name: str, command: click.Command) -> None:
    """Puts the examples behind the help of ``command`` and of each command below it that is named here."""
    for path, inner in tree(name, command):
        if path in EXAMPLES:
            inner.epilog = "\n".join(("\b", _HEADING, *_aligned(EXAMPLES[path])))


def _aligned(lines: tuple[str, ...]) -> list[str]:
    """The lines with their explanations below each other."""
    parts = [re.split(r"\s{2,}", line) for line in lines]
    commands = [part[0] if f"$({_PROGRAM} " in part[0] else f"{_PROGRAM} {part[0]}" for part in parts]
    width = max((len(command) for command, part in zip(commands, parts, strict=True) if part[1:]), default=0)
    return [
        f"  {command.ljust(width)}  {part[1]}" if part[1:] else f"  {command}"
        for command, part in zip(commands, parts, strict=True)
    ]
