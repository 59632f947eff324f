"""The engine, loaded once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batchproc.ocr.tesseract import TesseractEngine


@pytest.fixture(scope="session")
def engine() -> Iterator[TesseractEngine]:
    loaded = TesseractEngine()
    yield loaded
    loaded.close()
