"""The notes of an attempt tell of it, and never change what becomes of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.attempt_notes import noted, read_notes


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_full_disk_fails_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(Path, step, no_space)
    with noted(tmp_path, 7):
        result = "done"
    assert result == "done"
    assert read_notes(tmp_path, 7) is None


def test_a_full_disk_hides_no_error_of_the_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", no_space)
    with pytest.raises(ZeroDivisionError), noted(tmp_path, 7):
        raise ZeroDivisionError


def test_they_are_written_whatever_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), noted(tmp_path, 7):
        raise ZeroDivisionError("by nothing")
    notes = read_notes(tmp_path, 7)
    assert notes is not None
    assert "by nothing" in (notes.traceback or "")
