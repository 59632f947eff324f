"""The archive of the scripted night: files of three tenants, drawn afresh, and what has to become of each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from batchproc.ops import drawing
from tests.drawing import text_pdf
from tests.night import hanging_page
from tests.ocr.encrypted import encrypted_pdf

TENANTS = ("acme", "museum", "stadtwerke")
DPI = 100
MAX_PIXELS = 2_000_000
"""For the setting ``ocr.bounds``: twice a letter, and half of a plan."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What a document ends as: its status and failure code, and its number of pages, None where nobody can tell."""

    status: str
    code: str | None
    pages: int | None


Make = Callable[[Path, int], None]


def letter(path: Path, seed: int) -> None:
    drawing.save_png(_page(seed), path, DPI)


def two_pages(path: Path, seed: int) -> None:
    drawing.pdf([_page(seed), _page(seed + 1)], path, DPI)


def with_text(path: Path, seed: int) -> None:
    text_pdf(f"Letter number {seed}\nabout the roof of the old town hall and what it costs", path)


def truncated(path: Path, seed: int) -> None:
    drawing.broken_pdf(path)
    with path.open("ab") as file:
        file.write(random.Random(seed).randbytes(16))  # another one each time, else it would be a duplicate


def renamed_text(path: Path, seed: int) -> None:
    path.write_text(f"This is number {seed} of the notes, and no picture.\n")


def encrypted(path: Path, seed: int) -> None:
    path.write_bytes(encrypted_pdf(f"Number {seed}", user=b"secret"))


def with_plan(path: Path, seed: int) -> None:
    """Its second page is too large to be read."""
    first = _page(seed)
    plan = first.resize((2 * first.width, 2 * first.height))
    first.save(path, "TIFF", compression="tiff_adobe_deflate", dpi=(DPI, DPI), save_all=True, append_images=[plan])


def empty(path: Path, seed: int) -> None:
    path.touch()


def with_hanging_page(path: Path, seed: int) -> None:
    """The second page of three hangs whenever it is recognised."""
    pages = [_page(seed), _page(seed + 1).resize((hanging_page.WIDTH, 1100)), _page(seed + 2)]
    drawing.pdf(pages, path, DPI)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A file to draw. ``rare``: in every third round alone, and else a letter, since no archive is half broken."""

    name: str
    make: Make
    fate: Fate
    rare: bool = False


_READ = Fate("completed", None, 1)
# What each tenant has again and again. The broken ones come first, so that also a night that is cut off meets some.
_ROUND = (
    _Plan("a-truncated.pdf", truncated, Fate("failed", "unreadable_file", None), rare=True),
    _Plan("b-notes.png", renamed_text, Fate("failed", "unsupported_type", None), rare=True),
    _Plan("c-locked.pdf", encrypted, Fate("failed", "encrypted", None), rare=True),
    _Plan("d-plan.tif", with_plan, Fate("partial", None, 2), rare=True),
    _Plan("e-letter.png", letter, _READ),
    _Plan("f-letter.pdf", two_pages, Fate("completed", None, 2)),
    _Plan("g-layer.pdf", with_text, _READ),
    _Plan("h-letter.png", letter, _READ),
)
_INSTEAD = {
    ("museum", "000-e-letter.png"): _Plan("empty.png", empty, Fate("failed", "empty_file", None)),
    ("acme", "000-f-letter.pdf"): _Plan("0-hangs.pdf", with_hanging_page, Fate("partial", None, 3)),
}
"""Of these there is one. What hangs is the first file of its folder, and so one of the first to be read."""


def draw(folder: Path, documents: int) -> Mapping[tuple[str, str], Fate]:
    """Draws a folder for each tenant; by tenant and path, what has to become of each file.

    Args:
        documents: how many in all, the same number for each tenant; with 24 each has one round.
    """
    fates: dict[tuple[str, str], Fate] = {}
    for tenant in TENANTS:
        (folder / tenant).mkdir(parents=True)
        plans = itertools.islice(_plans(tenant), documents // len(TENANTS))
        for number, plan in enumerate(plans):
            path = folder / tenant / plan.name
            # No two files are alike: the second would be a duplicate, and a page has a seed of its own.
            plan.make(path, 10 * number + TENANTS.index(tenant) * 100_000)
            fates[tenant, str(path)] = plan.fate
    return fates


def _plans(tenant: str) -> Iterator[_Plan]:
    """Without end."""
    for turn in itertools.count():
        for plan in _ROUND:
            name = f"{turn:03}-{plan.name}"
            if plan.rare and turn % 3:
                yield _Plan(f"{name}.png", letter, _READ)
            else:
                yield _INSTEAD.get((tenant, name), replace(plan, name=name))


def _page(seed: int) -> Image.Image:
    return drawing.letter(seed, dpi=DPI, paragraphs=1).image
