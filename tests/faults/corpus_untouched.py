"""The corpus of real files, where it is, is the same after the tests as before: its bytes, modes and times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.originals import prints

CORPUS = Path(os.environ.get("BATCHPROC_TEST_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


@pytest.fixture(scope="session", autouse=True)
def _corpus_untouched() -> Iterator[None]:
    before = prints(CORPUS) if CORPUS.is_dir() else {}
    yield
    after = prints(CORPUS) if before else {}
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, f"originals were changed by the tests: {changed}"
