"""How long documents will take: from the worker seconds a page took on the last days.

`estimated` is the one rule, and `Estimate` has the words for it, wherever a person is told: before documents are chosen
(``reprocess --dry-run``), after some were tried (``--pilot``), while the rest is done (``campaigns show``, and the
progress line of a run, see ``run_ahead``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.kinds import OCR
from batchproc.queue.campaign_listing import CampaignListing, LeftJobs, Used
from batchproc.queue.nights import PAST_DAYS

_FIND_OUT = "to find out, read a few: reprocess them with --pilot 20"
# Of a tenant that had fewer, everybody's rate says more.
_FEWEST_PAGES = 50
_FEWEST_JOBS = 20
_READING_EVERYTHING = frozenset({"redo", "force"})


@dataclass(slots=True)
class _Sums:
    seconds: float = 0.0
    completed: int = 0
    jobs: int = 0
    pages: int = 0
    pages_timed: int = 0
    seconds_ocr: float = 0.0

    def add(self, used: Used) -> None:
        self.seconds += used.seconds
        self.completed += used.completed
        self.jobs += used.jobs
        self.pages += used.pages_text + used.pages_blank + used.pages_ocr
        self.pages_timed += used.pages_timed
        self.seconds_ocr += used.seconds_ocr


_Enough = Callable[[_Sums], bool]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done of one tenant and kind, as the jobs' args have the mode, where they name one.

    ``pages_unknown``: documents of which nobody knows the pages.
    """

    tenant_id: int
    kind: str
    jobs: int
    pages: int
    pages_unknown: int = 0
    mode: str | None = None

    @property
    def reads(self) -> bool:
        """Whether its pages are read, so that it takes as long as they do."""
        return self.kind == OCR

    @property
    def recognises(self) -> bool:
        """Whether all its pages are recognised, those with a text layer, too."""
        return self.mode in _READING_EVERYTHING


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much it is, and how long it takes.

    ``pages`` to be read, with those of the ``pages_unknown`` documents, which are guessed. ``worker_seconds``: of one
    worker; None where nothing tells. ``seconds`` with ``workers`` that have nothing else to do. ``seconds_per_page``:
    of one worker, for the pages alone; None where there are none, or nothing tells.
    """

    pages: int
    pages_unknown: int
    worker_seconds: float | None
    workers: int
    seconds: float | None
    seconds_per_page: float | None = None

    def lines(self) -> list[str]:
        """In words: the work, on one line or two, and the time, where that is known; each of at most 66 columns."""
        return [*self.work(), *([] if (time := self.time()) is None else [time])]

    def work(self) -> list[str]:
        """``42 pages, 32 s of one worker (0.75 s a page lately)``."""
        pages = f"{counted(self.pages, 'page')}, " if self.pages else ""
        each = "" if self.seconds_per_page is None else f" ({_exact(self.seconds_per_page)} a page lately)"
        if self.worker_seconds is None:
            told = f"time unknown: nothing like it in {PAST_DAYS} days"
        else:
            told = f"{duration(self.worker_seconds)} of one worker{each}"
        unread = counted(self.pages_unknown, "document")
        have, count = ("has", "counts") if self.pages_unknown == 1 else ("have", "count")
        guessed = [f"{unread} {have} not been read, and {count} as others do"] if self.pages_unknown else []
        reading_unknown = self.pages > 0 and self.worker_seconds is None and self.seconds_per_page is None
        return [f"{pages}{told}", *guessed, *([_FIND_OUT] if reading_unknown else [])]

    def time(self) -> str | None:
        """``about 16 s with 2 workers and nothing else to do``."""
        if self.seconds is None:
            return None
        return f"about {duration(self.seconds)} with {counted(self.workers, 'worker')} and nothing else to do"


def _exact(seconds: float) -> str:
    """With two digits at least, so that a person can reckon with it."""
    if 0.1 <= seconds < 10:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if 10 <= seconds < 600 else duration(seconds)


def estimated(connection: Connection[TupleRow], schema: str, works: Iterable[Work], *, workers: int) -> Estimate:
    """Estimates work by what the tenants' last days saw, for the slots of the nodes that run.

    Args:
        workers: of a node that is still to be started, for where none runs.
    """
    listing, works = CampaignListing(schema), list(works)
    estimates = Estimates(listing.past(connection, PAST_DAYS) if works else ())
    at_once = listing.slots(connection) or workers
    worker_seconds, jobs = estimates.seconds(works), sum(work.jobs for work in works)
    readings = [work for work in works if work.reads]
    pages, reading = sum(map(estimates.pages, readings)), estimates.seconds(readings)
    return Estimate(
        pages=round(pages),
        pages_unknown=sum(work.pages_unknown for work in readings),
        worker_seconds=worker_seconds,
        workers=at_once,
        seconds=None if worker_seconds is None else shared(worker_seconds, at_once, jobs),
        seconds_per_page=None if reading is None or not pages else reading / pages,
    )


def shared(worker_seconds: float, workers: int, jobs: int) -> float:
    """Seconds that it takes so many workers which have nothing else to do, each of which has one job at a time."""
    return worker_seconds / min(workers, max(1, jobs))


class Estimates:
    """What a page, or a job that reads none, took, of each tenant or, where that tells too little, of all.

    Args:
        past: of the last days.
    """

    def __init__(self, past: Iterable[Used]) -> None:
        self._of: dict[tuple[int | None, str], _Sums] = {}
        for used in past:
            for tenant_id in (used.tenant_id, None):
                self._of.setdefault((tenant_id, used.kind), _Sums()).add(used)

    def seconds_per_page(self, tenant_id: int | None, *, recognised: bool = False) -> float | None:
        """Worker seconds; None where no page was read, or where none was recognised that is to be.

        Args:
            recognised: of a page that is recognised in any case, as those were that had no text layer: text layers take
                next to no time, so that neither they nor their seconds tell of it.
        """
        if recognised:
            sums = self._telling(tenant_id, OCR, lambda found: found.pages_timed >= _FEWEST_PAGES)
            return sums.seconds_ocr / sums.pages_timed if sums.pages_timed else None
        sums = self._telling(tenant_id, OCR, lambda found: found.pages >= _FEWEST_PAGES)
        return sums.seconds / sums.pages if sums.pages else None

    def pages_per_document(self, tenant_id: int | None) -> float:
        """For those of which nobody knows the pages; 1 where none was read."""
        sums = self._telling(tenant_id, OCR, lambda found: found.completed >= _FEWEST_JOBS)
        # What is read in ranges has several jobs; one that was given up on has hardly a page.
        return max(1.0, sums.pages / sums.completed) if sums.completed else 1.0

    def seconds_per_job(self, tenant_id: int | None, kind: str) -> float | None:
        """Worker seconds; None where none of the kind ended."""
        sums = self._telling(tenant_id, kind, lambda found: found.jobs >= _FEWEST_JOBS)
        return sums.seconds / sums.jobs if sums.jobs else None

    def pages(self, work: Work) -> float:
        """The pages of it, those that are only guessed too."""
        guessed = self.pages_per_document(work.tenant_id) * work.pages_unknown if work.pages_unknown else 0.0
        return work.pages + guessed

    def seconds(self, works: Iterable[Work]) -> float | None:
        """Worker seconds that it will take; None where nothing tells of some part of it."""
        total, told = 0.0, True
        for work in works:
            if work.reads:
                each, count = self.seconds_per_page(work.tenant_id, recognised=work.recognises), self.pages(work)
            else:
                each, count = self.seconds_per_job(work.tenant_id, work.kind), float(work.jobs)
            told = told and (each is not None or not count)
            total += (each or 0.0) * count
        return total if told else None

    def _telling(self, tenant_id: int | None, kind: str, enough: _Enough) -> _Sums:
        own = self._of.get((tenant_id, kind))
        return own if own is not None and enough(own) else self._of.get((None, kind), _Sums())


def work_left(left: Iterable[LeftJobs]) -> list[Work]:
    """What is left of a campaign as work to be done."""
    return [Work(part.tenant_id, part.kind, part.jobs, part.pages, part.pages_unknown, part.mode) for part in left]
