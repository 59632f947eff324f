"""Settings that are read again while a node runs.

Only what the node's own process decides anew each time takes effect. What its workers were started with, what it told
the database when it joined, and what its threads were built from stays as it was, and is named: half a change, in some
workers and not in others, would be worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loguru import logger

from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line
from batchproc.settings import Settings

Apply = Callable[[Settings], None]

NOT_OF_A_NODE = ("retention", "storage")
"""Sections that other commands read, each when it starts."""

_ABSENT = object()


class Reloading:
    """What is in force, and how it is changed.

    Args:
        settings: what the node was started with.
        read: reads them again; raises ``BatchprocError`` when they cannot be used. None: they come from nowhere.
        apply: by dotted name, what takes the new settings of that name over.
    """

    def __init__(self, settings: Settings, read: Callable[[], Settings] | None, apply: Mapping[str, Apply]) -> None:
        self._read = read
        self._apply = apply
        self._in_force = flat(settings)

    def reload(self) -> None:
        """Reads them and says what came of it; settings that cannot be used change nothing."""
        if self._read is None:
            return
        try:
            settings = self._read()
        except BatchprocError as error:
            for line in error.message.splitlines():
                logger.error("the settings could not be read again, and stay as they were: {}", line)
            return
        wanted = flat(settings)
        changed = [
            name
            for name in sorted(self._in_force | wanted)
            if self._in_force.get(name, _ABSENT) != wanted.get(name, _ABSENT)
            and name.partition(".")[0] not in NOT_OF_A_NODE
        ]
        taken = [name for name in changed if name in self._apply and self._takes(name, settings, wanted[name])]
        later = [name for name in changed if name not in self._apply]
        logger.info("the settings were read again, {} changed", ", ".join(taken) or "nothing")
        if later:
            logger.warning("from the next start on only: {}", one_line(", ".join(later), limit=1000))

    def _takes(self, name: str, settings: Settings, value: object) -> bool:
        try:
            self._apply[name](settings)
        except BatchprocError as error:
            logger.error("{} stays as it was: {}", name, error.message)
            return False
        self._in_force[name] = value
        return True


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting by its dotted name; secrets stay hidden."""
    found: dict[str, Any] = {}

    def add(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add(inner, f"{name}.{key}" if name else str(key))
        elif value is not None or not name.startswith("kinds."):  # there None is what its handler declares
            found[name] = value

    add(settings.model_dump(by_alias=True), "")
    return found
