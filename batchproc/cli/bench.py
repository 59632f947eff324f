"""``bench``: how fast this machine and this database are, beside what is possible on them."""

from __future__ import annotations

import importlib
import pkgutil

import click

from batchproc.cli import benches
from batchproc.cli.groups import JsonGroup


@click.group(cls=JsonGroup)
def bench() -> None:
    """Measure how fast it is here.

    Beside each figure stands what would be possible on this machine. A bench runs in a schema of its own in the
    database in use, and removes it. Nothing of yours is touched.
    """


for found in pkgutil.iter_modules(benches.__path__, f"{benches.__name__}."):
    bench.add_command(importlib.import_module(found.name).command)
