"""The documents of the demo: three small archives, drawn afresh for every demo, and what is written in them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from batchproc.ops import drawing
from batchproc.ops.drawing.text import Language

DPI = 200
MANIFEST = "manifest.jsonl"
MARK = "demo"
"""What the external ids of the demo's documents begin with, before a colon."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How one page came out of the scanner; see ``drawing.letter``."""

    noise: float = 0.0
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A document to draw. Without pages it is a broken file, of which no text is known."""

    tenant: str
    name: str
    language: Language
    pages: tuple[Scan, ...]


@dataclass(frozen=True, slots=True)
class DemoDocument:
    """A drawn file. ``truth`` is the text of each page; none for the broken file."""

    tenant: str
    path: Path
    external_id: str
    truth: tuple[str, ...]

    @property
    def broken(self) -> bool:
        return not self.truth


PLANS = (
    Plan("demo-acme", "clean.png", "eng", (Scan(),)),
    Plan("demo-acme", "noisy.png", "eng", (Scan(noise=0.8),)),
    Plan("demo-acme", "crooked.png", "eng", (Scan(noise=0.3, skew=1.2),)),
    Plan("demo-museum", "letter.jpg", "eng", (Scan(noise=0.4, skew=-0.6),)),
    Plan("demo-museum", "briefe.tif", "deu", (Scan(), Scan(noise=0.5))),
    Plan("demo-stadtwerke", "akte.pdf", "deu", (Scan(), Scan(noise=0.5), Scan(skew=-1.0))),
    Plan("demo-stadtwerke", "brief.png", "deu", (Scan(noise=0.6, skew=0.8),)),
    Plan("demo-stadtwerke", "abgeschnitten.pdf", "deu", ()),
)
TENANTS = tuple(dict.fromkeys(plan.tenant for plan in PLANS))


def draw(folder: Path, seed: int) -> Iterator[DemoDocument]:
    """Draws all documents below ``folder``, one folder and manifest per tenant.

    Args:
        folder: empty; its name becomes part of the external ids, and so has to differ from demo to demo.
        seed: another seed gives other letters, so that nothing of an earlier demo is taken for a duplicate.
    """
    seeds = random.Random(seed)  # noqa: S311  # repeatable drawings, no secret
    for plan in PLANS:
        path = folder / plan.tenant / plan.name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        drawn = [
            drawing.letter(seeds.randrange(2**32), plan.language, dpi=DPI, noise=scan.noise, skew=scan.skew)
            for scan in plan.pages
        ]
        _save([page.image for page in drawn], path)
        if not drawn:
            with path.open("ab") as broken:
                broken.write(seeds.randbytes(16))  # another one each time, like the others
        document = DemoDocument(
            plan.tenant, path, f"{MARK}:{folder.name}:{plan.name}", tuple(page.text for page in drawn)
        )
        with (path.parent / MANIFEST).open("a") as manifest:
            line = {"path": plan.name, "external_id": document.external_id, "language": plan.language}
            manifest.write(json.dumps(line) + "\n")
        yield document


def _save(pages: Sequence[Image.Image], path: Path) -> None:
    if not pages:
        drawing.broken_pdf(path)
    elif path.suffix == ".pdf":
        drawing.pdf(pages, path, DPI)
    elif path.suffix == ".tif":
        more = {"save_all": True, "append_images": pages[1:]}
        pages[0].save(path, "TIFF", compression="tiff_adobe_deflate", dpi=(DPI, DPI), **more)
    elif path.suffix == ".jpg":
        pages[0].save(path, "JPEG", quality=80, dpi=(DPI, DPI))
    else:
        drawing.save_png(pages[0], path, DPI)
