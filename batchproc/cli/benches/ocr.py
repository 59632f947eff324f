"""``bench ocr``."""

from __future__ import annotations

import click

from batchproc.cli.benches.common import begin, runs_option, show
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.output import json_option
from batchproc.config import cpus_available
from batchproc.core.job import Claim
from batchproc.core.outcome import Outcome
from batchproc.ops.bench.schema import MEASURED_PRIORITY


@click.command("ocr")
@click.option("--pages", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Pages in each run.")
@click.option("--workers", type=click.IntRange(1, 64), help="Pages at a time; default: the CPUs.")
@runs_option
@click.option("--peers", is_flag=True, help="Also the tesseract command and ocrmypdf, where installed.")
@json_option
@pass_app
def command(app: App, pages: int, workers: int | None, runs: int, peers: bool, as_json: bool) -> None:
    """Measure the recognition of drawn letters.

    They are read (300 dpi, no text layer) by turns with bare Tesseract loops. Timed from the first claim to the last
    settle, with the engines loaded on both sides.
    """
    from batchproc.ops.bench.figures import counted
    from batchproc.ops.bench.ocr import bench_ocr
    from batchproc.ops.bench.ocr_peers import installed_peers

    urls, status = begin(app)
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
        urls,
        pages=pages,
        workers=workers,
        runs=runs,
        tell=status.tell,
        observe=observe,
        peers=found,
    )
    status.clear()
    plain = done.plain()
    compared = [
        f"\n{plain[f'ratio_to_{name}']:.2f} times as fast as {name} {version}"
        for name, version in done.peers.items()
        if version is not None
    ]
    show(
        plain,
        as_json,
        f"{plain['pages_per_second']:.2f} pages/s with {counted(workers, 'worker')} (median of {runs}), "
        f"{plain['ratio_to_bare_loop']:.3f} of the bare loops ({plain['least']:.3f} to {plain['most']:.3f}); "
        f"{'+'.join(plain['languages'])}, word recall {plain['word_recall']:.3f}, "
        f"of the loops {plain['bare_loop_word_recall']:.3f}" + "".join(compared),
    )
