"""Whether many things are to be changed: a person is asked, and where there is none, ``--yes`` has to say so."""

from __future__ import annotations

import sys

from batchproc.cli.shared.messages import confirm
from batchproc.core.errors import UsageError

MANY = 10
"""Of more jobs or documents than that a person is asked, unless each was named."""


def require_yes(count: int, what: str, done: str, *, yes: bool) -> None:
    """Asks a person whether so many are to be changed; raises UsageError where nobody is there to be asked.

    Args:
        what: ``jobs``, ``documents``.
        done: what they will be, such as ``cancelled``.
        yes: the answer is known.

    Raises:
        click.Abort: the answer is no.
    """
    if count <= MANY or yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{count} {what} would be {done}", "look at them with --dry-run, then give --yes")
    confirm(f"{count} {what} will be {done}. Go on?")
