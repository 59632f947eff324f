"""The values that a shell completes arguments with: what the database knows, for as long as somebody waits for a key.

A completion is asked for in the middle of a line: it prints nothing but values, starts no server, waits for no lock,
and gives nothing where it cannot tell within a second. A shell takes what it is given apart, and bash expands it:
whatever is more than letters, digits and ``-_.`` is not offered.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from typing import Any

from loguru import logger

from batchproc import config, embedded
from batchproc.core.failure_codes import BAD_CONTENT, RESERVED, known_codes
from batchproc.database import SqlFolder, connect
from batchproc.handlers import registry
from batchproc.ops.within import within
from batchproc.settings import Settings

Source = Callable[[Settings, str], list[str]]
"""The values that begin with a text, by these settings."""

SECONDS = 1.0
_STATEMENT = {"statement_timeout": "800ms", "lock_timeout": "100ms", "default_transaction_read_only": "on"}
_MOST = 200
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def known(what: str, given: dict[str, Any], incomplete: str) -> list[str]:
    """The values of that name that begin with ``incomplete``; none where anything is in the way.

    Args:
        what: a name in `SOURCES`.
        given: the global options of the line.
        incomplete: what there is of the value.
    """
    if incomplete and not _SAFE.fullmatch(incomplete):
        return []
    logger.remove()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with contextlib.suppress(Exception), quiet[0], quiet[1]:
        found = within(SECONDS, lambda: SOURCES[what](_settings(given), incomplete))
        return [value for value in found if value.startswith(incomplete) and _SAFE.fullmatch(value)]
    return []


def _settings(given: dict[str, Any]) -> Settings:
    overrides = {"database.url": given["database"]} if given.get("database") else {}
    return config.load(given.get("conf"), os.environ, overrides)


def _stored(statement: str) -> Source:
    """What that statement finds."""

    def look(settings: Settings, prefix: str) -> list[str]:
        configured = settings.database.url
        if configured is not None:
            url = configured.get_secret_value()
        else:  # it runs or it does not
            url = embedded.EmbeddedServer(embedded.default_home(os.environ)).url
        sql = SqlFolder("batchproc.queue", settings.database.schema_name)
        with connect(url, connect_timeout=1, settings=_STATEMENT, patience=SECONDS, within=SECONDS) as connection:
            rows = connection.execute(sql[statement], {"prefix": prefix, "limit": _MOST}).fetchall()
        return [row[0] for row in rows]

    return look


def _codes(settings: Settings, _: str) -> list[str]:
    """Those of the kinds of these settings; the reserved ones where their handlers cannot be imported."""
    try:
        return sorted(known_codes(registry.for_settings(settings).specs().values()))
    except Exception:  # noqa: BLE001 - it runs modules of other people
        return sorted(RESERVED | BAD_CONTENT)


SOURCES: dict[str, Source] = {
    "tenants": _stored("offer_tenants"),
    "kinds": _stored("offer_kinds"),
    "campaigns": _stored("offer_campaigns"),
    "runs": _stored("offer_runs"),
    "codes": _codes,
}
