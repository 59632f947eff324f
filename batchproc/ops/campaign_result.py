"""What a campaign, or a run, made of the texts that its documents had before: plain values, and a few lines of text."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.counted import counted
from batchproc.core.keep import Verdict
from batchproc.documents.readings import Reading, Readings

STEPS = (2, 5, 10)
"""Points of confidence that tell changes apart: of less than the first, from each to less than the next, and more."""
SAME = len(STEPS) + 1
"""The class of those that did not change; below it are those that went down, the most first, above it those that went
up, the most last."""
MOST_CHANGED = 10
"""Documents that are named for having lost, or gained, the most words."""
DIGITS = 1
"""Confidences are the same that do not differ when they are shown."""


@dataclass(slots=True)
class Confidences:
    """Documents whose confidence went up, down, or is the same to one digit, and the points of those that changed.

    ``unknown``: before or after no word was recognised, as where the text is the file's own. ``comparable`` of the
    others were read by one engine with the same data both times; otherwise confidences are not of one scale.
    ``changes`` count the comparable ones, and ``changes_of_others`` the others, by how much they changed: in the
    classes of `STEPS`, those that went down by 10 or more first.
    """

    up: int = 0
    down: int = 0
    same: int = 0
    unknown: int = 0
    comparable: int = 0
    points_up: float = 0.0
    points_down: float = 0.0
    changes: list[int] = field(default_factory=lambda: [0] * (2 * SAME + 1))
    changes_of_others: list[int] = field(default_factory=lambda: [0] * (2 * SAME + 1))

    @property
    def measured(self) -> int:
        """The documents that had a confidence both times."""
        return self.up + self.down + self.same

    def add(self, reading: Reading) -> None:
        before, after = reading.before_confidence, reading.confidence
        if before is None or after is None:
            self.unknown += 1
            return
        change = round(round(after, DIGITS) - round(before, DIGITS), DIGITS)
        self.up += change > 0
        self.down += change < 0
        self.same += change == 0
        self.points_up += max(change, 0.0)
        self.points_down -= min(change, 0.0)
        self.comparable += reading.comparable
        (self.changes if reading.comparable else self.changes_of_others)[_class_of(change)] += 1


@dataclass(slots=True)
class CampaignResult:
    """Sums over the documents that were read to their end; what failed before that is not among them.

    ``first_texts``: documents that had no text before. All that compares is about the others: ``confidences``, the
    words before, gained and lost (see `documents.diff.WordDiff`), the failed pages before and after. ``verdicts`` count
    all documents, ``became_current`` those whose reading did so, ``current`` those of which it is now: less after a
    revert, a restore or a later reading. ``seconds`` are those of workers spent on pages. ``most_lost`` and
    ``most_gained`` are the documents to look at first, worst first.
    """

    documents: int = 0
    pages: int = 0
    first_texts: int = 0
    became_current: int = 0
    current: int = 0
    pilots: int = 0
    seconds: float = 0.0
    words_before: int = 0
    words_gained: int = 0
    words_lost: int = 0
    first_words: int = 0
    failed_before: int = 0
    failed_after: int = 0
    confidences: Confidences = field(default_factory=Confidences)
    verdicts: Counter[str] = field(default_factory=Counter)
    most_lost: list[Reading] = field(default_factory=list)
    most_gained: list[Reading] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """The documents that had a text before."""
        return self.documents - self.first_texts

    @property
    def is_pilot(self) -> bool:
        """Whether all of it was only read to be looked at."""
        return 0 < self.documents == self.pilots


def of_campaign(connection: Connection[TupleRow], schema: str, campaign_id: int) -> CampaignResult:
    """What a campaign made of its documents' texts so far; readings of releases before this are not counted."""
    return collected(Readings(schema).of(connection, "campaign", campaign_id))


def of_run(connection: Connection[TupleRow], schema: str, run_id: int) -> CampaignResult:
    """What a run made of the texts of the documents it completed; as `of_campaign`."""
    return collected(Readings(schema).of(connection, "run", run_id))


def collected(readings: Iterable[Reading]) -> CampaignResult:
    """Sums up readings, each of another document; of any number of them a few stay in memory."""
    result = CampaignResult()
    lost: list[tuple[int, int, Reading]] = []
    gained: list[tuple[int, int, Reading]] = []
    for reading in readings:
        _add(result, reading)
        if reading.before_revision is not None:
            _keep(lost, reading.words_lost, reading)
            _keep(gained, reading.words_gained, reading)
    result.most_lost, result.most_gained = _sorted(lost), _sorted(gained)
    return result


