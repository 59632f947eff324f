"""The kind that the chaos command runs: it does nothing but say that it ran."""

from __future__ import annotations

import os
from pathlib import Path

from batchproc.engine.pool.process_tree import MARKER_VARIABLE
from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler

LEDGER_VARIABLE = "BATCHPROC_TEST_LEDGER"
"""The folder of the executions, in the environment of the nodes."""

KIND = "t_chaos"
# A random victim of so many kills must never be taken for poison; the settings' largest number.
ENDLESS = 1000

_file: int | None = None


@handler(KIND, timeout=60, max_attempts=ENDLESS, max_crashes=ENDLESS, base=0.05, cap=0.2)
def chaos(ctx: Context) -> None:
    """Appends job and claim to a file named for this worker: one write, which no kill can cut in two."""
    global _file
    if _file is None:
        path = Path(os.environ[LEDGER_VARIABLE], os.environ[MARKER_VARIABLE])
        _file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(_file, f"{ctx.job_id} {ctx.claim_id}\n".encode())
