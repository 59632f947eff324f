"""Public test files that are not part of the project, what must come of each, and what does.

`python -m tests.ocr.corpus` prints it as a table and exits with 1 if anything is not as it must be. The folder is
`$BATCHPROC_TEST_CORPUS`, else `shared/corpus` beside the repository.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.page_text import PageOptions, PageText, read_page
from batchproc.ocr.pages import Source
from batchproc.ocr.recall import word_recall
from batchproc.ocr.source import open_source
from batchproc.ocr.tesseract import TesseractEngine

REPOSITORY = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("BATCHPROC_TEST_CORPUS", REPOSITORY.parent / "shared" / "corpus"))
SKIP = PageOptions(("eng", "deu"))
REDO = PageOptions(("eng", "deu"), mode="redo")


@dataclass(frozen=True)
class Row:
    """A file, and what must come of it.

    Attributes:
        pages: the state of each page, or instead the failure's code; or the code alone for the document.
        truth: a file of the corpus with its text, or of one whose text layer is that.
        recall: the least of the words of the truth on each page.
        turns: degrees by which each page is found to be turned, where that is to be found.
        mode: how text layers are treated.
        slow: it takes several seconds.
    """

    name: str
    pages: tuple[str, ...] | str
    truth: str | None = None
    recall: float = 0.0
    turns: tuple[int, ...] | None = None
    flags: tuple[str, ...] = ()
    mode: str = "skip"
    slow: bool = False


OCR, TEXT, BLANK, BROKEN = ("ocr",), ("text",), ("blank",), "unreadable_file"

ROWS = (
    Row("phototest.tif", OCR, "phototest.gold.txt", 0.99, (0,)),
    Row("phototest-rotated-180.png", OCR, "phototest.gold.txt", 0.95, (180,)),
    Row("8087_054.3B.tif", OCR, "8087_054.3B.txt", 0.94, (0,)),
    Row("eurotext.tif", OCR, "eurotext.txt", 0.85, (0,)),
    Row("linn.pdf", OCR, "linn.txt", 0.95, (0,)),
    Row("ccitt.pdf", OCR, "linn.txt", 0.95, (0,), slow=True),
    Row("jbig2.pdf", OCR, "linn.txt", 0.95, (0,), slow=True),
    Row("skew.pdf", OCR, "linn.txt", 0.9, slow=True),
    Row("cardinal.pdf", OCR * 4, "linn.txt", 0.95, (0, 270, 180, 90), slow=True),
    Row("multipage.pdf", ("ocr", "ocr", "ocr", "text", "ocr", "ocr"), slow=True),
    Row("graph_ocred.pdf", TEXT, "graph_ocred.pdf", 1.0),
    Row("tagged.pdf", TEXT * 2),
    Row("letter-de.pdf", TEXT, "letter-de.pdf", 1.0),
    Row("letter-en.pdf", TEXT, "letter-en.pdf", 1.0),
    Row("letter-de.pdf", OCR, "letter-de.pdf", 0.95, mode="redo"),
    Row("letter-en.pdf", OCR, "letter-en.pdf", 0.95, mode="redo"),
    Row("jfif.jpg", OCR, "letter-en.pdf", 0.98),
    Row("truetype_font_nomapping.pdf", OCR),
    Row("multi-page-mixed.pdf", OCR * 3 + TEXT * 3),
    Row("single-page-mixed.pdf", OCR + TEXT),
    Row("no_contents.pdf", BLANK),
    Row("multi-page-images.tiff", OCR * 3),
    Row("simple-no-dpi.png", OCR),
    Row("francais.pdf", OCR),
    Row("rtl-test.pdf", TEXT),
    Row("baiona_cmyk.jpg", OCR),
    Row("12in16bit.tif", BLANK),  # noise in the lowest 30 of 65,536 levels
    Row("signed.pdf", OCR, "signed.pdf", 1.0, flags=("signed",)),  # it has images besides
    Row("livecycle.pdf", BLANK, flags=("xfa",)),
    Row("xref_command_missing.pdf", TEXT),
    Row("circular-page-tree.pdf", ("blank", BROKEN, BROKEN)),
    Row("multipage_single_frame_loop.tiff", BLANK),
    Row("password-is-test.pdf", "encrypted"),
    Row("20K-gray.png", "too_large"),
    Row("decompression_bomb.gif", "too_large"),
    Row("poppler-85140-0.pdf", "too_large"),
    Row("invalid.pdf", BROKEN),
    Row("half.pdf", BROKEN),
    Row("zero-byte.pdf", "empty_file"),
    Row("text-named.pdf", "unsupported_type"),
)


@dataclass(frozen=True)
class Found:
    """What came of a file: of each page the text or the failure's code, or the code of the document."""

    pages: tuple[PageText | str, ...] | str
    flags: tuple[str, ...] = ()

    @property
    def states(self) -> tuple[str, ...] | str:
        if isinstance(self.pages, str):
            return self.pages
        return tuple(page if isinstance(page, str) else page.state for page in self.pages)

    @property
    def texts(self) -> list[PageText]:
        return [page for page in self.pages if isinstance(page, PageText)]


