"""What a worker does around a job, in this process: whatever fails in tidying up, the job has had its outcome."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from batchproc.core.outcome import Completed, Outcome
from batchproc.engine.pool import child_setup, reply
from batchproc.engine.pool.job_folder import JobFolder
from batchproc.engine.pool.progress import ProgressReader, ProgressWriter


@pytest.fixture
def node_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgressReader]:
    """This process as a worker whose jobs complete; what its node sees of it."""
    reader = ProgressReader(tmp_path / "progress")
    writer = ProgressWriter(tmp_path / "progress")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "left").touch()
    monkeypatch.setattr(child_setup, "_progress", writer)
    monkeypatch.setattr(child_setup, "_job_folder", JobFolder(tmp_path / "tmp"))
    monkeypatch.setattr(child_setup, "_function", _complete)
    monkeypatch.setattr(child_setup, "_shortest_limit", float("inf"))
    yield reader
    writer.close()
    reader.close()


def _complete(job_id: int, claim_id: UUID) -> Outcome:
    return Completed(f"{job_id} within {child_setup.shortest_limit():g} s")


def run_job() -> Outcome:
    return reply.decode(child_setup.run_job(7, uuid4(), 2.5))


def test_a_clean_job_leaves_a_worker_that_is_fit(node_side: ProgressReader, tmp_path: Path) -> None:
    assert run_job() == Completed("7 within 2.5 s")
    assert not node_side.unfit()
    assert child_setup.current_workdir() == tmp_path / "tmp"
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("function", ["listdir", "open", "unlink"])
@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "input/output error"), KeyboardInterrupt()])
def test_what_fails_in_tidying_up_costs_the_worker_and_not_the_job(
    node_side: ProgressReader, monkeypatch: pytest.MonkeyPatch, function: str, error: BaseException
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail)
        if function == "unlink":
            patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        outcome = run_job()

    assert outcome == Completed("7 within 2.5 s")
    assert node_side.unfit()
