"""The real OCR, with a note of its worker's resident size after each page; imported by workers through ``handlers``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from batchproc.handlers.context import Context, ProgressSink
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.registry import handler
from batchproc.ocr.errors import FAILURE_CODES

_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class WatchedArgs(OcrArgs):
    """`sizes`: a file that gets a line for each page: the worker's process id and its resident size in KiB."""

    sizes: str


@handler("watched_ocr", timeout=1800, stall_timeout=120, failure_codes=FAILURE_CODES)
def watched_ocr(ctx: Context, args: WatchedArgs) -> OcrResult:
    ctx.sink = _Watched(ctx.sink, Path(args.sizes))
    result = ocr(ctx, OcrArgs.model_validate(args.model_dump(exclude={"sizes"})))
    assert isinstance(result, OcrResult), "the settings leave it in one piece"
    return result


@dataclass
class _Watched:
    sink: ProgressSink
    sizes: Path

    def set(self, done: int, total: int) -> None:
        self.sink.set(done, total)

    def beat(self) -> None:
        self.sink.beat()

    def checkpoint(self) -> None:
        self.sink.checkpoint()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB
        with self.sizes.open("a") as file:
            file.write(f"{os.getpid()} {resident}\n")

    def stopping(self) -> bool:
        return self.sink.stopping()
