"""How long documents will take: from the worker seconds a page took on the last days."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from batchproc.queue.campaign_listing import LeftJobs, Used

# Of a tenant that had fewer, everybody's rate says more.
_FEWEST_PAGES = 50
_FEWEST_JOBS = 20
_READING = "ocr"


@dataclass(slots=True)
class _Sums:
    seconds: float = 0.0
    jobs: int = 0
    pages: int = 0
    pages_ocr: int = 0

    def add(self, used: Used) -> None:
        self.seconds += used.seconds
        self.jobs += used.jobs
        self.pages += used.pages_text + used.pages_blank + used.pages_ocr
        self.pages_ocr += used.pages_ocr


_Enough = Callable[[_Sums], bool]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done of one tenant and kind; ``pages_unknown``: documents of which nobody knows the pages."""

    tenant_id: int
    kind: str
    jobs: int
    pages: int
    pages_unknown: int = 0


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
        """Worker seconds; None where no page was read.

        Args:
            recognised: of a page that is recognised in any case: text layers, which take next to no time, are left out.
                Without pages of that sort it is that of any page.
        """
        sums = self._telling(tenant_id, _READING, lambda found: found.pages >= _FEWEST_PAGES)
        pages = sums.pages_ocr if recognised and sums.pages_ocr else sums.pages
        return sums.seconds / pages if pages else None

    def pages_per_document(self, tenant_id: int | None) -> float:
        """For those of which nobody knows the pages; 1 where none was read."""
        sums = self._telling(tenant_id, _READING, lambda found: found.jobs >= _FEWEST_JOBS)
        # What is read in ranges has several jobs, and a job that was discarded perhaps no page.
        return max(1.0, sums.pages / sums.jobs) if sums.jobs else 1.0

    def seconds_per_job(self, tenant_id: int | None, kind: str) -> float | None:
        """Worker seconds; None where none of the kind ended."""
        sums = self._telling(tenant_id, kind, lambda found: found.jobs >= _FEWEST_JOBS)
        return sums.seconds / sums.jobs if sums.jobs else None

    def pages(self, work: Work) -> float:
        """The pages of it, those that are only guessed too."""
        guessed = self.pages_per_document(work.tenant_id) * work.pages_unknown if work.pages_unknown else 0.0
        return work.pages + guessed

    def seconds(self, works: Iterable[Work], *, recognised: bool = False) -> float | None:
        """Worker seconds that it will take; None where nothing tells of some part of it.

        Args:
            recognised: as of ``seconds_per_page``.
        """
        total, told = 0.0, True
        for work in works:
            if work.kind == _READING:
                each, count = self.seconds_per_page(work.tenant_id, recognised=recognised), self.pages(work)
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
    return [Work(part.tenant_id, part.kind, part.jobs, part.pages, part.pages_unknown) for part in left]
