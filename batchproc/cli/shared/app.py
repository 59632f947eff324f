"""The composition root: settings, database and stores of one invocation."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc import config, embedded, log
from batchproc.cli.line.global_options import GlobalOptions
from batchproc.database import connect
from batchproc.documents.store import DocumentStore
from batchproc.engine.window import Window, answer_within
from batchproc.handlers import registry
from batchproc.handlers.registry import Registry
from batchproc.queue import migrate
from batchproc.queue.store import JobStore
from batchproc.settings import Settings


class IdType(click.ParamType[int]):
    """A whole number that the database's bigint holds. Errors and help speak of an id, not of that range."""

    name = "id"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails as a usage error."""
        text = str(value)
        if not (text.isascii() and text.isdigit()):
            self.fail(f"{text!r} is no id: ids are whole numbers such as 42", param, ctx)
        if not self._least <= (number := int(text)) < 2**63:
            self.fail(f"there is no id {text}", param, ctx)
        return number


# Of documents, jobs, campaigns and runs.
ID = IdType(1)
# The id behind which a listing goes on.
AFTER = IdType(0)


@dataclass
class App:
    """What the commands share; everything is opened when first asked for.

    Args:
        load: reads the settings, with overrides of single keys such as ``{"pool.workers": 4}``.
        own_process: whether this process does nothing else, and may be forked.
    """

    load: Callable[[dict[str, Any]], Settings]
    overrides: dict[str, Any]
    verbose: bool = False
    quiet: bool = False
    log_to_stderr: bool = True
    own_process: bool = False

    @cached_property
    def settings(self) -> Settings:
        settings = self.load(self.overrides)
        logging = settings.logging
        log.setup(
            logging.level,
            logging.format,
            logging.file,
            stderr=self.log_to_stderr,
            rotate=logging.rotate,
            keep=logging.keep,
        )
        return settings

    def read_settings(self) -> Settings:
        """The settings as they are now, for whatever asks for them from now on; the log stays as it is.

        Raises:
            UsageError: they cannot be used; those before stay.
        """
        self.settings = self.load(self.overrides)
        return self.settings

    def override(self, **values: Any) -> None:
        """Flags of a command that stand above the settings; ``pool__workers=4`` is ``pool.workers``."""
        if "settings" in self.__dict__:
            raise RuntimeError("the settings were read before the command's flags were known")
        self.overrides |= {name.replace("__", "."): value for name, value in values.items() if value is not None}

    @cached_property
    def schema(self) -> str:
        return self.settings.database.schema_name

    @cached_property
    def server(self) -> embedded.EmbeddedServer:
        """The embedded server of this home, running or not."""
        return embedded.EmbeddedServer(embedded.default_home(os.environ))

    @cached_property
    def is_embedded(self) -> bool:
        return self.settings.database.url is None

    @property
    def unstarted_url(self) -> str:
        """The configured database's URL, or that of the embedded server, which may not run."""
        configured = self.settings.database.url
        return self.server.url if configured is None else configured.get_secret_value()

    @cached_property
    def database_url(self) -> str:
        """The configured database's URL, or that of the embedded server, which is started for it."""
        if self.is_embedded:
            self.server.start()
        return self.unstarted_url

    @cached_property
    def direct_url(self) -> str:
        """The database past a transaction pooler, for sessions that have to be one."""
        direct = self.settings.database.direct_url
        return direct.get_secret_value() if direct is not None else self.database_url

    def connect(self, window: Window | None = None) -> Connection[TupleRow]:
        """A connection to a database whose migrations are current; the embedded one is brought up to date.

        Args:
            window: of a run, beyond whose end no answer is waited for.
        """
        if window is None:
            connection = connect(self.database_url)
        else:
            connection = connect(
                self.database_url,
                patience=lambda: answer_within(window, math.inf),
                within=answer_within(window, math.inf),
            )
        try:
            if self.is_embedded:
                if migrate.pending(connection, self.schema):
                    migrate.apply(connection, self.schema)
            else:
                migrate.require_current(connection, self.schema)
        except BaseException:
            connection.close()
            raise
        return connection

    @cached_property
    def jobs(self) -> JobStore:
        return JobStore(self.schema)

    @cached_property
    def documents(self) -> DocumentStore:
        return DocumentStore(self.schema, tenant_id=None)

    @cached_property
    def registry(self) -> Registry:
        """The kinds of these settings; imports the handler modules."""
        return registry.for_settings(self.settings)


def pass_app(command: Callable[..., Any]) -> Callable[..., Any]:
    """Passes this invocation's App to the command, first."""

    @wraps(command)
    def with_app(*arguments: Any, **options: Any) -> Any:
        return command(_app_of(click.get_current_context().find_root()), *arguments, **options)

    return with_app


def _app_of(root: click.Context) -> App:
    """The App of the line whose global options ``root`` has; made for the first that asks."""
    if isinstance(root.obj, GlobalOptions):
        root.obj = app_for(root.obj)
    assert isinstance(root.obj, App)
    return root.obj


def app_for(given: GlobalOptions) -> App:
    """The App of a line with these options; nothing is read or opened yet."""
    overrides: dict[str, Any] = {}
    if given.database is not None:
        overrides["database.url"] = given.database
    if given.verbose or given.quiet:
        overrides["logging.level"] = "debug" if given.verbose else "warning"
    return App(
        lambda changes: config.load(given.conf, os.environ, changes),
        overrides,
        given.verbose,
        given.quiet,
        own_process=given.own_process,
    )
