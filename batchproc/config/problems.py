"""What is wrong with settings, in words: the place, the key, what is expected there. Values are never quoted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from batchproc.core.shown_text import one_line
from batchproc.settings import KindOverride, Settings
from batchproc.yaml_lines import Key, dotted

_MOST_SHOWN = 50
_MESSAGES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list such as [a, b]",
    "dict_type": "must be a section of names and values",
    "model_type": "must be a section of names and values",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "too_short": "must not be empty",
    "literal_error": "must be {expected}",
}
"""By pydantic's error types, with the names of its error contexts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person finds a key: a line of a file, or a variable or flag, which names a ``key`` itself."""

    source: str
    line: int | None = None
    key: Key | None = None

    def at(self, line: int) -> Place:
        """The same place at a line, if it is one that has lines."""
        return Place(self.source, line) if self.key is None else self

    def covers(self, key: Key) -> bool:
        """Whether this is where ``key`` is set, and not only something within it."""
        return self.key is None or key[: len(self.key)] == self.key

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. As text ``place: key: message``, without a key that the place already names."""

    place: Place
    key: Key
    message: str

    def __str__(self) -> str:
        shown = "" if not self.key or self.key == self.place.key else f"{one_line(dotted(self.key), limit=120)}: "
        return f"{self.place}: {shown}{self.message}"


def lines(problems: Iterable[Problem]) -> list[str]:
    """One line for each problem, those of a file in its order, at most some dozens."""
    ordered = sorted(problems, key=lambda problem: (problem.place.source, problem.place.line or 0))
    texts = list(dict.fromkeys(map(str, ordered)))
    if len(texts) > _MOST_SHOWN:
        texts[_MOST_SHOWN:] = [f"and {len(texts) - _MOST_SHOWN} more"]
    return texts


def refusal(detail: ErrorDetails, sources: Sequence[Mapping[Key, Place]]) -> Problem:
    """What pydantic refused, at the place where it was written.

    Args:
        detail: one of ``ValidationError.errors()``. Of our own validators' errors (`setting_types.wrong`), ``key`` in
            the context leads on to the wrong key, and ``related`` to one that it does not go together with.
        sources: the places in each layer, those that win first.
    """
    key: Key = tuple(part for part in detail["loc"] if part != "[key]")
    context = detail.get("ctx", {})
    if detail["type"] == "extra_forbidden":
        return Problem(_written(sources, key), key, _unknown(key))
    if detail["type"] != "setting":
        return Problem(_written(sources, key), key, _MESSAGES.get(detail["type"], "is not valid").format(**context))
    key += tuple(context.get("key", "").split())
    related = [tuple(context["related"].split("."))] if "related" in context else []
    return Problem(_written(sources, key, *related), key, detail["msg"])


def _written(sources: Sequence[Mapping[Key, Place]], *keys: Key) -> Place:
    """Where the winning layer sets one of the keys; else, where what encloses the first key begins."""
    for places in sources:
        for key in keys:
            if key in places and places[key].covers(key):
                return places[key]
    for end in range(len(keys[0]), 0, -1):
        for places in sources:
            if keys[0][:end] in places:
                return places[keys[0][:end]]
    return Place("settings")


def _unknown(key: Key) -> str:
    name = str(key[-1])
    siblings = list(_names(_model_at(key[:-1])))
    likely = [known for known in _all_keys(Settings) if known[-1] == name]
    likely += [(*key[:-1], close) for close in difflib.get_close_matches(name.lower(), siblings, n=1, cutoff=0.5)]
    if likely:
        return f"unknown setting, did you mean {one_line(dotted(likely[0]), limit=120)}?"
    return f"unknown setting, known here are {', '.join(siblings)}"


def _model_at(key: Key) -> type[BaseModel]:
    """The model of the section at ``key``."""
    if key[:1] == ("kinds",):
        return KindOverride
    model: type[BaseModel] = Settings
    for part in key:
        model = next(inner for name, inner in sections(model) if name == part)
    return model


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def sections(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The names and models of what in ``model`` is itself a section."""
    for name, field in zip(_names(model), model.model_fields.values(), strict=True):
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield name, field.annotation


def _all_keys(model: type[BaseModel]) -> Iterator[Key]:
    inner = dict(sections(model))
    for name in _names(model):
        yield (name,)
        if name in inner:
            yield from ((name, *key) for key in _all_keys(inner[name]))
