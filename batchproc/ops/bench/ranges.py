"""``bench ranges``: one large document alone, on one worker and on several.

It is read in page ranges (``ocr.split_pages``, or fewer pages where that were too few ranges); its time is from the
first claim to the last settle, by the database's clock: splitting it, opening and checking the original for each range,
all pages, joining them. All engines are loaded before. The sides take turns, and each goes first in every other run,
since a machine's speed drifts.

What is possible here is measured in the same runs: bare Tesseract loops over the same pages, one and several. Where
they do not become so much faster together, nothing can.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from PIL import Image

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.kinds import OCR
from batchproc.database import SqlFolder
from batchproc.documents.store import DocumentStore
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.handlers import registry
from batchproc.ops.bench.figures import Spread, alternated
from batchproc.ops.bench.loop import DPI
from batchproc.ops.bench.ocr import bare_loops
from batchproc.ops.bench.ocr_pages import Page, Pages, draw
from batchproc.ops.bench.schema import WARM_UP_PRIORITY, BenchSchema, Observe, Tell, Urls, bench_schema
from batchproc.ops.importing import Imported, ImportOptions, import_paths
from batchproc.ops.stopped import Stopped, ended_by_sigterm
from batchproc.queue.store import JobStore
from batchproc.settings import Settings

SIDES = ("one worker", "workers", "one loop", "loops")


@dataclass(frozen=True, slots=True)
class RangesRun:
    """Seconds of each side in one run."""

    one_worker: float
    workers: float
    one_loop: float
    loops: float

    @property
    def ratio(self) -> float:
        """Of the time on one worker, what several take."""
        return self.workers / self.one_worker

    @property
    def loops_ratio(self) -> float:
        """The same of the bare loops: what is possible."""
        return self.loops / self.one_loop


@dataclass(frozen=True, slots=True)
class RangesBench:
    """All runs of a bench."""

    pages: int
    split_pages: int
    workers: int
    runs: tuple[RangesRun, ...]

    def plain(self) -> dict[str, Any]:
        """The figures under their stable keys; medians over the runs."""
        ratio, loops_ratio = Spread.of(run.ratio for run in self.runs), Spread.of(run.loops_ratio for run in self.runs)
        seconds = {name: Spread.of(getattr(run, name) for run in self.runs) for name in RangesRun.__dataclass_fields__}
        return {
            "ratio": round(ratio.median, 3),
            "least": round(ratio.least, 3),
            "most": round(ratio.most, 3),
            "loops_ratio": round(loops_ratio.median, 3),
            "pages": self.pages,
            "split_pages": self.split_pages,
            "ranges": ceil(self.pages / self.split_pages),
            "workers": self.workers,
            **{f"{name}_seconds": round(spread.median, 2) for name, spread in seconds.items()},
            "runs": [
                {"ratio": round(run.ratio, 3), "loops_ratio": round(run.loops_ratio, 3)}
                | {f"{name}_seconds": round(getattr(run, name), 2) for name in seconds}
                for run in self.runs
            ],
        }


def bench_ranges(
    settings: Settings, urls: Urls, *, pages: int, workers: int, runs: int, tell: Tell, observe: Observe
) -> RangesBench:
    """Draws a document of so many letters, each another one, and lets all sides read it, by turns.

    Raises:
        UsageError: the document has fewer pages than there are workers.
        Stopped: by a signal.
        EnvironmentFault: the database, the pool or Tesseract is at fault.
    """
    if pages < workers:
        raise UsageError(
            f"{pages} pages are too few for {workers} workers", f"give --pages {workers} at least, or fewer --workers"
        )
    split_pages = pages_of_a_range(settings.ocr.split_pages, pages, workers)
    settings = settings.model_copy(update={"ocr": settings.ocr.model_copy(update={"split_pages": split_pages})})
    done = []
    with ended_by_sigterm(), tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder:
        tell(f"drawing {pages} pages, to be read in {ceil(pages / split_pages)} ranges")
        drawn = draw(Path(folder), pages, workers)
        document = _bound(Path(folder) / "document.tif", drawn.measured)
        for number in range(1, runs + 1):
            seconds = {}
            for side in alternated(SIDES, number):
                tell(f"run {number} of {runs}: {side}")
                together = workers if side in ("workers", "loops") else 1
                if "loop" in side:
                    seconds[side] = pages / bare_loops(settings, drawn, together).pages_per_second
                else:
                    seconds[side] = _read(settings, urls, document, drawn, together, observe)
            done.append(RangesRun(*(seconds[side] for side in SIDES)))
            tell(f"run {number} of {runs}: {done[-1].ratio:.3f} of the time, loops {done[-1].loops_ratio:.3f}")
    return RangesBench(pages, split_pages, workers, tuple(done))


def pages_of_a_range(most: int, pages: int, workers: int) -> int:
    """At most ``most``, and so few that each worker has four ranges, as with the defaults: 200 pages in ranges of 25 on
    two. A document that nothing splits would be read by one worker alone."""
    return min(most, ceil(pages / (4 * workers)))


def _bound(path: Path, pages: Sequence[Page]) -> Path:
    """The pages as one TIFF."""
    try:
        with Image.open(pages[0].path) as first:
            rest = (_image(page) for page in pages[1:])
            first.save(path, save_all=True, append_images=rest, compression="tiff_deflate", dpi=(DPI, DPI))
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write the document into {path.parent}: {error.strerror}",
            "make room there (a MB a page), or set TMPDIR",
        ) from None
    return path


def _image(page: Page) -> Image.Image:
    with Image.open(page.path) as image:
        image.load()
        return image


def _read(settings: Settings, urls: Urls, document: Path, pages: Pages, workers: int, observe: Observe) -> float:
    """The seconds that a node with so many workers takes for the document."""
    with bench_schema(settings, urls, pool=settings.pool.model_copy(update={"nice": 0})) as schema:
        documents = DocumentStore(schema.name, tenant_id=None)
        jobs = JobStore(schema.name)
        spec = registry.for_settings(schema.settings)[OCR].spec
        with schema.connect() as connection:
            tenant = jobs.add_tenant(connection, "bench")
            warm_up = ImportOptions(spec=spec, priority=WARM_UP_PRIORITY)
            paths = [os.fsencode(page.path) for page in pages.warm_up[:workers]]
            list(import_paths(connection, documents, jobs, tenant, paths, warm_up))
            [large] = import_paths(
                connection, documents, jobs, tenant, [os.fsencode(document)], ImportOptions(spec=spec)
            )
        assert isinstance(large, Imported), "it was drawn a moment ago"
        schema.run(RunOptions(workers=workers, scope=Scope(kinds=frozenset([OCR]))), observe)
        return _seconds(schema, large.document_id)


def _seconds(schema: BenchSchema, document_id: int) -> float:
    statement = SqlFolder("batchproc.ops.bench", schema.name)["bench_document_times"]
    with schema.connect() as connection:
        status = DocumentStore(schema.name, tenant_id=None).load(connection, document_id).status
        row = connection.execute(statement, {"kind": OCR, "document_id": document_id}).fetchone()
    assert row is not None
    if status != "completed":
        raise Stopped(f"the bench was stopped before its document was read ({row[0]} jobs were done)")
    return float(row[1])
