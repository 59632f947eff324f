"""Where each option of a kind comes from: a person, the settings, its handler, or nobody."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from batchproc.core.job import Lane
from batchproc.core.rates import shown
from batchproc.handlers.registry import Handler, handler
from batchproc.settings import Settings


class Source(StrEnum):
    """Who has said what holds, the strongest first."""

    PERSON = "kinds set"
    KINDS = "settings, kinds"
    HANDLER = "handler"
    RETRY = "settings, retry"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class KindOption:
    """One option as it holds. Times in seconds, a rate in jobs a second, codes sorted, a lane by its name."""

    name: str
    value: Any
    source: Source


_OPTIONS = {
    name: parameter.default
    for name, parameter in inspect.signature(handler).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
_OF_A_PERSON = {"limit": "max_running", "rate": "rate", "burst": "burst"}
_OF_RETRY = frozenset({"max_attempts", "max_timeouts", "max_crashes", "base", "cap"})


def kind_options(entry: Handler, settings: Settings, row: Mapping[str, Any] | None) -> list[KindOption]:
    """Every option of a handler, in the order of its decorator's.

    Args:
        entry: as the settings have made it.
        row: the kind as ``KindStore.kinds`` has it; None where it has never run.
    """
    return list(_options(entry, settings, row or {}))


def _options(entry: Handler, settings: Settings, row: Mapping[str, Any]) -> Iterator[KindOption]:
    override = settings.kinds.get(entry.spec.name)
    overridden = override.changes() if override is not None else {}
    for name, default in _OPTIONS.items():
        value = _plain(getattr(entry.spec, name))
        by_person = row.get(_OF_A_PERSON[name]) if name in _OF_A_PERSON else None
        if by_person is not None or (name == "burst" and row.get("rate") is not None):
            yield KindOption(name, by_person, Source.PERSON)
        elif name in overridden:
            yield KindOption(name, value, Source.KINDS)
        elif name in _OF_RETRY:
            yield KindOption(name, value, Source.HANDLER if name in entry.declared else Source.RETRY)
        else:
            # Nobody can tell a default from the same value given.
            is_default = value == (sorted(default) if isinstance(default, tuple) else default)
            yield KindOption(name, value, Source.DEFAULT if is_default else Source.HANDLER)


def readable(option: KindOption) -> Any:
    """The value as a person writes it: ``10/s``."""
    return shown(option.value) if option.name == "rate" and option.value is not None else option.value


def _plain(value: Any) -> Any:
    if isinstance(value, Lane):
        return value.name.lower()
    return sorted(value) if isinstance(value, frozenset) else value
