"""The files in a folder and below it, in order, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from batchproc.documents.original_faults import below
from batchproc.ops.sorted_names import SortedNames


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A folder that could not be listed."""

    path: bytes
    error: OSError


def files_below(
    folder: bytes, *, recursive: bool, left_out: Callable[[], None] = lambda: None
) -> Iterator[bytes | Unlisted]:
    """The paths of its direct files, sorted by name; with ``recursive`` then those of its folders, likewise.

    Not those whose name (or whose folder's name) begins with a dot, nor what lies behind symbolic links to folders.
    Whatever is no folder counts as a file.

    Args:
        left_out: called for each folder that ``recursive`` would go through.
    """
    waiting = [iter([folder])]
    while waiting:
        current = next(waiting[-1], None)
        if current is None:
            waiting.pop()
            continue
        try:
            files, folders = _listed(current)
        except OSError as error:
            yield Unlisted(current, error)
            continue
        for name in files:
            yield below(current, name)
        if recursive:
            waiting.append(map(partial(below, current), folders))
        else:
            for _ in folders:
                left_out()


def _listed(folder: bytes) -> tuple[SortedNames, SortedNames]:
    """The names of the files in a folder, and of the folders that may be gone through."""
    files, folders = SortedNames(), SortedNames()
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.name.startswith(b"."):
                continue
            if not _is_folder(entry):
                files.add(entry.name)
            elif not entry.is_symlink():
                folders.add(entry.name)
    return files, folders


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    """False also for a link that cannot be followed: tried as a file, it is rejected for the reason."""
    try:
        return entry.is_dir()
    except OSError:
        return False
