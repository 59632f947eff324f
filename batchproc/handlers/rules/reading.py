"""What a rule file holds, checked as a whole: everything wrong with it at once, each with line and key. Pure."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from batchproc.core.shown_text import one_line
from batchproc.handlers.rules.model import RuleFileContent, RuleType, Versioned
from batchproc.yaml_lines import Key, Parsed, dotted, parse

MAX_FILE_BYTES = 1_000_000

Found = tuple[int, Key, str]
"""A problem: its line, its key, what is wrong."""

_MESSAGES = {
    "missing": "is required",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list such as [a, b]",
    "dict_type": "must hold names and values",
    "model_type": "must hold names and values",
    "greater_than_equal": "must be at least {ge}",
    "string_too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_long": "must have at most {max_length} characters",
    "invalid-json-value": "must be a JSON value; put dates in quotes",
}
"""By pydantic's error types, with the names of its error contexts."""


@dataclass(frozen=True, slots=True)
class RuleFile(Generic[RuleType]):
    """What a rule file holds; with ``problems`` it is not to be used."""

    rules: tuple[Versioned[RuleType], ...] = ()
    problems: tuple[str, ...] = ()


def read(content: bytes, source: str, model: type[RuleType]) -> RuleFile[RuleType]:
    """The rules in a file's ``content``; an empty file has none. ``source`` is its name in problems."""
    source = one_line(source)
    if len(content) > MAX_FILE_BYTES:
        return RuleFile(problems=(f"{source}: has more than {MAX_FILE_BYTES} bytes",))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return RuleFile(problems=(f"{source}:{line}: is not UTF-8",))
    parsed = parse(text)
    found = [(fault.line, fault.key, fault.message) for fault in parsed.faults]
    checked: RuleFileContent[RuleType] | None = None
    if parsed.value is not None:
        found += _repeated(parsed)
        found += [
            (parsed.line(key), key, "has no value: give one, or leave the key out") for key in _empty(parsed.value)
        ]
        told = {key for _, key, _ in found}
        try:
            checked = RuleFileContent[model].model_validate(parsed.value)  # type: ignore[valid-type]  # a type in a variable
        except ValidationError as error:
            refused = (_refusal(detail, parsed, model) for detail in error.errors(include_url=False))
            found += [one for one in refused if one[1] not in told]
    if found:
        lines = [
            f"{source}:{line}: {dotted(key)}{': ' if key else ''}{text}"
            for line, key, text in sorted(found, key=itemgetter(0))
        ]
        return RuleFile(problems=tuple(one_line(line, limit=400) for line in dict.fromkeys(lines)))
    if checked is None:
        return RuleFile()
    version = f"{checked.version}+{hashlib.sha256(content).hexdigest()[:12]}"
    return RuleFile(tuple(Versioned(rule, version) for rule in checked.rules))


def _repeated(parsed: Parsed) -> Iterator[Found]:
    """Names that two rules of the file have, each at its second place."""
    rules = parsed.value.get("rules") if isinstance(parsed.value, dict) else None
    seen: Counter[str] = Counter()
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        name = rule.get("name") if isinstance(rule, dict) else None
        if isinstance(name, str):
            seen[name] += 1
            if seen[name] > 1:
                key = ("rules", index, "name")
                yield parsed.line(key), key, f"another rule above is named {name} too"


def _empty(value: object, key: Key = ()) -> Iterator[Key]:
    """Keys without a value, which would count as left out, and so make a condition that always holds."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _empty(item, (*key, index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if item is None:
                yield (*key, name)
            elif name != "args":
                yield from _empty(item, (*key, name))


def _refusal(detail: ErrorDetails, parsed: Parsed, model: type[BaseModel]) -> Found:
    key: Key = detail["loc"]
    kind = detail["type"]
    if kind == "extra_forbidden":
        message = _unknown(key, model)
    elif kind == "setting":
        message = detail["msg"]
    else:
        message = _MESSAGES.get(kind, "is not valid").format(**detail.get("ctx", {}))
    return parsed.line(key), key, message


def _unknown(key: Key, model: type[BaseModel]) -> str:
    known = [field.alias or name for name, field in _model_at(key[:-1], model).model_fields.items()]
    close = difflib.get_close_matches(str(key[-1]).lower(), known, n=1)
    return "is unknown" + (f", did you mean {close[0]}?" if close else f", known here are {', '.join(known)}")


def _model_at(key: Key, rule: type[BaseModel]) -> type[BaseModel]:
    """The model of what is at ``key`` of a rule file."""
    if len(key) < 2:
        return RuleFileContent
    model = rule
    for part in key[2:]:
        if isinstance(part, str):
            field = next(field for name, field in model.model_fields.items() if part == (field.alias or name))
            model = next(_models_in(field.annotation))
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
