"""The files in a folder and below it, in order, however many there are."""

from __future__ import annotations

import os
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from batchproc.ops.files_below import Unlisted, files_below
from batchproc.ops.sorted_names import SortedNames

NAMES = st.lists(st.binary(min_size=1, max_size=8).filter(lambda name: b"\0" not in name), max_size=40)


@given(NAMES, st.integers(1, 7))
def test_names_come_in_the_order_of_their_bytes(names: list[bytes], run: int) -> None:
    given_names = SortedNames(run)
    for name in names:
        given_names.add(name)
    assert list(given_names) == sorted(names)


def test_names_that_are_longer_than_a_block_of_the_file_are_whole() -> None:
    names = [b"%05d" % number + b"x" * 250 for number in range(300)]
    given_names = SortedNames(run=100)
    for name in random.Random(7).sample(names, len(names)):
        given_names.add(name)
    assert list(given_names) == names


def test_files_come_before_those_of_folders_and_hidden_ones_not_at_all(tmp_path: Path) -> None:
    for path in ("b/2", "b/1", "b/deep/x", "a/1", ".git/config", "a/.hidden", "z", "c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "a-link").symlink_to(tmp_path / "b")
    (tmp_path / "dangling").symlink_to("nowhere")

    def found(*, recursive: bool) -> list[str]:
        return [
            os.fsdecode(os.path.relpath(path, bytes(tmp_path)))
            for path in files_below(bytes(tmp_path), recursive=recursive)
            if isinstance(path, bytes)
        ]

    assert found(recursive=False) == ["c", "dangling", "z"]
    assert found(recursive=True) == ["c", "dangling", "z", "a/1", "b/1", "b/2", "b/deep/x"]


def test_a_folder_that_is_gone_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").touch()
    found = files_below(bytes(tmp_path), recursive=True)
    assert next(found) == bytes(tmp_path / "a" / "1")
    (tmp_path / "b" / "1").unlink()
    (tmp_path / "b").rmdir()
    gone, last = found
    assert isinstance(gone, Unlisted)
    assert (gone.path, type(gone.error)) == (bytes(tmp_path / "b"), FileNotFoundError)
    assert last == bytes(tmp_path / "c" / "1")


def test_a_large_folder_is_sorted_on_disk() -> None:
    """What is in memory of 500 names is a run of them; the rest is in one file without a name."""
    names = SortedNames(run=50)
    for number in range(499, -1, -1):
        names.add(b"%03d" % number)
    waiting = names._waiting
    assert len(waiting) < 50
    assert list(names) == [b"%03d" % number for number in range(500)]
