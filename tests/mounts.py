"""File systems that a test mounts and unmounts, which takes root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Mounts:
    """Mounts what a test asks for; all of it is unmounted in the end."""

    def __init__(self) -> None:
        self._places: list[Path] = []

    def memory(self, place: Path, options: str = "size=16m") -> None:
        """A fresh file system in memory; what it held is gone when it is unmounted."""
        self._mount(place, "-t", "tmpfs", "-o", options, "none")

    def folder(self, disk: Path, place: Path) -> None:
        """The folder ``disk`` at another place, as a disk that can be unmounted and mounted again."""
        self._mount(place, "--bind", str(disk))

    def read_only(self, disk: Path, place: Path) -> None:
        """The same, without anybody being able to write."""
        self.folder(disk, place)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)

    def unmount(self, place: Path) -> None:
        """At once, whoever has files of it open."""
        subprocess.run(["umount", "-l", str(place)], check=True)
        self._places.remove(place)

    def moved(self, place: Path, now: Path) -> None:
        """A folder above it was moved."""
        self._places[self._places.index(place)] = now

    def unmount_all(self) -> None:
        for place in reversed(self._places[:]):
            self.unmount(place)

    def _mount(self, place: Path, *words: str) -> None:
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", *words, str(place)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no file system can be mounted here, which takes root: {done.stderr.strip()}")
        self._places.append(place)


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    """Skips the test where nothing may be mounted."""
    made = Mounts()
    try:
        yield made
    finally:
        made.unmount_all()
