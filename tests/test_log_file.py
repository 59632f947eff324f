"""The log file when it is moved, when it cannot be written, and when its number is somebody else's by then."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.log_file import LogFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "logs"
    made.mkdir()
    return made


@pytest.fixture
def log(folder: Path) -> Iterator[LogFile]:
    made = LogFile(folder / "log")
    yield made
    made.stop()


def block(folder: Path) -> Path:
    """Moves the folder away and lets none be made in its place; returns where it is now."""
    moved = folder.rename(folder.with_name("moved"))
    folder.write_text("no folder")
    return moved


def test_a_file_that_was_moved_is_made_again(log: LogFile, folder: Path) -> None:
    log.write("one\n")
    (folder / "log").rename(folder / "log.1")
    log.write("two\n")
    assert (folder / "log.1").read_text() == "one\n"
    assert (folder / "log").read_text() == "two\n"


def test_what_cannot_be_made_again_goes_on_and_is_told_once(
    log: LogFile, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write("one\n")
    moved = block(folder)
    log.write("two\n")
    log.write("three\n")
    assert (moved / "log").read_text() == "one\ntwo\nthree\n"
    [line] = capsys.readouterr().err.splitlines()
    assert f"the log file {str(folder / 'log')!r} was moved and cannot be made again" in line
    folder.unlink()
    log.write("four\n")
    assert (folder / "log").read_text() == "four\n"


def test_nobody_elses_descriptor_is_closed(log: LogFile, folder: Path) -> None:
    log.write("one\n")
    block(folder)
    log.write("two\n")
    # The lowest free numbers: what the log gave up would be among them.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    try:
        log.write("three\n")
        log.write("four\n")
        log.stop()
        more = os.open("/dev/null", os.O_RDONLY)
        others.append(more)
        log.stop()
        for descriptor in others:
            os.fstat(descriptor)
    finally:
        for descriptor in others:
            os.close(descriptor)


@pytest.fixture
def full(log: LogFile) -> LogFile:
    """Its file is a device on which nothing fits any more."""
    full_disk = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full_disk, log._descriptor)
    os.close(full_disk)
    return log


def test_lines_that_are_lost_are_told_once_and_counted(full: LogFile, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        full.write("lost\n")
    full.stop()
    first, last = capsys.readouterr().err.splitlines()
    assert first.endswith("cannot be written (No space left on device): its lines are lost")
    assert last.startswith("batchproc: 3 lines of the log file")


def test_a_worker_leaves_the_telling_to_its_node(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = LogFile(folder / "log", tells=False)
    full_disk = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full_disk, log._descriptor)
    os.close(full_disk)
    for _ in range(3):
        log.write("lost\n")
    block(folder)
    log.write("lost\n")
    log.stop()
    assert capsys.readouterr().err == ""


def test_the_file_is_its_owners_only_and_no_programs(log: LogFile, folder: Path) -> None:
    assert (folder / "log").stat().st_mode & 0o777 == 0o600
    inherited = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in inherited


def test_a_file_that_would_grow_too_large_is_moved_away(folder: Path) -> None:
    log = LogFile(folder / "log", rotate=10, keep=2)
    for line in ("first\n", "2nd\n", "third\n", "fourth\n", "a line that is longer than any file\n"):
        log.write(line)
    log.stop()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "log": "a line that is longer than any file\n",
        "log.1": "fourth\n",
        "log.2": "third\n",
    }


def test_one_of_many_processes_moves_it_away_and_no_line_is_lost(folder: Path) -> None:
    writer = (
        "import sys; from batchproc.log_file import LogFile\n"
        "log = LogFile(sys.argv[1], rotate=500, keep=100)\n"
        "for number in range(300): log.write(f'{sys.argv[2]} {number}\\n')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", writer, str(folder / "log"), str(name)]) for name in range(3)]
    assert [process.wait(60) for process in writers] == [0, 0, 0]
    files = list(folder.iterdir())
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{name} {number}" for name in range(3) for number in range(300))
    # How large one grows while another process is about to move it away is up to the scheduler.
    assert len(files) > 3


def test_a_folder_in_which_nothing_can_be_moved_lets_the_file_grow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogFile(folder / "log", rotate=10)
    log.write("first\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    log.write("second\n")
    log.write("third\n")
    log.stop()
    assert (folder / "log").read_text() == "first\nsecond\nthird\n"
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("cannot be moved away (Permission denied): it grows on")
