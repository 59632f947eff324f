"""Templates such as ``Invoice {number}``. Pure.

Not ``str.format``: that follows attributes and items of what it is given. Here a name in braces is a name and
nothing else; ``{{`` and ``}}`` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")


def names(template: str) -> tuple[str, ...]:
    """The names in a template, in its order.

    Raises:
        ValueError: a brace that is neither doubled nor part of a ``{name}``.
    """
    found = []
    for part in _PART.finditer(template):
        if part.group(1):
            found.append(part.group(1))
        elif len(part.group()) == 1:
            raise ValueError(f"has a lone brace at character {part.start() + 1}: write {{name}}, or double it")
    return tuple(found)


def fill(template: str, values: Mapping[str, str | None]) -> str | None:
    """The template with its names replaced, or None when one of them has no value."""
    if any(not values.get(name) for name in names(template)):
        return None
    braces = {"{{": "{", "}}": "}"}
    return _PART.sub(lambda part: braces.get(part.group()) or str(values[part.group(1)]), template)
