"""What a node says of itself."""

from __future__ import annotations

import os
import socket
from uuid import UUID

from batchproc.engine.kinds import Kinds
from batchproc.queue.node_store import NodeFacts
from batchproc.settings import Settings
from batchproc.version import __version__


def own_facts(settings: Settings, known: Kinds, slots: int, node_id: UUID) -> NodeFacts:
    """Of the node in this process, under that id."""
    return NodeFacts(
        node_id=node_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        slots=slots,
        kinds=tuple(sorted(known.specs)),
        languages=known.languages,
        engine_version=known.engine_version,
        code_version=__version__,
        default_languages=settings.ocr.languages,
    )
