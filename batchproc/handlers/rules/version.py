"""One version for all the rules that hold for a tenant. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from batchproc.handlers.rules.model import RuleType, Versioned

_CHARACTERS = 16


def version_of(rules: Iterable[Versioned[RuleType]]) -> str:
    """The start of a SHA-256 over the rules' names and versions, in their order, which decides what they set."""
    lines = [f"{versioned.rule.name} {versioned.version}\n" for versioned in rules]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_CHARACTERS]
