"""What came of a demo: per tenant, the broken file, and whatever should not have happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from batchproc.documents.store import Document
from batchproc.ocr.recall import word_recall
from batchproc.ops.demo.documents import TENANTS, DemoDocument

BROKEN_CODE = "unreadable_file"
GOOD_RECALL = 0.9


@dataclass(frozen=True, slots=True)
class Processed:
    """A drawn document and what the database has of it: text by pages, jobs that have not ended, seconds of work."""

    drawn: DemoDocument
    stored: Document | None = None
    pages: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    seconds: float = 0.0

    @property
    def recall(self) -> float:
        """The mean over the pages that were drawn of how much of their words was read, 0 to 1."""
        truths = self.drawn.truth
        texts = self.pages + ("",) * (len(truths) - len(self.pages))
        return fmean(word_recall(truth, text) for truth, text in zip(truths, texts, strict=False))


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant's part. ``word_recall`` is the mean over its pages; ``seconds`` is work, all workers together."""

    tenant: str
    documents: int
    pages: int
    word_recall: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Broken:
    """The broken file, and the code that it failed with, None if it did not."""

    tenant: str
    document_id: int | None
    path: str
    failure_code: str | None


@dataclass(frozen=True, slots=True)
class DemoReport:
    """``problems`` are sentences on what should not have happened; empty when all is well.

    ``example`` is a document with text.
    """

    tenants: tuple[TenantRow, ...]
    broken: tuple[Broken, ...]
    problems: tuple[str, ...]
    folder: Path
    workers: int
    seconds: float
    example: int | None

    def plain(self) -> dict[str, Any]:
        """The report under its stable keys."""
        return {
            "tenants": [asdict(row) for row in self.tenants],
            "broken": [asdict(broken) for broken in self.broken],
            "problems": list(self.problems),
            "folder": str(self.folder),
            "workers": self.workers,
            "seconds": round(self.seconds, 3),
        }


def report(processed: Sequence[Processed], folder: Path, workers: int, seconds: float) -> DemoReport:
    """Sums up. ``seconds`` is how long the demo took, drawing and all."""
    good = [one for one in processed if not one.drawn.broken]
    examples = (one.stored.document_id for one in good if one.stored is not None and one.pages)
    return DemoReport(
        tenants=tuple(_row(slug, [one for one in processed if one.drawn.tenant == slug]) for slug in TENANTS),
        broken=tuple(_broken(one) for one in processed if one.drawn.broken),
        problems=tuple(problem for one in processed for problem in _problems(one)),
        folder=folder,
        workers=workers,
        seconds=seconds,
        example=next(examples, None),
    )


def _row(slug: str, processed: Sequence[Processed]) -> TenantRow:
    good = [one for one in processed if not one.drawn.broken]
    return TenantRow(
        tenant=slug,
        documents=sum(one.stored is not None for one in processed),
        pages=sum(one.stored.page_count or 0 for one in good if one.stored is not None),
        word_recall=round(fmean((one.recall for one in good), (len(one.drawn.truth) for one in good)), 4),
        seconds=round(sum(one.seconds for one in processed), 2),
    )


def _broken(one: Processed) -> Broken:
    stored = one.stored
    document_id, code = (None, None) if stored is None else (stored.document_id, stored.failure_code)
    return Broken(one.drawn.tenant, document_id, str(one.drawn.path), code)


def _problems(one: Processed) -> Iterator[str]:
    name = f"{one.drawn.tenant}/{one.drawn.path.name}"
    if one.stored is None:
        yield f"{name} was not imported"
        return
    what = f"document {one.stored.document_id} ({name})"
    if one.waiting:
        yield f"{what} is not done: see batchproc jobs show {one.waiting[0]}"
    elif one.drawn.broken:
        if one.stored.failure_code != BROKEN_CODE:
            yield f"{what} is broken, but ended {one.stored.status} {one.stored.failure_code or ''}".rstrip()
    elif one.stored.status != "completed" or one.stored.failure_code is not None:
        yield (
            f"{what} ended {one.stored.status} {one.stored.failure_code or ''}".rstrip()
            + f": see batchproc documents show {one.stored.document_id}, and batchproc doctor"
        )
    elif one.stored.page_count != len(one.drawn.truth):
        yield f"{what} has {one.stored.page_count} pages instead of {len(one.drawn.truth)}"
    elif one.recall < GOOD_RECALL:
        yield f"{what}: only {one.recall:.0%} of its words were read, at least {GOOD_RECALL:.0%} was expected"
