"""The node's private temp folder, and the removal of what killed nodes left in the temp folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from batchproc.engine.pool import forkserver, own_folder

_PREFIX = "batchproc-node-"


@contextlib.contextmanager
def node_folder() -> Iterator[Path]:
    """A folder of mode 0700 for this node's workers, removed in the end."""
    remove_leftovers()
    folder = own_folder.make(_PREFIX)
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_leftovers() -> None:
    """Removes the temp folders of nodes that are dead, and those with their forkservers' sockets."""
    for prefix in (_PREFIX, forkserver.SOCKET_FOLDER_PREFIX):
        own_folder.remove_leftovers(prefix)
