"""Fixtures of the fault tests: a database that must be sound in the end, and nothing left on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.running import Bench, bench_on
from tests.faults.invariants import assert_left_alone, assert_sound
from tests.faults.left_behind import nothing_left_behind


@pytest.fixture
def temp_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """TMPDIR of the test and all it starts; nothing may be left in it, nor any process, thread or descriptor."""
    tmp_path_factory.getbasetemp()  # else the first ``tmp_path`` would make its folder in here
    with nothing_left_behind() as folder:
        yield folder


@pytest.fixture
def bench(database_url: str, temp_folder: Path) -> Iterator[Bench]:
    """A fresh database to run nodes on; when the test is over its invariants hold and nobody uses it any more."""
    made = bench_on(database_url)
    try:
        yield made
        assert_sound(made.connection)
        assert_left_alone(made.connection)
    finally:
        made.connection.close()
