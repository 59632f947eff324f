"""Workflow rules: what is done with a document of certain properties. Pure.

Every rule sees the document as ``classify`` and people left it, not what other workflow rules add. So the order of
rules decides only who is first to set a field, and to run them again gives the same again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from batchproc.core.kinds import WORKFLOW
from batchproc.core.languages import AUTO
from batchproc.core.limits import CODE
from batchproc.documents.languages import split_languages
from batchproc.handlers.rules import template
from batchproc.handlers.rules.model import (
    FILLED,
    MatchOrText,
    Rule,
    Strict,
    TagNames,
    Template,
    Versioned,
    as_list,
    named_groups_of,
    shaped,
)
from batchproc.handlers.rules.patterns import Pattern, SearchText, bounded_reason, named_groups
from batchproc.setting_types import wrong

MAX_ARGS_CHARACTERS = 4000
MAX_VALUE_CHARACTERS = 1000
DOCUMENT_NAMES = frozenset({"title", "file_name", "external_id", "media_type", "language", "page_count", "document_id"})
"""What a template may name besides the groups of the rule's title regexes."""

_CODE = shaped(CODE.pattern, "at most 63 lower-case letters, digits and _, a letter first")


@dataclass(frozen=True, slots=True)
class Facts:
    """What rules can ask of a document. ``tags`` are those not set by workflows."""

    document_id: int
    tags: frozenset[str]
    title: str | None
    file_name: str
    media_type: str | None
    language: str | None
    page_count: int | None
    external_id: str | None

    def values(self) -> dict[str, str | None]:
        """The values of ``DOCUMENT_NAMES``."""
        return {name: None if (value := getattr(self, name)) is None else str(value) for name in sorted(DOCUMENT_NAMES)}


Globs = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...],
    Field(strict=False, max_length=100),
    FILLED,
    BeforeValidator(as_list),
]


class TagCondition(Strict):
    """``tags: [a, b]`` is short for ``tags: {all: [a, b]}``."""

    all_of: TagNames = Field(default=(), alias="all")
    any_of: TagNames = Field(default=(), alias="any")
    none_of: TagNames = Field(default=(), alias="none")

    def holds(self, tags: frozenset[str]) -> bool:
        return (
            tags.issuperset(self.all_of)
            and (not self.any_of or not tags.isdisjoint(self.any_of))
            and tags.isdisjoint(self.none_of)
        )


class PageCount(Strict):
    """Bounds, both included. A document whose pages are not counted yet is within none."""

    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> PageCount:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise wrong("min must not be more than max")
        return self

    def holds(self, pages: int | None) -> bool:
        if pages is None:
            return False
        return (self.min is None or pages >= self.min) and (self.max is None or pages <= self.max)


def _all_of_list(value: object) -> object:
    return {"all": value} if isinstance(value, str | list) else value


class When(Strict):
    """Conditions, of which all must hold; ``when: {}`` always does. Globs do not tell upper from lower case."""

    tags: Annotated[TagCondition, BeforeValidator(_all_of_list)] | None = None
    title: MatchOrText | None = None
    file_name: Globs | None = None
    media_type: Globs | None = None
    language: Globs | None = None
    page_count: PageCount | None = None
    external_id: bool | None = None

    @cached_property
    def title_pattern(self) -> Pattern | None:
        """What to look for in the title, if anything."""
        return None if self.title is None else self.title.pattern()

    def holds(self, facts: Facts) -> str | None:
        """The names of the conditions that hold, all of them, or None when one does not."""
        held: dict[str, bool | str | None] = {}
        if self.tags is not None:
            held["tags"] = self.tags.holds(facts.tags)
        if self.title_pattern is not None:
            held["title"] = self.title_pattern.find(SearchText([facts.title or ""], "in the title"))
        if self.file_name is not None:
            held["file_name"] = _is_any(facts.file_name, self.file_name)
        if self.media_type is not None:
            held["media_type"] = _is_any(facts.media_type, self.media_type)
        if self.language is not None:
            held["language"] = any(_is_any(part, self.language) for part in _languages(facts))
        if self.page_count is not None:
            held["page_count"] = self.page_count.holds(facts.page_count)
        if self.external_id is not None:
            held["external_id"] = (facts.external_id is not None) == self.external_id
        if not all(held.values()):
            return None
        return ", ".join(f"{value}" if isinstance(value, str) else name for name, value in held.items()) or "always"


