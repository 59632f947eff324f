"""``bench queue``."""

from __future__ import annotations

from typing import Any

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import json_option

_MOST_WORKERS = 64


def worker_counts(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """``2`` or ``2,8``: one number of workers, or several to be tried in turn, each once."""
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= _MOST_WORKERS for part in parts):
        problem = f"{value!r} is no number of workers from 1 to {_MOST_WORKERS}, nor several such as 2,8"
        raise click.BadParameter(problem, ctx, param)
    return tuple(dict.fromkeys(map(int, parts)))


@click.command("queue")
@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=2000, show_default=True, help="Jobs in each run.")
@click.option("--workers", default="2", show_default=True, callback=worker_counts, help="Jobs at a time; also 2,8.")
@click.option("--bundle", type=click.IntRange(1, 1000), default=1, show_default=True, help="Jobs to a worker at once.")
@click.option("--campaign", is_flag=True, help="Jobs of a campaign, as an import makes them.")
@runs_option
@click.option("--peers", is_flag=True, help="Also celery's prefork pool, where it and redis-server are installed.")
@json_option
@pass_app
def command(
    app: App,
    jobs: int,
    workers: tuple[int, ...],
    bundle: int,
    campaign: bool,
    runs: int,
    peers: bool,
    as_json: bool,
) -> None:
    """Measure jobs that do nothing.

    Each is claimed, run and settled by itself, durably (with --bundle several at a time). Timed from the first claim to
    the last settle. Beside it: one-row commits on one connection and on as many as there are workers, and bare claims
    with their completion on one connection.
    """
    from batchproc.ops.bench.queue import bench_queue
    from batchproc.ops.bench.queue_peers import installed_peers

    urls, status = begin(app)
    found = installed_peers() if peers else {}
    for name, peer in found.items():
        if peer is None:
            say(f"{name} is left out: celery, redis (Python) or redis-server is not installed here")
    done = bench_queue(
        app.settings,
        urls,
        jobs=jobs,
        workers=workers,
        runs=runs,
        tell=status.tell,
        bundle=bundle,
        peers=found,
        campaign=campaign,
    )
    if not done.durability.durable:
        say(
            "the commits of this database are not durable (fsync or synchronous_commit is off): "
            "the figures are not those of a database that survives a power cut"
        )
    plain = done.plain()
    lines = [_line(row, runs, plain.get("peers", {})) for row in plain["by_workers"]]
    server = (
        f"PostgreSQL {plain['server_version']}, synchronous_commit {plain['synchronous_commit']}, "
        f"fsync {plain['fsync']}"
    )
    show(plain, as_json, "\n".join([*lines, server]))


def _line(row: dict[str, Any], runs: int, peers: dict[str, str | None]) -> str:
    from batchproc.ops.bench.figures import counted

    compared = "".join(
        f"; {row[f'ratio_to_{name}']:.2f} times {name} {version}" for name, version in peers.items() if version
    )
    return (
        f"{row['jobs_per_second']:.0f} jobs/s (median of {runs}, {row['least']:.0f} to {row['most']:.0f}) with "
        f"{counted(row['workers'], 'worker')}, {row['ratio_to_commits']:.2f} of "
        f"{row['commits_per_second']:.0f} one-row commits/s and "
        f"{row['ratio_to_bare_claims']:.2f} of {row['bare_claims_per_second']:.0f} bare claims/s{compared}"
    )
