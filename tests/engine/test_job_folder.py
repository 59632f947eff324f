"""The folder for the files of a worker's jobs: whatever one made, the next finds it empty, whole and private."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.pool.job_folder import JobFolder
from tests.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """One that is empty, and known to be."""
    path = tmp_path / "slot-0" / "tmp"
    path.parent.mkdir()
    path.mkdir(mode=0o700)
    made = JobFolder(path)
    assert made.tidy()
    return made


def make_and_remove(path: Path) -> None:
    (path / "made").touch()
    (path / "made").unlink()
    (path / "again").touch()


def make_deep(path: Path) -> None:
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "b" / "made").write_text("text")


def replace_it(path: Path) -> None:
    path.rmdir()
    path.mkdir(mode=0o755)
    (path / "made").touch()


def open_it(path: Path) -> None:
    """To everybody, or to nobody."""
    path.chmod(0o777)


def unpack(path: Path) -> None:
    """As of an archive that is made to be the same each time: all of it is of 1970, the folder itself too."""
    (path / "made").touch()
    os.utime(path, ns=(0, 0))


def restore_times(path: Path) -> None:
    """As of a backup that a job takes and plays back."""
    before = path.stat()
    probe = path.parent / "probe"

    def has_gone_on() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns > before.st_ctime_ns

    wait_until(has_gone_on, what="the file system's next time")
    (path / "made").touch()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def move_in(path: Path) -> None:
    (path.parent / "old").mkdir()
    mark = path.stat().st_mtime_ns
    os.utime(path.parent / "old", ns=(mark, mark))
    (path.parent / "old").rename(path / "old")


@pytest.mark.parametrize(
    "job",
    [
        lambda path: (path / "made").touch(),
        make_and_remove,
        make_deep,
        open_it,
        unpack,
        restore_times,
        replace_it,
        move_in,
        lambda path: path.rmdir(),
    ],
    ids=[
        "a file",
        "a file again",
        "folders",
        "other mode",
        "unpacked",
        "times restored",
        "another folder",
        "moved in",
        "removed",
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_job_made_is_gone_for_the_next(folder: JobFolder, job: Callable[[Path], Any], jobs: int) -> None:
    for _ in range(jobs):
        job(folder.path)
        assert folder.tidy()
        assert list(folder.path.iterdir()) == []


def test_a_job_that_made_nothing_costs_one_look(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("it was listed"))
    assert folder.tidy()


def test_what_comes_back_is_removed_although_the_folder_was_emptied(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that a job left makes a file between the listing and the note that the folder is empty."""
    set_time = os.utime

    def late(*args: Any, **options: Any) -> None:
        (folder.path / "late").mkdir(exist_ok=True)
        set_time(*args, **options)

    (folder.path / "made").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "utime", late)
        assert not folder.tidy()
    assert folder.tidy()
    assert list(folder.path.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(folder: JobFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    folder.path.rmdir()
    folder.path.symlink_to(elsewhere)
    assert not folder.tidy()
    assert (elsewhere / "kept").exists()