def _languages(facts: Facts) -> list[str]:
    return [name for name in split_languages(facts.language or "") if name and name != AUTO]


def _is_any(value: str | None, globs: Iterable[str]) -> bool:
    return value is not None and any(fnmatchcase(value.casefold(), glob.casefold()) for glob in globs)


def _free_field(name: str) -> str:
    if name.startswith("pdf_"):
        raise wrong("is written by batchproc itself: choose a name that does not begin with pdf_")
    return name


class SetField(Strict):
    """Sets one of the document's free fields, in place of what it holds."""

    name: Annotated[str, _CODE, AfterValidator(_free_field)]
    value: Template


class Enqueue(Strict):
    """Enqueues a job for the document. Whether a handler of ``kind`` is known is not checked here."""

    kind: Annotated[str, _CODE]
    args: dict[str, JsonValue] = Field(default={})

    @model_validator(mode="after")
    def _ends(self) -> Enqueue:
        if self.kind == WORKFLOW or "trigger" in self.args:
            raise wrong("must not lead to workflow again: neither kind workflow nor an arg named trigger")
        try:
            length = len(json.dumps(self.args, allow_nan=False))
        except ValueError:
            raise wrong("args must not hold NaN or an infinity") from None
        if length > MAX_ARGS_CHARACTERS:
            raise wrong(f"args must be at most {MAX_ARGS_CHARACTERS} characters of JSON")
        return self


class Action(Strict):
    """One thing to do: exactly one of the keys."""

    tag: TagNames | None = None
    set_field: SetField | None = None
    enqueue: Enqueue | None = None

    @model_validator(mode="after")
    def _one(self) -> Action:
        if [self.tag, self.set_field, self.enqueue].count(None) != 2:
            raise wrong("needs exactly one of tag, set_field, enqueue")
        return self


class WorkflowRule(Rule):
    """One rule of a workflow file."""

    when: When | None = None
    actions: Annotated[tuple[Action, ...], Field(strict=False, max_length=50), FILLED] = Field(default=(), alias="do")

    @model_validator(mode="after")
    def _complete(self) -> WorkflowRule:
        if not self.enabled:
            return self
        if self.when is None:
            raise wrong("needs when; {} means always")
        if not self.actions:
            raise wrong("needs do")
        known = DOCUMENT_NAMES | (named_groups_of(self.when.title) if self.when.title else set())
        for action in self.actions:
            for name in template.names(action.set_field.value) if action.set_field else ():
                if name not in known:
                    raise wrong(
                        f"a value uses {{{name}}}, which is neither a group of its title regex nor one of "
                        + ", ".join(sorted(DOCUMENT_NAMES))
                    )
        return self


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule whose conditions hold: why, and what it does. Fields whose template lacks a value are left out."""

    rule: str
    version: str
    reason: str
    tags: tuple[str, ...]
    fields: dict[str, str]
    jobs: tuple[Enqueue, ...]


def apply(versioned: Versioned[WorkflowRule], facts: Facts) -> Firing | None:
    """What an enabled rule does with a document of these ``facts``, or None when it does not fire."""
    rule = versioned.rule
    assert rule.when is not None
    reason = rule.when.holds(facts)
    if reason is None:
        return None
    return Firing(
        rule=rule.name,
        version=versioned.version,
        reason=bounded_reason(f"when {reason}"),
        tags=tuple(dict.fromkeys(tag for action in rule.actions for tag in action.tag or ())),
        fields=_fields(rule, rule.when, facts),
        jobs=tuple(action.enqueue for action in rule.actions if action.enqueue),
    )


def _fields(rule: WorkflowRule, when: When, facts: Facts) -> dict[str, str]:
    values = facts.values()
    if when.title_pattern is not None:
        values |= named_groups(when.title_pattern, SearchText([facts.title or ""]))
    fields: dict[str, str] = {}
    for action in rule.actions:
        if action.set_field is not None and action.set_field.name not in fields:
            value = template.fill(action.set_field.value, values)
            if value is not None:
                fields[action.set_field.name] = value[:MAX_VALUE_CHARACTERS]
    return fields
