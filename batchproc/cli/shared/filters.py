"""Values of options: numbers within bounds, and what chooses documents or jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.app import App
from batchproc.cli.shared.messages import say
from batchproc.core.errors import UsageError
from batchproc.core.failure_codes import known_codes, unknown_code
from batchproc.core.limits import CODE
from batchproc.queue.kind_store import KindStore


class FiniteRange(click.FloatRange):
    """Numbers within bounds. Of NaN every comparison is false, those with the bounds too; and without an upper bound
    infinity would pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number{self._within()}.", param, ctx)
        return number

    def _within(self) -> str:
        if self.min is None or self.max is None:
            return ""
        return f" {'above' if self.min_open else 'from'} {self.min:g} to {self.max:g}"


class FailureCode(click.ParamType[str]):
    """What may be a failure code, whether or not any kind declares it."""

    name = "code"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not CODE.match(value):
            self.fail(f"{value!r} is no failure code: they are lower-case letters, digits and _.", param, ctx)
        return str(value)


def unknown_kinds(app: App, connection: Connection[TupleRow], kinds: Iterable[str]) -> Iterator[UsageError]:
    """What is said of each kind that no node has made known, no job has, and no handler of these settings: there is
    nothing of it, and nobody would wonder why."""
    store = KindStore(app.schema)
    for kind in kinds:
        is_known = store.kinds(connection, kind) or kind in app.registry.specs() or store.has_jobs(connection, kind)
        if not is_known:
            yield UsageError(f"there is no kind {kind!r}", "see: batchproc kinds list")


def require_kinds(app: App, connection: Connection[TupleRow], kinds: Iterable[str]) -> None:
    """Raises UsageError for the first that is one of ``unknown_kinds``."""
    for unknown in unknown_kinds(app, connection, kinds):
        raise unknown


def warn_of_code(app: App, code: str) -> None:
    """Says on stderr of a code by which nothing was found that no kind declares it, if that is so."""
    if (told := unknown_code(code, known_codes(app.registry.specs().values()))) is not None:
        say(f"warning: {told}")
