"""YAML as plain values with the line of every key, bounded so that no file can cost more than its size.

For files that people write and that are checked afterwards: a check that fails at a key finds the key's line here.
Faults are collected, not raised, so that a person sees all of them at once; none quotes a value of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from batchproc.core.limits import clean_text

Key = tuple[str | int, ...]
"""The way to a value: names of mappings, and places in lists counted from 0."""

_TEXT = "tag:yaml.org,2002:str"
_TAGGED = "!"  # stands for every tag that the text itself gives a value
MAX_NODES = 50_000
MAX_DEPTH = 40
MAX_NUMBER_CHARACTERS = 100
"""Of what is no text. No setting is a longer number, and to add up a megabyte of ``1:1:1...`` takes a minute."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong; ``line`` counts from 1, ``key`` is empty for the whole file."""

    line: int
    key: Key
    message: str


@dataclass(slots=True)
class Parsed:
    """What a text holds. With faults in it ``value`` is what could be read, None at worst."""

    value: Any = None
    lines: dict[Key, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, key: Sequence[str | int]) -> int:
        """The line of ``key``, or of the nearest thing around it that the text has."""
        inner = tuple(key)
        while inner and inner not in self.lines:
            inner = inner[:-1]
        return self.lines.get(inner, 1)


def parse(text: str) -> Parsed:
    """The one document in ``text``.

    Anchors and aliases are refused (they make cycles, and gigabytes of a few lines), tags (they ask for other things
    than plain values), more than 50,000 nodes, more than 40 levels, numbers of more than 100 characters, half a
    surrogate pair, a key that is not text, and a key that is set twice.
    """
    parsed = Parsed()
    try:
        loader = _BoundedLoader(text)
        node = loader.get_single_node()
        if node is not None:
            parsed.value = _Walk(parsed, loader).value(node, ())
    except _Refused as refused:
        parsed.faults.append(Fault(refused.line, (), str(refused)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        parsed.faults.append(Fault(mark.line + 1 if mark else 1, (), f"not valid YAML: {_without_quotes(error)}"))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        parsed.faults.append(Fault(line, (), "not valid YAML: a control character"))
    except (ValueError, OverflowError):
        # The scanner's own: an escape beyond Unicode, a version of thousands of digits.
        parsed.faults.append(Fault(1, (), "not valid YAML: an escape or a number that is out of range"))
    return parsed


def dotted(key: Sequence[str | int]) -> str:
    """``("rules", 2, "match")`` as ``rules[2].match``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


class _Refused(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes, refusing what could make the tree larger or deeper than a person writes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # types-PyYAML leaves it bare
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Refused(line, "anchors and aliases (& and *) are not supported")
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            raise _Refused(line, f"more than {MAX_NODES} values")
        if self._depth > MAX_DEPTH:
            raise _Refused(line, f"nested more than {MAX_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and getattr(event, "tag", None) is not None:
            node.tag = _TAGGED
        return node


class _Walk:
    """Builds plain values from nodes, noting the line of every key."""

    def __init__(self, parsed: Parsed, loader: yaml.SafeLoader) -> None:
        self._parsed = parsed
        self._loader = loader

    def value(self, node: yaml.Node, key: Key) -> Any:
        if node.tag == _TAGGED:
            self._fault(node, key, "not a value that can be read: tags (!) are not supported")
            return None
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*key, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if node.tag == _TEXT:
            if clean_text(node.value)[1]:
                self._fault(node, key, "holds NUL or half a surrogate pair, which cannot be stored")
            return node.value
        if len(node.value) > MAX_NUMBER_CHARACTERS:
            self._fault(node, key, f"longer than {MAX_NUMBER_CHARACTERS} characters; if it is text it needs quotes")
            return None
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            self._fault(node, key, "not a value that can be read; text of this form needs quotes")
            return None

    def _item(self, node: yaml.Node, key: Key) -> Any:
        self._parsed.lines[key] = node.start_mark.line + 1
        return self.value(node, key)

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = self.value(name_node, key) if isinstance(name_node, yaml.ScalarNode) else None
            if not isinstance(name, str):
                self._fault(name_node, key, "a key must be text")
                continue
            inner = (*key, name)
            if name in values:
                self._fault(name_node, inner, f"set twice, first in line {self._parsed.lines[inner]}")
            self._parsed.lines[inner] = name_node.start_mark.line + 1
            values[name] = self.value(value_node, inner)
        return values

    def _fault(self, node: yaml.Node, key: Key, message: str) -> None:
        self._parsed.faults.append(Fault(node.start_mark.line + 1, key, message))


def _without_quotes(error: yaml.MarkedYAMLError) -> str:
    """The parser's reason without the names that it quotes from the file."""
    reason = re.sub(r"\b(alias|anchor|handle|tag|escape)\b.*", r"\1", error.problem or "unreadable")
    context = f" ({error.context})" if error.context and not re.search("['\"]", error.context) else ""
    return " ".join((reason + context).split())[:200]
