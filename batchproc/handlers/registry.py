"""Kinds and the functions that handle them."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel

from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec, Lane
from batchproc.core.limits import CODE
from batchproc.core.rates import parse_rate
from batchproc.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])
BUILT_IN = ("batchproc.handlers.ocr", "batchproc.handlers.classify", "batchproc.handlers.workflow")
_ATTRIBUTE = "__batchproc_kind__"


class NoArgs(BaseModel, extra="forbid"):
    """The args of a handler that takes none."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A kind with its function. ``args_model`` validates the args at enqueue and again at run."""

    spec: KindSpec
    function: Callable[..., Any]
    args_model: type[BaseModel]
    declared: Mapping[str, Any]

    @property
    def takes_args(self) -> bool:
        return self.args_model is not NoArgs

    @property
    def place(self) -> str:
        """Where its function is: ``archive_handlers.letter_date``."""
        return _place(self.function)


def handler(
    name: str,
    *,
    timeout: float = 600.0,
    stall_timeout: float | None = None,
    max_attempts: int | None = None,
    max_timeouts: int | None = None,
    max_crashes: int | None = None,
    base: float | None = None,
    cap: float | None = None,
    bundle: int = 1,
    limit: int | None = None,
    rate: str | None = None,
    burst: int | None = None,
    unique_while_running: bool = False,
    lane: Lane | None = None,
    failure_codes: Collection[str] = (),
    fails_document: bool = False,
    fails_page: bool = False,
    needs_languages: bool = False,
) -> Callable[[Function], Function]:
    """Declares the function below it as the handler of kind ``name``.

    The function takes a ``Context`` and, if it wants args, one pydantic model; it returns a pydantic
    model (only what that declares is stored) or None. It may run again after a crash, so it has to be
    idempotent. Times in seconds. Budgets and backoff that are None are those of ``retry:`` in the settings, and
    every option can be overridden under ``kinds:`` there. With ``fails_document`` a discarded job marks its
    document, unless that was completed before, as failed. With ``fails_page``, for a kind that reads pages through
    ``batchproc.documents.revisions``, the second attempt that stalls, times out, runs out of memory or dies on a page
    marks it as failed and is a checkpoint, so that the next attempt passes it. With
    ``needs_languages`` only nodes claim a job that have the languages it asks for (``languages`` of its args), else
    those of its document, its tenant or the settings; without such a node it ends as ``missing_language``.
    """
    for named in (name, *failure_codes):
        if not CODE.match(named):
            raise UsageError(
                f"{named!r} cannot name a kind or failure code", "use at most 63 lower-case letters, digits and _"
            )
    budgets = {
        "max_attempts": max_attempts,
        "max_timeouts": max_timeouts,
        "max_crashes": max_crashes,
        "base": base,
        "cap": cap,
    }
    budgeted = {option: value for option, value in budgets.items() if value is not None}
    spec = KindSpec(
        name=name,
        timeout=timeout,
        stall_timeout=stall_timeout,
        bundle=bundle,
        limit=limit,
        rate=None if rate is None else _rate(name, rate),
        burst=burst,
        unique_while_running=unique_while_running,
        lane=lane,
        failure_codes=frozenset(failure_codes),
        fails_document=fails_document,
        fails_page=fails_page,
        needs_languages=needs_languages,
    )

    def declare(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, (spec, budgeted))
        return function

    return declare


class Registry(Mapping[str, Handler]):
    """The kinds that this process can run, by name."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._handlers: dict[str, Handler] = {}
        for entry in handlers:
            known = self._handlers.get(entry.spec.name)
            if known is not None and known.function is not entry.function:
                raise UsageError(
                    f"kind {entry.spec.name} has two handlers, {_place(known.function)} and {_place(entry.function)}",
                    "rename one of them, or take one module out of the setting `handlers`",
                )
            self._handlers[entry.spec.name] = entry

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)

    def specs(self) -> dict[str, KindSpec]:
        """What the node must know of the kinds, as plain data."""
        return {name: entry.spec for name, entry in self._handlers.items()}


def load(
    modules: Iterable[str] = (),
    *,
    retry: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    functions: Iterable[Callable[..., Any]] = (),
) -> Registry:
    """Imports the built-in handlers, those of the entry-point group ``batchproc.handlers`` and ``modules``.

    Args:
        modules: module names from the setting ``handlers``.
        retry: budgets and backoff of kinds that do not declare their own, as fields of ``KindSpec``.
        overrides: per kind the fields of its ``KindSpec`` that the settings replace.
        functions: further handlers, wherever they are.

    Raises:
        UsageError: a module cannot be imported, a kind is declared twice, or an override names an unknown kind.
    """
    found: list[Handler] = []
    for name in (*BUILT_IN, *modules):
        found.extend(_in_module(_import(name)))
    for point in entry_points(group="batchproc.handlers"):
        loaded = _load_entry_point(point)
        found.extend(_in_module(loaded) if isinstance(loaded, ModuleType) else [declared(loaded)])
    found.extend(map(declared, functions))
    registry = Registry(found)
    overrides = overrides or {}
    unknown = sorted(set(overrides) - set(registry))
    if unknown:
        raise UsageError(
            f"the setting kinds names {', '.join(unknown)}, which no handler declares",
            f"known kinds are {', '.join(sorted(registry))}; add the module that declares it to `handlers`",
        )
    return Registry(
        replace(entry, spec=replace(entry.spec, **{**(retry or {}), **entry.declared, **overrides.get(name, {})}))
        for name, entry in registry.items()
    )


def for_settings(settings: Settings, functions: Iterable[Callable[..., Any]] = ()) -> Registry:
    """The registry of these settings, and of further functions; raises as ``load`` does."""
    retry = settings.retry.model_dump(exclude={"max_node_losses"})
    overrides = {kind: override.changes() for kind, override in settings.kinds.items()}
    return load(settings.handlers, retry=retry, overrides=overrides, functions=functions)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a handler module may fail in any way while it is imported
        raise UsageError(
            f"the handler module {name} cannot be imported: {type(error).__name__}: {error}",
            "check the setting `handlers` and PYTHONPATH",
        ) from error


def _load_entry_point(point: Any) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # as above
        raise UsageError(
            f"the handler entry point {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}",
            "mend or uninstall the package that brings it",
        ) from error


def _in_module(module: ModuleType) -> list[Handler]:
    functions = [value for value in vars(module).values() if hasattr(value, _ATTRIBUTE) and callable(value)]
    return [declared(function) for function in functions]


def declared(function: Any) -> Handler:
    """What ``@handler`` says of a function, before any settings; raises UsageError where it does not stand above it."""
    found = getattr(function, _ATTRIBUTE, None)
    if found is None:
        raise UsageError(f"{_place(function)} is not a handler", "put @handler(...) above it")
    spec, budgets = found
    return Handler(spec, function, _args_model(function), budgets)


def _args_model(function: Callable[..., Any]) -> type[BaseModel]:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) < 2:
        return NoArgs
    annotation = typing.get_type_hints(function).get(parameters[1].name)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise UsageError(
            f"the args of {_place(function)} have no pydantic model", "annotate its second parameter with one"
        )
    return annotation


def _rate(kind: str, text: str) -> float:
    try:
        return parse_rate(text)
    except ValueError as error:
        raise UsageError(f"the rate of kind {kind} {error}", "rate=... of its handler") from None


def _place(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