def _add(result: CampaignResult, reading: Reading) -> None:
    result.documents += 1
    result.pages += reading.page_count
    result.seconds += reading.seconds
    result.current += reading.current
    result.verdicts[reading.verdict] += 1
    # One that was restored or reverted to since had become current as well.
    result.became_current += Verdict(reading.verdict).is_current
    result.pilots += reading.verdict == Verdict.PILOT
    if reading.before_revision is None:
        result.first_texts += 1
        result.first_words += reading.words_gained - reading.words_lost
        return
    result.words_before += reading.before_words
    result.words_gained += reading.words_gained
    result.words_lost += reading.words_lost
    result.failed_before += reading.before_failed or 0
    result.failed_after += reading.failed_pages
    result.confidences.add(reading)


def _keep(most: list[tuple[int, int, Reading]], words: int, reading: Reading) -> None:
    if words == 0:
        return
    entry = (words, -reading.document_id, reading)
    if len(most) < MOST_CHANGED:
        heapq.heappush(most, entry)
    else:
        heapq.heappushpop(most, entry)


def _sorted(most: list[tuple[int, int, Reading]]) -> list[Reading]:
    return [reading for _, _, reading in sorted(most, key=lambda entry: entry[:2], reverse=True)]


def _class_of(change: float) -> int:
    if not change:
        return SAME
    size = 1 + bisect_right(STEPS, abs(change))
    return SAME + size if change > 0 else SAME - size


def plain(result: CampaignResult) -> dict[str, Any]:
    """The result under stable keys, for ``--json``."""
    confidences = result.confidences
    return {
        "documents": result.documents,
        "pages": result.pages,
        "first_texts": result.first_texts,
        "compared": result.compared,
        "became_current": result.became_current,
        "current": result.current,
        "pilots": result.pilots,
        "seconds": round(result.seconds, 3),
        "confidence": {
            "up": confidences.up,
            "down": confidences.down,
            "same": confidences.same,
            "unknown": confidences.unknown,
            "comparable": confidences.comparable,
            "points_up": round(confidences.points_up, DIGITS),
            "points_down": round(confidences.points_down, DIGITS),
            "changes": confidences.changes,
            "changes_of_others": confidences.changes_of_others,
        },
        "words": {
            "before": result.words_before,
            "gained": result.words_gained,
            "lost": result.words_lost,
            "first": result.first_words,
        },
        "failed_pages": {"before": result.failed_before, "after": result.failed_after},
        "verdicts": dict(sorted(result.verdicts.items())),
        "most_lost": [_plain_reading(reading) for reading in result.most_lost],
        "most_gained": [_plain_reading(reading) for reading in result.most_gained],
    }


def _plain_reading(reading: Reading) -> dict[str, Any]:
    return {
        "document_id": reading.document_id,
        "tenant": reading.tenant,
        "before": reading.before_revision,
        "revision": reading.revision_id,
        "words_gained": reading.words_gained,
        "words_lost": reading.words_lost,
        "confidence_before": reading.before_confidence,
        "confidence": reading.confidence,
    }


def lines(result: CampaignResult) -> list[str]:
    """The result in a few lines of at most 80 columns; none before a document was read."""
    if not result.documents:
        return []
    text = [_head(result)]
    if result.first_texts:
        text.append(f"first texts   {counted(result.first_texts, 'document')}, {counted(result.first_words, 'word')}")
    if not result.compared:
        return text
    words = f"{result.words_gained:,} gained, {result.words_lost:,} lost of {result.words_before:,}"
    text.append(f"words         {words}")
    text += _confidence_lines(result.confidences)
    if result.failed_before or result.failed_after:
        text.append(f"failed pages  {result.failed_before:,} before, {result.failed_after:,} after")
    return text


def _head(result: CampaignResult) -> str:
    head = f"read          {counted(result.documents, 'document')}, {counted(result.pages, 'page')}"
    if result.is_pilot:
        return f"{head}, as a pilot: none became current"
    head += f"; {result.became_current:,} became current"
    return head if result.current == result.became_current else f"{head}, {result.current:,} still are"


def _confidence_lines(confidences: Confidences) -> list[str]:
    if not confidences.measured:
        return []
    up = f"up {confidences.up:,}" + _mean(confidences.points_up, confidences.up, "+")
    down = f"down {confidences.down:,}" + _mean(confidences.points_down, confidences.down, "-")
    text = [f"confidence    {up}, {down}, same {confidences.same:,}"]
    if (other := confidences.measured - confidences.comparable) > 0:
        text.append(f"              {other:,} of them by another engine or data: not one scale")
    return text


def _mean(points: float, documents: int, sign: str) -> str:
    return f" ({sign}{points / documents:.1f})" if documents else ""
