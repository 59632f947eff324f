"""``bench ranges``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option
from batchproc.core.counted import counted
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome


@click.command("ranges")
@click.option("--pages", type=click.IntRange(2, 10_000), default=200, show_default=True, help="Of the document.")
@click.option("--workers", type=click.IntRange(2, 64), default=2, show_default=True, help="Against one.")
@runs_option
@json_option
@pass_app
def command(app: App, pages: int, workers: int, runs: int, as_json: bool) -> None:
    """Measure one large document alone, on one worker and on several.

    Drawn letters (300 dpi), read in ranges of ocr.split_pages, and of fewer where a worker would have less than four;
    beside it bare Tesseract loops over the same pages.
    """
    from batchproc.ops.bench.ranges import bench_ranges

    urls, status = begin(app)
    ended = 0

    def observe(_claim: Claim, _outcome: Outcome, _seconds: float) -> None:
        nonlocal ended
        ended += 1
        status.show(counted(ended, "job"))

    done = bench_ranges(app.settings, urls, pages=pages, workers=workers, runs=runs, tell=status.tell, observe=observe)
    status.clear()
    plain = done.plain()
    show(
        plain,
        as_json,
        f"{pages} pages in {plain['ranges']} ranges on {workers} workers take {plain['ratio']:.3f} of the "
        f"time on one ({plain['least']:.3f} to "
        f"{plain['most']:.3f}, median of {runs}), {workers} bare loops {plain['loops_ratio']:.3f} of the time of one",
    )
