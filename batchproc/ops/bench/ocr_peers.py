"""The programs that ``bench ocr --peers`` measures beside batchproc, where they are installed.

- ``tesseract``: one command for each page, as many at a time as there are workers, each with one thread, with the
  language files that batchproc uses.
- ``ocrmypdf --jobs N``: one command for a PDF of all pages, as people start it: PDF/A and a light optimisation are its
  defaults, rotation and deskewing are not; with the language files of its own installation.
- ``ocrmypdf-files``: one command for each page, like batchproc's one document for each, as many at a time as there are
  workers.

Each command runs in a process group of its own, which is killed when it takes too long.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from PIL import Image

from batchproc.core.errors import EnvironmentFault
from batchproc.ops import drawing
from batchproc.ops.bench.loop import DPI
from batchproc.ops.bench.ocr_pages import Page, Side, recall

# Many times what a slow machine takes.
PAGE_SECONDS: Final = 60.0
_VERSION_SECONDS: Final = 60.0
_COMPLAINT: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class Order:
    """What a peer is to do: read pages, in languages whose files are in ``tessdata``, so many at a time."""

    pages: tuple[Page, ...]
    languages: tuple[str, ...]
    tessdata: Path
    workers: int


class Peer(Protocol):
    """A program to measure."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def read(self, order: Order) -> Side:
        """Reads the pages, and says how fast.

        Raises:
            EnvironmentFault: it failed, or took too long.
        """


def installed_peers() -> dict[str, Peer | None]:
    """By name; None for one that is not on PATH or does not start."""
    plain = _ocrmypdf()
    return {
        "tesseract": _tesseract(),
        "ocrmypdf": plain,
        "ocrmypdf-files": plain and OcrmypdfFiles(plain.program, plain.version),
    }


@dataclass(frozen=True, slots=True)
class TesseractCommand:
    """See `Peer`."""

    program: str
    version: str
    name: str = "tesseract"

    def read(self, order: Order) -> Side:
        with (
            tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder,
            ThreadPoolExecutor(order.workers) as pool,
        ):
            outputs = [Path(folder) / f"{number}" for number in range(len(order.pages))]
            started = time.monotonic()
            list(pool.map(lambda page, output: self._read(order, page, output), order.pages, outputs))
            seconds = time.monotonic() - started
            texts = [output.with_suffix(".txt").read_text("utf-8") for output in outputs]
        return Side(len(order.pages) / seconds, recall(order.pages, texts), 0)

    def _read(self, order: Order, page: Page, output: Path) -> None:
        data = ("--tessdata-dir", str(order.tessdata), "-l", "+".join(order.languages))
        command = (self.program, str(page.path), str(output), *data, "--dpi", str(DPI), "--psm", "3", "--oem", "1")
        run(command, PAGE_SECONDS, {"OMP_THREAD_LIMIT": "1"})


@dataclass(frozen=True, slots=True)
class Ocrmypdf:
    """See `Peer`."""

    program: str
    version: str
    name: str = "ocrmypdf"

    def read(self, order: Order) -> Side:
        with tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder:
            source = Path(folder) / "all.pdf"
            drawing.pdf([_pixels(page.path) for page in order.pages], source, DPI)
            started = time.monotonic()
            text = _with_ocrmypdf(self.program, order, source, jobs=order.workers)
            seconds = time.monotonic() - started
        return Side(len(order.pages) / seconds, recall(order.pages, text.split("\f")[: len(order.pages)]), 0)


@dataclass(frozen=True, slots=True)
class OcrmypdfFiles:
    """See `Peer`."""

    program: str
    version: str
    name: str = "ocrmypdf-files"

    def read(self, order: Order) -> Side:
        with (
            tempfile.TemporaryDirectory(prefix="batchproc-bench-") as folder,
            ThreadPoolExecutor(order.workers) as pool,
        ):
            sources = [Path(folder) / f"{number}.pdf" for number in range(len(order.pages))]
            for page, source in zip(order.pages, sources, strict=True):
                drawing.pdf([_pixels(page.path)], source, DPI)
            started = time.monotonic()
            texts = list(pool.map(lambda source: _with_ocrmypdf(self.program, order, source, jobs=1), sources))
            seconds = time.monotonic() - started
        return Side(len(order.pages) / seconds, recall(order.pages, texts), 0)


def _with_ocrmypdf(program: str, order: Order, source: Path, *, jobs: int) -> str:
    """The text of a PDF's pages, with a form feed between them."""
    target, sidecar = source.with_suffix(".out.pdf"), source.with_suffix(".txt")
    options = ("--jobs", str(jobs), "-l", "+".join(order.languages), "--quiet", "--sidecar", str(sidecar))
    run((program, *options, str(source), str(target)), PAGE_SECONDS * len(order.pages), {})
    return sidecar.read_text("utf-8")


def run(command: Sequence[str], limit: float, environment: Mapping[str, str]) -> str:
    """What a command prints, standard output and error; its whole process group is gone afterwards.

    Raises:
        EnvironmentFault: it failed, or did not end within ``limit`` seconds.
    """
    name = Path(command[0]).name
    with subprocess.Popen(  # noqa: S603 - a program found on PATH, our own arguments, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"{name} did not end within {limit:.0f} seconds", "try fewer --pages") from None
        finally:
            # Also when it has ended itself: what it started may go on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        complaint = printed.strip()[-_COMPLAINT:] or "it said nothing"
        raise EnvironmentFault(f"{name} ended with {process.returncode}: {complaint}", "leave out --peers, or mend it")
    return printed


def _tesseract() -> Peer | None:
    found = _started("tesseract")
    return TesseractCommand(*found) if found is not None else None


def _ocrmypdf() -> Ocrmypdf | None:
    """Without the tesseract command it starts, but reads nothing."""
    found = _started("ocrmypdf") if shutil.which("tesseract") else None
    return Ocrmypdf(*found) if found is not None else None


def _started(name: str) -> tuple[str, str] | None:
    """Its path, and the version that it prints."""
    program = shutil.which(name)
    if program is None:
        return None
    try:
        printed = run((program, "--version"), _VERSION_SECONDS, {})
    except (EnvironmentFault, OSError):
        return None
    first = printed.strip().splitlines()[0] if printed.strip() else "?"
    return program, first.removeprefix(name).strip()


def _pixels(path: Path) -> Image.Image:
    with Image.open(path) as image:
        image.load()
        return image.copy()
