"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

pytest_plugins = ["tests.database", "tests.faults.corpus_untouched", "tests.mounts"]

# On a machine that does other things as well an example may take any time, and that is no fault of what is tested.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")


@pytest.fixture(autouse=True)
def _no_log_outlives_its_test() -> Iterator[None]:
    """A sink that a test set up would write to a stream that is closed by then."""
    yield
    logger.remove()
