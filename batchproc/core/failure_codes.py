"""The failure codes that there can be: those that are reserved, and those that kinds declare."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from batchproc.core.job import KindSpec

RESERVED = frozenset(
    {
        "database_lost",
        "forkserver_died",
        "given_up",
        "internal_error",
        "invalid_args",
        "lease_expired",
        "missing_language",
        "no_space",
        "out_of_memory",
        "poison",
        "result_too_large",
        "stalled",
        "storage_unavailable",
        "superseded",
        "timeout",
        "unknown_kind",
    }
)
"""Those that a job of any kind may end with, or fail with on the way."""

BAD_CONTENT = frozenset({"too_large", "encrypted", "unreadable_file", "unsupported_type", "empty_file"})
"""Those of a document's content: the same content would fail again, unless bounds or passwords have changed."""


def known_codes(specs: Iterable[KindSpec]) -> frozenset[str]:
    """The reserved codes and those that these kinds declare."""
    return RESERVED.union(*(spec.failure_codes for spec in specs))


def unknown_code(code: str, known: Collection[str]) -> str | None:
    """What to tell a person of a code that none of the ``known`` is, naming the nearest one; None when it is one."""
    if code in known:
        return None
    nearest = difflib.get_close_matches(code, sorted(known), n=1)
    return f"no kind declares the failure code {code}" + (f": {nearest[0]} is the nearest" if nearest else "")


def unknown_accepted(accepted: Iterable[str], specs: Iterable[KindSpec]) -> tuple[str, ...]:
    """What to tell of those codes of the setting ``run.accept_codes`` that no job of these kinds ends with."""
    known = known_codes(specs)
    told = (unknown_code(code, known) for code in accepted)
    return tuple(f"run.accept_codes: {text}" for text in told if text is not None)
