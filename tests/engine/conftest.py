"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.running import Bench, bench_on
from tests.engine.stepped import stepped as stepped


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    """A fresh database to run a node on."""
    made = bench_on(database_url)
    yield made
    made.connection.close()
