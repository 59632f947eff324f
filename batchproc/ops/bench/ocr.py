"""``bench ocr``: pages a second through a whole node, beside bare Tesseract loops on the same pages.

How it is made fair. Both sides read the same PNG files, with the same language files, languages in the same order and
page segmentation, in as many processes, each having read one warm-up page before the clock starts, so that all engines
are loaded. The loops do what recognition cannot do without: decode, hand over, recognise. They take turns with
batchproc, and each goes first in every other run, since a machine's speed drifts. Peers take part in the turns.

batchproc's time is from the first claim to the last settle by the database's clock: claims, checking the originals,
revisions and pages committed, settles, follow-ups enqueued (not run: ``classify`` is outside the scope). The loops'
time is from their common start to the end of the last one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from batchproc.core.errors import EnvironmentFault
from batchproc.core.kinds import OCR
from batchproc.core.languages import wanted
from batchproc.documents.store import DocumentStore
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.handlers import registry
from batchproc.ocr.tessdata import Tessdata
from batchproc.ocr.tesseract import loading_order
from batchproc.ops.bench.ocr_pages import Page, Pages, Side, draw, recall, share
from batchproc.ops.bench.ocr_peers import Order, Peer
from batchproc.ops.bench.schema import (
    MEASURED_PRIORITY,
    WARM_UP_PRIORITY,
    BenchSchema,
    Observe,
    Tell,
    Urls,
    bench_schema,
)
from batchproc.ops.importing import Imported, ImportOptions, import_paths
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore, Tenant
from batchproc.settings import Settings

SIDES = ("batchproc", "bare loop")
# Many times what a slow machine takes.
LOOP_START_SECONDS = 300.0
LOOP_PAGE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class OcrRun:
    """One run of all sides; ``peers`` by name."""

    batchproc: Side
    bare_loop: Side
    peers: Mapping[str, Side] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.batchproc.pages_per_second / self.bare_loop.pages_per_second

    def ratio_to(self, peer: str) -> float:
        return self.batchproc.pages_per_second / self.peers[peer].pages_per_second


@dataclass(frozen=True, slots=True)
class OcrBench:
    """All runs of a bench."""

    pages: int
    workers: int
    languages: tuple[str, ...]
    runs: tuple[OcrRun, ...]
    peers: Mapping[str, str | None] = field(default_factory=dict)
    """Versions by name, None for what is not installed; empty if they were not asked for."""

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys; rates and the ratio are medians over the runs."""
        ratios = [run.ratio for run in self.runs]
        return {
            "ratio_to_bare_loop": round(median(ratios), 3),
            "least": round(min(ratios), 3),
            "most": round(max(ratios), 3),
            "pages_per_second": round(median(run.batchproc.pages_per_second for run in self.runs), 3),
            "bare_loop_pages_per_second": round(median(run.bare_loop.pages_per_second for run in self.runs), 3),
            "word_recall": round(min(run.batchproc.word_recall for run in self.runs), 4),
            "bare_loop_word_recall": round(min(run.bare_loop.word_recall for run in self.runs), 4),
            "pages": self.pages,
            "workers": self.workers,
            "languages": list(self.languages),
            "engines_preloaded": min(run.batchproc.preloaded for run in self.runs),
            "runs": [
                {
                    "ratio": round(run.ratio, 3),
                    "pages_per_second": round(run.batchproc.pages_per_second, 3),
                    "bare_loop_pages_per_second": round(run.bare_loop.pages_per_second, 3),
                }
                for run in self.runs
            ],
            **{f"ratio_to_{name}": self._peer_ratio(name) for name in self.peers},
            **({"peers": {name: self._peer(name) for name in self.peers}} if self.peers else {}),
        }

    def _peer_ratio(self, name: str) -> float | None:
        return None if self.peers[name] is None else round(median(run.ratio_to(name) for run in self.runs), 3)

    def _peer(self, name: str) -> dict[str, Any] | None:
        if self.peers[name] is None:
            return None
        sides = [run.peers[name] for run in self.runs]
        return {
            "version": self.peers[name],
            "pages_per_second": round(median(side.pages_per_second for side in sides), 3),
            "word_recall": round(min(side.word_recall for side in sides), 4),
        }


def bench_ocr(
    settings: Settings,
    urls: Urls,
    *,
    pages: int,
    workers: int,
    runs: int,
    tell: Tell,
    observe: Observe,
    peers: Mapping[str, Peer | None] | None = None,
) -> OcrBench:
    """Draws the pages, then lets all sides read them, by turns.

    Args:
        pages: how many letters, each another one, in English and German.
        peers: as `installed_peers` finds them; None to leave them out.
        observe: is told every page that batchproc has read.

    Raises:
        Stopped: by a signal.
        EnvironmentFault: the database, the pool or Tesseract is at fault.
    """
    done = []
    found = {name: peer for name, peer in (peers or {}).items() if peer is not None}
    with ended_by_sigterm(), tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder:
        tell(f"drawing {pages} pages")
        drawn = draw(Path(folder), pages, workers)
        for number in range(1, runs + 1):
            sides = {}
            order = [*SIDES, *found]
            for side in order if number % 2 else reversed(order):
                tell(f"run {number} of {runs}: {side}")
                if side == "batchproc":
                    sides[side] = _through_batchproc(settings, urls, drawn, workers, observe)
                elif side == "bare loop":
                    sides[side] = bare_loops(settings, drawn, workers)
                else:
                    sides[side] = _through_peer(found[side], settings, drawn, workers)
            done.append(OcrRun(sides["batchproc"], sides["bare loop"], {name: sides[name] for name in found}))
            tell(f"run {number} of {runs}: {done[-1].ratio:.3f} of the bare loop")
    versions = {name: peer.version if peer is not None else None for name, peer in (peers or {}).items()}
    return OcrBench(pages, workers, settings.ocr.languages, tuple(done), versions)


