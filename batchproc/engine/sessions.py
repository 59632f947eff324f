"""A node's connections to the database, each with the patience and the settings of what it is for."""

from __future__ import annotations

from collections.abc import Callable

from batchproc.database import Session, connect
from batchproc.engine.window import Window, answer_within
from batchproc.settings import Settings

_APPLICATION = "batchproc node"
# One row that somebody holds, a person in psql or the handler of a cut-off node, must not stop everything else.
_LOCK_TIMEOUT = "2s"
_LEAST_PATIENCE = 10.0
_CONNECT_SECONDS = 5


class NodeSessions:
    """Opens them.

    Args:
        direct_url: the same database as ``database_url``, past a transaction pooler.
        revive: called before the dispatcher connects; starts a server of our own that has died, without waiting.

    Attributes:
        window: of the run; no answer is waited for beyond its end.
    """

    window: Window | None = None

    def __init__(self, settings: Settings, database_url: str, direct_url: str, revive: Callable[[], None]) -> None:
        self._settings = settings
        self._database_url = database_url
        self._direct_url = direct_url
        self._revive = revive

    def for_ticks(self) -> Session:
        """The dispatcher's own."""
        self._revive()
        return self._connect_to(self._database_url)

    def direct(self) -> Session:
        """One that may LISTEN."""
        return self._connect_to(self._direct_url)

    @property
    def direct_apart(self) -> Callable[[], Session] | None:
        """``direct``, where a pooler stands before the other ones."""
        return self.direct if self._direct_url != self._database_url else None

    def for_lease(self) -> Session:
        """For renewals: one that takes longer than the wait for the next is given up, and tried on a fresh one."""
        bound = max(1.0, self._settings.dispatch.lease / 3)
        return connect(
            self._database_url,
            application_name=_APPLICATION,
            connect_timeout=max(2, round(bound)),
            settings={"statement_timeout": f"{round(bound * 900)}ms"},
            patience=lambda: answer_within(self.window, bound),
            within=self._connecting(bound),
            options={"tcp_user_timeout": round(bound * 1000)},
        )

    def _connect_to(self, url: str) -> Session:
        # A server that is silent for longer than a lease is given up; it ends the statement itself before that.
        patience = max(_LEAST_PATIENCE, self._settings.dispatch.lease)
        settings = {
            "lock_timeout": _LOCK_TIMEOUT,
            "statement_timeout": f"{round(patience * 900)}ms",
            # Whatever the database's default is: a snapshot from before the lock of the limits would not show what
            # others claimed meanwhile.
            "default_transaction_isolation": "read committed",
        }
        return connect(
            url,
            application_name=_APPLICATION,
            connect_timeout=_CONNECT_SECONDS,
            settings=settings,
            patience=lambda: answer_within(self.window, patience),
            within=self._connecting(patience),
        )

    def _connecting(self, most: float) -> float | None:
        """Seconds that connecting may take at all; None without a window, where each host has its own."""
        return None if self.window is None else answer_within(self.window, most)
