"""The load of ``bench simulate``: tenants of very different sizes, documents of pages, and a whole night as a flow."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be done. Times in seconds.

    Args:
        documents: in all; the tenant at place n of ``tenants`` has a share in proportion to 1 / n (Zipf).
        pages_median, pages_sigma: of a document, lognormal; longer ones than ``most_pages`` are split into jobs of
            that many (``ocr.split_pages``).
        page_seconds, page_sigma: of a page on one core, lognormal about this mean: 1.2 s were measured for a letter.
        classify_seconds: of the job that follows each document.
        failing: share of attempts that fail and are tried again.
    """

    tenants: int
    documents: int
    pages_median: float = 3.0
    pages_sigma: float = 1.0
    most_pages: int = 25
    page_seconds: float = 1.2
    page_sigma: float = 0.5
    classify_seconds: float = 0.05
    failing: float = 0.01

    def sizes(self) -> list[int]:
        """Documents of each tenant, the largest first, each with one at least."""
        total = math.fsum(1.0 / place for place in range(1, self.tenants + 1))
        return [max(1, round(self.documents / place / total)) for place in range(1, self.tenants + 1)]

    def job_pages(self, random: Random) -> int:
        """Pages of an ``ocr`` job."""
        pages = random.lognormvariate(math.log(self.pages_median), self.pages_sigma)
        return max(1, min(self.most_pages, round(pages)))

    def job_seconds(self, random: Random) -> float:
        """How long an ``ocr`` job takes."""
        location = math.log(self.page_seconds) - self.page_sigma**2 / 2  # so that the mean is page_seconds
        return self.job_pages(random) * random.lognormvariate(location, self.page_sigma)

    def mean_seconds(self, random: Random, sample: int = 20_000) -> float:
        """Mean of ``job_seconds``, of a sample."""
        return math.fsum(self.job_seconds(random) for _ in range(sample)) / sample


@dataclass(frozen=True, slots=True)
class Night:
    """All documents as a flow of constant rate: when the tenants are done, in seconds from the beginning."""

    seconds: float
    half_of_tenants: float
    most_of_tenants: float


def night(sizes: Sequence[int], documents_per_second: float) -> Night:
    """Round robin gives each tenant that still has documents the same rate, so the smallest are done first.

    The tenant of size s is done when every other tenant has had the lesser of its own size and s: (sum of min(size, s))
    / rate. ``most_of_tenants`` is when 99 of 100 are done.
    """
    ascending = sorted(sizes)
    sums = [0]
    for size in ascending:
        sums.append(sums[-1] + size)

    def done(place: int) -> float:
        size = ascending[place]
        smaller = bisect_left(ascending, size)
        return (sums[smaller] + (len(ascending) - smaller) * size) / documents_per_second

    count = len(ascending)
    return Night(done(count - 1), done((count - 1) // 2), done(max(0, math.ceil(0.99 * count) - 1)))
