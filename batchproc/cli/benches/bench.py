"""``bench``: how fast this machine and this database are, beside what is possible on them."""

from __future__ import annotations

import click

from batchproc.cli.benches import (
    claim,
    enqueue,
    fairness,
    latency,
    ocr,
    parent,
    promotion,
    prune,
    queue,
    ranges,
    ready,
    simulate,
)
from batchproc.cli.line.groups import JsonGroup


@click.group(cls=JsonGroup)
def bench() -> None:
    """Measure how fast it is here.

    Beside each figure stands what would be possible on this machine. A bench runs in a schema of its own in the
    database in use, and removes it. Nothing of yours is touched.
    """


for each in (claim, enqueue, fairness, latency, ocr, parent, promotion, prune, queue, ranges, ready, simulate):
    bench.add_command(each.command)
