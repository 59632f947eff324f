"""What ``bench ocr`` has read: drawn letters, the same for every side, and how a side did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from batchproc.core.errors import EnvironmentFault
from batchproc.ocr.recall import word_recall
from batchproc.ops import drawing
from batchproc.ops.bench.loop import DPI

_WARM_UP_SEED = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """A drawn page: the file and what is written on it."""

    path: Path
    truth: str


@dataclass(frozen=True, slots=True)
class Pages:
    """What is read: a warm-up page for each worker, and the measured ones."""

    warm_up: tuple[Page, ...]
    measured: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a run. ``preloaded`` counts the processes that had their engine loaded before the clock started."""

    pages_per_second: float
    word_recall: float
    preloaded: int


def draw(folder: Path, pages: int, workers: int) -> Pages:
    """English and German letters by turns.

    Raises:
        EnvironmentFault: there is no room for them.
    """
    try:
        warm_up = tuple(_page(folder / f"warm-up-{n}.png", _WARM_UP_SEED + n, paragraphs=1) for n in range(workers))
        return Pages(warm_up, tuple(_page(folder / f"page-{n:04}.png", n) for n in range(pages)))
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write drawn pages into {folder}: {error.strerror}",
            "make room there (half a MB a page), or set TMPDIR",
        ) from None


def share(pages: Sequence[Page], number: int, shares: int) -> Sequence[Page]:
    """One of so many parts, with as many letters of either language in each."""
    return pages[number * len(pages) // shares : (number + 1) * len(pages) // shares]


def recall(pages: Sequence[Page], texts: Sequence[str]) -> float:
    """The mean word recall of so many texts."""
    return fmean(word_recall(page.truth, text) for page, text in zip(pages, texts, strict=True))


def _page(path: Path, seed: int, **options: Any) -> Page:
    drawn = drawing.letter(seed, "deu" if seed % 2 else "eng", dpi=DPI, **options)
    drawing.save_png(drawn.image, path, DPI)
    return Page(path, drawn.text)
