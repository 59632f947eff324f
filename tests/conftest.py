"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loguru import logger

pytest_plugins = ["tests.database", "tests.faults.corpus_untouched", "tests.mounts"]


@pytest.fixture(autouse=True)
def _no_log_outlives_its_test() -> Iterator[None]:
    """A sink that a test set up would write to a stream that is closed by then."""
    yield
    logger.remove()