# -- batchproc


def _through_batchproc(settings: Settings, urls: Urls, pages: Pages, workers: int, observe: Observe) -> Side:
    with bench_schema(settings, urls, pool=settings.pool.model_copy(update={"nice": 0})) as schema:
        tenant, warm_up, measured = _imported(schema, pages)
        schema.run(RunOptions(workers=workers, scope=Scope(kinds=frozenset([OCR]))), observe)
        seconds = schema.seconds(OCR, len(measured))
        store = DocumentStore(schema.name, tenant_id=tenant.tenant_id)
        inspection = Inspection(schema.name)
        with schema.connect() as connection:
            texts = ["\n".join(store.text(connection, document.document_id)) for document in measured]
            readers: set[int] = set()
            for document in warm_up:
                assert document.job_id is not None, "it was imported with a job"
                readers.update(row["worker_pid"] for row in inspection.job(connection, document.job_id)["attempts"])
    return Side(len(measured) / seconds, recall(pages.measured, texts), len(readers))


def _imported(schema: BenchSchema, pages: Pages) -> tuple[Tenant, list[Imported], list[Imported]]:
    jobs = JobStore(schema.name)
    documents = DocumentStore(schema.name, tenant_id=None)
    options = ImportOptions(spec=registry.for_settings(schema.settings)[OCR].spec)
    with schema.connect() as connection:
        tenant = jobs.add_tenant(connection, "bench")

        def imported(some: Sequence[Page], priority: int) -> list[Imported]:
            paths = [os.fsencode(page.path) for page in some]
            outcomes = import_paths(connection, documents, jobs, tenant, paths, replace(options, priority=priority))
            return [outcome for outcome in outcomes if isinstance(outcome, Imported)]

        return tenant, imported(pages.warm_up, WARM_UP_PRIORITY), imported(pages.measured, MEASURED_PRIORITY)


# -- peers


def _through_peer(peer: Peer, settings: Settings, pages: Pages, workers: int) -> Side:
    languages = loading_order(wanted(settings.ocr.languages).languages)
    with Tessdata(settings.ocr.tessdata).folder_with(languages) as tessdata:
        return peer.read(Order(pages.measured, languages, tessdata, workers))


# -- bare loops


def bare_loops(settings: Settings, pages: Pages, workers: int) -> Side:
    languages = loading_order(wanted(settings.ocr.languages).languages)
    with ExitStack() as stack:
        tessdata = stack.enter_context(Tessdata(settings.ocr.tessdata).folder_with(languages))
        order = {"tessdata": str(tessdata), "languages": languages, "warm_up": str(pages.warm_up[0].path)}
        shares = [share(pages.measured, n, workers) for n in range(workers)]
        loops = [stack.enter_context(_loop(order | {"paths": [str(page.path) for page in share]})) for share in shares]
        for loop in loops:
            if _line(loop, LOOP_START_SECONDS) != "ready\n":
                raise EnvironmentFault("a bare Tesseract loop did not start", "see what it wrote above")
        started = time.monotonic()
        for loop in loops:
            _send(loop, "go")
        limit = LOOP_PAGE_SECONDS * max(len(share) for share in shares)
        answers = [json.loads(_line(loop, limit) or "null") for loop in loops]
    if None in answers:
        raise Stopped("the bench was stopped")
    seconds = max(answer["ended"] for answer in answers) - started
    recalls = [recall(share, answer["texts"]) for share, answer in zip(shares, answers, strict=True) if share]
    return Side(len(pages.measured) / seconds, fmean(recalls), workers)


@contextmanager
def _loop(order: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-m", "batchproc.ops.bench.loop"]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # as a worker has it
    with subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C comes to the bench alone, which ends the loops
    ) as process:
        try:
            _send(process, json.dumps(order))
            yield process
        finally:
            process.kill()


def _send(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str], limit: float) -> str:
    """The next line; empty when the loop ended. Raises EnvironmentFault after ``limit`` seconds, the loop killed."""
    assert process.stdout is not None
    given_up = threading.Event()

    def give_up() -> None:
        given_up.set()
        process.kill()

    timer = threading.Timer(limit, give_up)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    if given_up.is_set():
        raise EnvironmentFault(
            f"a bare Tesseract loop was silent for {limit:.0f} seconds", "try fewer --pages, or fewer --workers"
        )
    return line
