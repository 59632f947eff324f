"""``bench claim``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option
from batchproc.core.errors import UsageError


@click.command("claim")
@click.option(
    "--jobs", type=click.IntRange(1000, 5_000_000), default=200_000, show_default=True, help="Jobs that wait."
)
@click.option(
    "--tenants", type=click.IntRange(130, 100_000), default=10_000, show_default=True, help="Whose; one has half."
)
@click.option(
    "--finished", type=click.IntRange(0, 50_000_000), default=0, show_default=True, help="Jobs that are over."
)
@click.option("--turns", type=click.IntRange(2, 64), default=64, show_default=True, help="Jobs in each claim.")
@click.option("--claims", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Of a side, in each run.")
@click.option("--runs", type=click.IntRange(1, 100), default=5, show_default=True, help="The median counts.")
@click.option("--snapshot", is_flag=True, help="Instead: while another session holds an old snapshot.")
@click.option("--at-limit", is_flag=True, help="Instead: behind the jobs of a kind at its limit.")
@click.option(
    "--ahead",
    type=click.IntRange(1, 5_000_000),
    help="With --snapshot: jobs of one tenant that were claimed under it (200,000); with --at-limit: jobs of the kind"
    " at its limit (100,000).",
)
@json_option
@pass_app
def command(
    app: App,
    jobs: int,
    tenants: int,
    finished: int,
    turns: int,
    claims: int,
    runs: int,
    snapshot: bool,
    at_limit: bool,
    ahead: int | None,
    as_json: bool,
) -> None:
    """Measure choosing and claiming for many tenants.

    On a large table by turns with a small one; or what an old snapshot adds, with the floors of queues and without; or
    what jobs add that may not be claimed. Nothing is run or settled. The limit beside it: a one-row commit.
    """
    from batchproc.ops.bench.claim import bench_claim, bench_claim_at_limit, bench_claim_under_snapshot

    if snapshot and at_limit:
        raise UsageError("--snapshot and --at-limit exclude each other")
    if ahead is not None and not (snapshot or at_limit):
        raise UsageError("--ahead belongs to --snapshot or --at-limit")
    urls, status = begin(app)
    told = {"jobs": jobs, "tenants": tenants, "turns": turns, "claims": claims, "runs": runs}
    if snapshot:
        done = bench_claim_under_snapshot(app.settings, urls, **told, claimed=ahead or 200_000, tell=status.tell)
    elif at_limit:
        done = bench_claim_at_limit(app.settings, urls, **told, limited=ahead or 100_000, tell=status.tell)
    else:
        done = bench_claim(app.settings, urls, **told, finished=finished, tell=status.tell)
    plain = done.plain()
    side, base = plain["ratio_of"]
    ratio = plain["ratio"]
    show(
        plain,
        as_json,
        f"{plain['ms'][side]['median']:.2f} ms to choose and claim for {turns} tenants, {ratio['median']:.2f} times "
        f"({ratio['least']:.2f} to {ratio['most']:.2f}) the {plain['ms'][base]['median']:.2f} ms of {base!r}; a "
        f"one-row commit takes {plain['commit_ms']['median']:.2f} ms",
    )
