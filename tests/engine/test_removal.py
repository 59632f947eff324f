"""Removing what a handler left, whatever that is: of any depth, unreadable, linked, mounted."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from batchproc.engine.pool import own_folder, removal
from tests.mounts import Mounts, mounts  # noqa: F401 - a fixture

LEVELS = 1500
"""More than Python's recursion limit, and than a path of that many names may have characters."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "left"
    made.mkdir()
    return made


def make_deep(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for level in range(LEVELS):
        os.mkdir("a", dir_fd=here)
        if level % 500 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("a", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def make_wide(folder: Path) -> None:
    for number in range(20):
        (folder / f"{number}" / "a" / "b").mkdir(parents=True)
        (folder / f"{number}" / "a" / "b" / "file").touch()
        (folder / f"{number}" / "a" / ".hidden").touch()


def make_unwritable(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").touch()
    for made in (folder / "a" / "b", folder / "a", folder):
        made.chmod(0o000 if made != folder else 0o700)


def make_odd(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "a").mkdir()
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(folder)  # a socket's path must be short
        try:
            opened.bind("a/socket")
        finally:
            os.chdir(here)
    (folder / "a" / "gone").symlink_to("nowhere")


@pytest.mark.parametrize("make", [make_deep, make_wide, make_unwritable, make_odd], ids=lambda make: make.__name__)
def test_all_of_it_is_gone(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder)
    assert removal.remove(folder)
    assert list(folder.parent.iterdir()) == []


def test_what_is_gone_is_removed(tmp_path: Path) -> None:
    assert removal.remove(tmp_path / "nothing")


def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o500)
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(elsewhere)
    (tmp_path / "to it").symlink_to(folder)
    assert not removal.remove(tmp_path / "to it")
    assert (folder / "a").exists()
    assert removal.remove(folder)
    assert elsewhere.stat().st_mode & 0o777 == 0o500


@pytest.mark.parametrize("below", ["archive", "a/archive"])
def test_what_is_mounted_in_it_keeps_what_it_holds(
    folder: Path,
    tmp_path: Path,
    mounts: Mounts,  # noqa: F811
    below: str,
) -> None:
    """An archive that a handler mounted, of the same file system or another, and did not unmount."""
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "original.pdf").touch()
    (folder / "a").mkdir()
    (folder / "a" / "file").touch()
    mounts.folder(archive, folder / below)
    assert not removal.remove(folder)
    [now] = folder.rglob("archive")
    mounts.moved(folder / below, now)
    assert (archive / "original.pdf").exists()
    assert not list(folder.rglob("file")), "the rest is gone"


def test_a_deep_tree_of_a_killed_node_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "batchproc-some-1").mkdir()
    make_deep(tmp_path / "batchproc-some-1")
    own_folder.remove_leftovers("batchproc-some-")
    assert list(tmp_path.iterdir()) == []
