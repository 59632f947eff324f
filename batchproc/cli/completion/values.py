"""The values that a shell completes arguments with: what the database knows, for as long as somebody waits for a key.

A completion is asked for in the middle of a line: it prints nothing but values, runs no handler's module, starts no
server, waits for no lock, and gives no more than the program itself knows where it cannot tell within a second. A shell
takes what it is given apart, and bash expands it: whatever is more than letters, digits and ``-_.`` is not offered.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable

from loguru import logger
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.line.global_options import GlobalOptions
from batchproc.cli.shared.app import App, app_for
from batchproc.core.failure_codes import BAD_CONTENT, RESERVED
from batchproc.database import connect
from batchproc.ops.within import within
from batchproc.queue.offering import Offering

Look = Callable[[Offering, Connection[TupleRow], str], list[str]]
"""The values in the database that begin with a text."""

SECONDS = 1.0
STATEMENT_SECONDS = 0.8
LOCK_SECONDS = 0.1
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

LOOKS: dict[str, Look] = {
    "tenants": Offering.tenants,
    "kinds": Offering.kinds,
    "campaigns": Offering.campaigns,
    "runs": Offering.runs,
    "codes": Offering.codes,
}
BUILT_IN = {"codes": RESERVED | BAD_CONTENT}
"""Those that are offered whatever the database knows, and whether or not it answers."""


def known(what: str, given: GlobalOptions, incomplete: str) -> list[str]:
    """The values of that name that begin with ``incomplete``; where anything is in the way those of `BUILT_IN` alone.

    Args:
        what: a name in `LOOKS`.
        given: the global options of the line.
        incomplete: what there is of the value.
    """
    if incomplete and not _SAFE.fullmatch(incomplete):
        return []
    logger.remove()
    found: list[str] = []
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with contextlib.suppress(Exception), quiet[0], quiet[1]:
        found = within(SECONDS, lambda: _stored(LOOKS[what], app_for(given), incomplete))
    if what in BUILT_IN:
        found = sorted(BUILT_IN[what].union(found))
    return [value for value in found if value.startswith(incomplete) and _SAFE.fullmatch(value)]


def _stored(look: Look, app: App, prefix: str) -> list[str]:
    app.read_settings()  # and sets no log up
    settings = {
        "statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}ms",
        "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}ms",
        "default_transaction_read_only": "on",
    }
    with connect(app.unstarted_url, settings=settings, patience=SECONDS, within=SECONDS) as connection:
        return look(Offering(app.schema), connection, prefix)
