"""Which arguments and options a shell completes the values of, and with what."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from batchproc.cli.line.global_options import GlobalOptions
from batchproc.cli.line.groups import tree

_OPTIONS = {"--tenant": "tenants", "--kind": "kinds", "--campaign": "campaigns", "--failure-code": "codes"}
_ARGUMENTS = {"slug": "tenants", "kind": "kinds", "campaign_id": "campaigns", "run_id": "runs"}
_NEW = {("tenants add", "slug")}
"""Arguments that name what there is not yet."""


class Offered(click.ParamType[Any]):
    """Another type, of whose values a shell is told those that there are.

    Args:
        inner: the other type.
        what: which values, by the name of their source in `batchproc.cli.completion.values`.
    """

    def __init__(self, inner: click.ParamType[Any], what: str) -> None:
        self.name = inner.name
        self.inner = inner
        self._what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As the other type does."""
        return self.inner.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As the other type has it."""
        return self.inner.get_metavar(param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click passes it
        incomplete: str,
    ) -> list[CompletionItem]:
        """Nothing where anything is in the way: nobody who completes a word wants to read why."""
        from batchproc.cli.completion.values import known  # only a shell that asks for values waits for the settings

        return [CompletionItem(value) for value in known(self._what, _given(ctx.find_root()), incomplete)]


def _given(root: click.Context) -> GlobalOptions:
    """The options of a line that is not run."""
    given = root.params.get
    return GlobalOptions(
        given("conf"), given("database"), bool(given("verbose")), bool(given("quiet")), own_process=False
    )


def attach(name: str, command: click.Command) -> None:
    """Gives their values to all arguments and options of ``command``, and of those below it, that take such."""
    for path, inner in tree(name, command):
        for param in inner.params:
            what = None if (path, param.name) in _NEW else _values_of(param)
            if what is not None and not isinstance(param.type, Offered | click.Choice):
                param.type = Offered(param.type, what)


def _values_of(param: click.Parameter) -> str | None:
    if isinstance(param, click.Option):
        return next((_OPTIONS[flag] for flag in param.opts if flag in _OPTIONS), None)
    return _ARGUMENTS.get(param.name or "")