@contextmanager
def opened(name: str) -> Iterator[Source]:
    with (CORPUS / name).open("rb") as file, closing(open_source(file, bounds=Bounds())) as source:
        yield source


def read(engine: TesseractEngine, name: str, options: PageOptions = SKIP) -> Found:
    try:
        with opened(name) as source:
            return Found(
                tuple(_page(source, index, engine, options) for index in range(source.page_count)), source.flags
            )
    except OcrFailure as failure:
        return Found(failure.code)


def _page(source: Source, index: int, engine: TesseractEngine, options: PageOptions) -> PageText | str:
    try:
        return read_page(source.page(index), engine, options)
    except OcrFailure as failure:
        return failure.code


def layer(name: str) -> str:
    with opened(name) as source:
        found = source.page(0).text_layer()
    assert found is not None
    return found.text


def recall_of(row: Row, found: Found) -> float | None:
    """The least of the pages; None when there is no truth."""
    if row.truth is None or not found.texts:
        return None
    true = layer(row.truth) if row.truth.endswith(".pdf") else (CORPUS / row.truth).read_text(encoding="utf-8")
    return min(word_recall(true, page.text) for page in found.texts)


def problems(row: Row, found: Found) -> list[str]:
    """What is not as it must be."""
    told = []
    if found.states != row.pages:
        told.append(f"pages are {found.states}, not {row.pages}")
    if found.flags != row.flags:
        told.append(f"flags are {found.flags}, not {row.flags}")
    recall = recall_of(row, found)
    if recall is not None and recall < row.recall:
        told.append(f"recall is {recall:.3f}, less than {row.recall}")
    turns = tuple(page.rotation for page in found.texts)
    if row.turns is not None and turns != row.turns:
        told.append(f"turns are {turns}, not {row.turns}")
    if any(page.state != "blank" and not page.text.strip() for page in found.texts):
        told.append("a page that is not blank has no text")
    return told


def line(row: Row, found: Found) -> str:
    """A line of the table."""
    name = row.name if row.mode == "skip" else f"{row.name} ({row.mode})"
    outcome = found.states if isinstance(found.states, str) else " ".join(found.states)
    recall = recall_of(row, found)
    turns = " ".join(str(page.rotation) for page in found.texts if page.state == "ocr")
    dpi = " ".join(f"{page.dpi}{'?' if page.dpi_estimated else ''}" for page in found.texts if page.state == "ocr")
    seconds = sum(page.seconds for page in found.texts)
    cells = [f"{name:34}", f"{outcome:38}", "     " if recall is None else f"{recall:.3f}", f"{seconds:6.2f}"]
    return "  ".join([*cells, f"{turns:12}", f"{dpi:12}", ",".join(found.flags)]).rstrip()


HEAD = f"{'file':34}  {'outcome':38}  recall seconds turned        dpi           flags"


def listed() -> set[str]:
    """The files that the corpus's own description has a row for."""
    rows = re.findall(r"^\| ([^|]+?) \|", (CORPUS / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name for row in rows[1:] for name in row.split(", ") if not name.startswith("-")}


def main() -> int:
    engine = TesseractEngine()
    wrong = []
    print(HEAD)  # noqa: T201
    for row in ROWS:
        found = read(engine, row.name, REDO if row.mode == "redo" else SKIP)
        print(line(row, found), flush=True)  # noqa: T201
        wrong += [f"{row.name}: {problem}" for problem in problems(row, found)]
    print(*wrong, f"{len(ROWS)} files, {len(wrong)} problems", sep="\n")  # noqa: T201
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
