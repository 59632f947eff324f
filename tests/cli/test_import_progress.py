"""The line that a person sees while an import goes on."""

from __future__ import annotations

import pytest

from batchproc.cli.importing.progress import ImportProgress


@pytest.mark.parametrize(
    ("looks", "total", "told"),
    [
        ([(1.0, 3)], 1000, "3 of 1000 files, 1.5 GB read, 2 rejected"),  # no 3/s, and no 6 min
        ([(9.0, 900)], 1000, "900 of 1000 files, 1.5 GB read, 2 rejected"),
        ([(10.0, 900)], None, "900 files, 90.0/s, 1.5 GB read, 2 rejected"),
        ([(10.0, 900)], 1800, "900 of 1800 files, 90.0/s, 1.5 GB read, 2 rejected, about 10 s left"),
        ([(10.0, 5)], 10, "5 of 10 files, 1.5 GB read, 2 rejected, about 10 s left"),  # no half a file a second
        ([(20.0, 0)], 10, "0 of 10 files, 1.5 GB read, 2 rejected"),
        ([(10.0, 12)], 10, "12 of 10 files, 1.2/s, 1.5 GB read, 2 rejected"),  # some came meanwhile
        ([(second, 10) for second in (20.0, 40.0, 60.0)], 20, "10 of 20 files, 10.0/min, 1.5 GB read, 2 rejected, "
         "about 60 s left"),
        ([(20.0, 4000), (80.0, 4600)], 5200, "4600 of 5200 files, 10.0/s, 1.5 GB read, 2 rejected, about 60 s left"),
        ([(20.0, 400), (20.5, 600)], 600, "400 of 600 files, 20.0/s, 1.5 GB read, 2 rejected, about 10 s left"),
    ],
)  # fmt: skip
def test_rate_and_time_left_are_told_of_what_was_seen(
    looks: list[tuple[float, int]], total: int | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("batchproc.cli.importing.progress.time.monotonic", lambda: now[0])
    progress = ImportProgress([], None, recursive=False)
    said: list[str] = []
    monkeypatch.setattr(progress._line, "show", said.append)
    progress._total.files = total
    for second, files in looks:
        now[0] = 100.0 + second
        progress.show(files, 1_500_000_000, 2)
    assert said[-1] == told
