from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.settings import OcrBounds
from tests.ocr.bombs import BOMBS
from tests.ocr.reading import fails_as

REPOSITORY = Path(__file__).parents[2]
A3_AT_600 = (7016, 9921)


def test_a_fine_a3_scan_fits_and_four_hundred_megapixels_do_not() -> None:
    Bounds().check_pixels(*A3_AT_600)
    with fails_as("too_large"):
        Bounds().check_pixels(20_000, 20_000)
    with fails_as("too_large"):
        Bounds().check_pixels(40_000, 10)


def test_the_defaults_are_those_of_the_settings() -> None:
    settings = OcrBounds().model_dump()
    assert {name: getattr(Bounds(), name) for name in settings} == settings


def test_a_sheet_is_rendered_as_asked_or_up_to_a_third_coarser() -> None:
    bounds = Bounds(max_pixels=8_415_000)  # letter at 300 dpi, to the pixel
    assert bounds.render_size(612, 792, 300) == (2550, 3300, 300)
    width, height, dpi = bounds.render_size(792, 1224, 300)
    assert 200 <= dpi < 300
    assert width * height <= 8_415_000
    with fails_as("too_large"):
        bounds.render_size(1224, 1584, 300)


@pytest.mark.parametrize("height", [2_147_483_648.0, 1e300])
def test_an_absurd_sheet_is_too_large(height: float) -> None:
    with fails_as("too_large"):
        Bounds().render_size(595, height, 300)


@pytest.mark.parametrize("size", [0.0, -5.0, math.nan, math.inf])
def test_a_sheet_without_size_is_unreadable(size: float) -> None:
    with fails_as("unreadable_file"):
        Bounds().render_size(size, 100, 300)


def test_a_document_is_refused_only_when_no_page_can_be_read() -> None:
    bad = OcrFailure("unreadable_file", "damaged")
    Bounds().check_document([bad, (100, 100)])
    with fails_as("unreadable_file"):
        Bounds().check_document([bad, OcrFailure("too_large")])
    with fails_as("unreadable_file"):
        Bounds().check_document([])
    with fails_as("too_large"):
        Bounds(max_document_pixels=15_000).check_document([(100, 100), (100, 100)])
    with fails_as("too_large"):
        Bounds(max_pages=1).check_document([(1, 1), (1, 1)])


Reading = tuple[list[str], float, int]


@pytest.fixture(scope="module")
def bomb_readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    """Of each bomb what came of it, seconds of processor time and KiB of memory, all in one limited process."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, (_, make) in BOMBS.items():
        (folder / name).write_bytes(make())
    command = [sys.executable, "-m", "tests.ocr.reading_child", *(str(folder / name) for name in BOMBS)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=REPOSITORY)
    assert child.stderr == ""
    assert child.returncode == 0
    readings: dict[str, Reading] = {}
    before = (0.0, 0)
    for line in child.stdout.splitlines():
        name, outcome, seconds, peak = json.loads(line)
        readings[name] = (outcome, seconds - before[0], peak - before[1])
        before = (seconds, peak)
    return readings


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_named_failure_within_seconds_and_little_memory(
    bomb_readings: dict[str, Reading], name: str
) -> None:
    outcome, seconds, grown = bomb_readings[name]
    assert outcome[0] == BOMBS[name][0]
    assert seconds < 5
    assert grown < 150_000
