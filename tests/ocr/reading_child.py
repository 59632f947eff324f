"""Reads the first pages of files in a process of limited address space: `python -m tests.ocr.reading_child FILE...`

Prints a line of JSON for each: the file's name, what came of it, seconds of processor time, the peak of resident memory
in KiB so far. The first line is about none of them.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from contextlib import closing
from pathlib import Path

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.source import open_source

ADDRESS_SPACE = 1 << 30
PAGES = 3


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    _print("", [])
    for name in sys.argv[1:]:
        _print(name, _read(Path(name)))


def _read(file: Path) -> list[str]:
    """The failure of the document alone, or of each page, `read` for one that has none."""
    found = []
    try:
        with file.open("rb") as opened, closing(open_source(opened.fileno(), bounds=Bounds())) as source:
            for index in range(min(PAGES, source.page_count)):
                try:
                    page = source.page(index)
                    page.text_layer()
                    page.image(300)
                    found.append("read")
                except OcrFailure as failure:
                    found.append(failure.code)
    except OcrFailure as failure:
        return [failure.code]
    return found


def _print(name: str, outcome: list[str]) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.process_time()
    print(json.dumps([Path(name).name, outcome, round(seconds, 2), usage.ru_maxrss]), flush=True)  # noqa: T201  # that is what it is for


if __name__ == "__main__":
    main()
