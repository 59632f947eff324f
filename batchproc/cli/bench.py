"""``bench``: how fast this machine and this database are, beside what is possible on them."""

from __future__ import annotations

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.groups import JsonGroup
from batchproc.cli.output import emit_json, json_option, table
from batchproc.cli.terminal import StatusLine
from batchproc.config import cpus_available
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.ops.bench.schema import MEASURED_PRIORITY, Urls


@click.group(cls=JsonGroup)
def bench() -> None:
    """Measure how fast it is here.

    Beside each figure stands what would be possible on this machine. A bench runs in a schema of its own in the
    database in use, and removes it. Nothing of yours is touched.
    """


@bench.command("queue")
@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=2000, show_default=True, help="Jobs in each run.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Jobs at a time.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="The median counts.")
@json_option
@pass_app
def queue(app: App, jobs: int, workers: int, runs: int, as_json: bool) -> None:
    """Measure jobs that do nothing.

    Each is claimed, run and settled by itself, durably. Timed from the first claim to the last settle. Beside it:
    one-row commits on one connection.
    """
    from batchproc.ops.bench.queue import bench_queue

    _quiet(app)
    status = StatusLine()
    done = bench_queue(app.settings, _urls(app), jobs=jobs, workers=workers, runs=runs, tell=status.tell)
    if not done.durability.durable:
        click.echo(
            "the commits of this database are not durable (fsync or synchronous_commit is off): "
            "the figures are not those of a database that survives a power cut",
            err=True,
        )
    plain = done.plain()
    if as_json:
        emit_json(plain)
        return
    _table(plain["runs"])
    click.echo(
        f"\n{plain['jobs_per_second']:.0f} jobs/s (median of {runs}, {plain['least']:.0f} to {plain['most']:.0f}) with "
        f"{workers} workers, {plain['ratio_to_commits']:.2f} of {plain['commits_per_second']:.0f} one-row commits/s; "
        f"PostgreSQL {plain['server_version']}, synchronous_commit {plain['synchronous_commit']}, "
        f"fsync {plain['fsync']}"
    )


@bench.command("ocr")
@click.option("--pages", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Pages in each run.")
@click.option("--workers", type=click.IntRange(1, 64), help="Pages at a time; default: the CPUs.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="The median counts.")
@click.option("--peers", is_flag=True, help="Also the tesseract command and ocrmypdf, where installed.")
@json_option
@pass_app
def ocr(app: App, pages: int, workers: int | None, runs: int, peers: bool, as_json: bool) -> None:
    """Measure the recognition of drawn letters.

    They are read (300 dpi, no text layer) by turns with bare Tesseract loops. Timed from the first claim to the last
    settle, with the engines loaded on both sides.
    """
    from batchproc.ops.bench.ocr import bench_ocr
    from batchproc.ops.bench.ocr_peers import installed_peers

    _quiet(app)
    status = StatusLine()
    read = 0

    def observe(claim: Claim, _outcome: Outcome, _seconds: float) -> None:
        nonlocal read
        read += claim.priority == MEASURED_PRIORITY
        status.show(f"{(read - 1) % pages + 1} of {pages} pages" if read else "warming up")

    workers = workers or cpus_available()
    found = installed_peers() if peers else {}
    for name, peer in found.items():
        status.tell(f"{name} {peer.version}" if peer is not None else f"{name} is not installed here, and left out")
    done = bench_ocr(
        app.settings,
        _urls(app),
        pages=pages,
        workers=workers,
        runs=runs,
        tell=status.tell,
        observe=observe,
        peers=found,
    )
    status.clear()
    plain = done.plain()
    if as_json:
        emit_json(plain)
        return
    _table(plain["runs"])
    click.echo(
        f"\n{plain['pages_per_second']:.2f} pages/s with {workers} workers (median of {runs}), "
        f"{plain['ratio_to_bare_loop']:.3f} of the bare loops ({plain['least']:.3f} to {plain['most']:.3f}); "
        f"{'+'.join(plain['languages'])}, word recall {plain['word_recall']:.3f}, "
        f"of the loops {plain['bare_loop_word_recall']:.3f}"
    )
    for name, version in done.peers.items():
        if version is not None:
            click.echo(f"{plain[f'ratio_to_{name}']:.2f} times as fast as {name} {version}")


def _quiet(app: App) -> None:
    if not app.verbose:
        app.override(logging__level="warning")


def _urls(app: App) -> Urls:
    return Urls(app.database_url, app.direct_url)


def _table(rows: list[dict[str, float]]) -> None:
    table(list(rows[0]), [list(row.values()) for row in rows])
