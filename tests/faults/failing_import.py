"""A handler module that counts how often it is imported, and fails from the import that the test names."""

from __future__ import annotations

import os
from pathlib import Path

from batchproc.handlers.context import Context
from batchproc.handlers.registry import handler

FOLDER, GOOD = "BATCHPROC_TEST_IMPORTS", "BATCHPROC_TEST_GOOD_IMPORTS"
"""Environment variables: where the count is kept, and how many imports succeed."""

if FOLDER in os.environ:
    _imports = Path(os.environ[FOLDER]) / "imports"
    with _imports.open("a") as _file:
        _file.write(f"{os.getpid()}\n")
    if len(_imports.read_text().split()) > int(os.environ[GOOD]):
        raise RuntimeError("the licence server does not answer")


@handler("w_imported")
def imported(_: Context) -> None:
    """Does nothing."""
