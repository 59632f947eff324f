"""A kind whose job stays at a page until a test lets it go on; for those who watch it meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler

MODULE = __name__


class Waiting(BaseModel, extra="forbid"):
    """``gate``: a file; the handler ends when it is there."""

    gate: str


@handler("w_pages", timeout=100)
def pages(ctx: Context, args: Waiting) -> None:
    """Is at page 17 of 40 until then."""
    ctx.progress(17, 40)
    while not Path(args.gate).exists():
        time.sleep(0.02)
