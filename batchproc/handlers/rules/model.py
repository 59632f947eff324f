"""What rules of both sorts are made of, as validated models. Pure.

A refusal says what is expected at its key; ``reading`` adds file and line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from batchproc.handlers.rules import template
from batchproc.handlers.rules.patterns import AllOf, AnyOf, Literal, NoneOf, Pattern, Regex
from batchproc.setting_types import wrong

MAX_RULES = 1000
MAX_PATTERN_CHARACTERS = 1000


class Strict(BaseModel):
    """Frozen, unknown keys refused, no silent conversion: ``tags: no`` is not a text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def shaped(pattern: str, expected: str) -> AfterValidator:
    """Refuses a text that does not match ``pattern`` as a whole, saying what is ``expected``."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(f"must be {expected}")
        return value

    return AfterValidator(check)


class Rule(Strict):
    """What every rule has. ``enabled: false`` in a tenant's file takes away the rule of that name."""

    name: Annotated[str, shaped(r"\w[\w.-]{0,62}", "at most 63 letters, digits, and _ . - after the first")]
    enabled: bool = True


RuleType = TypeVar("RuleType", bound=Rule)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[RuleType]):
    """A rule with the version of its file: what the file says, and the start of its content's SHA-256."""

    rule: RuleType
    version: str


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RuleFileContent(Strict, Generic[RuleType]):
    """One rule file."""

    version: Annotated[
        str,
        shaped(r"\w[\w.:+-]{0,39}", "at most 40 letters, digits, and _ . : + - after the first"),
        BeforeValidator(_number_as_text),
    ]
    rules: Annotated[tuple[RuleType, ...], Field(strict=False, max_length=MAX_RULES)]


def as_list(value: object) -> object:
    """A single text as a list of it; anything else as it is."""
    return [value] if isinstance(value, str) else value


Items = TypeVar("Items", bound=tuple[object, ...])


def _filled(values: Items) -> Items:
    if not values:
        raise wrong("must not be empty")
    return values


FILLED = AfterValidator(_filled)
"""Refuses an empty list; min_length would also complain of a list whose entries are all refused already."""


def _visible(value: str) -> str:
    if not any(character.isprintable() and not character.isspace() for character in value):
        raise wrong("must hold something to look for")
    return value


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise wrong("must not name anything twice")
    return values


def _well_formed(value: str) -> str:
    try:
        template.names(value)
    except ValueError as error:
        raise wrong(str(error)) from None
    return value


TagName = Annotated[
    str,
    shaped(
        r"\w([\w .:/&+-]{0,61}[\w+])?", "at most 63 letters, digits, spaces and _ . : / & + -, none of them outside"
    ),
]

TagNames = Annotated[
    tuple[TagName, ...],
    Field(strict=False, max_length=50),
    FILLED,
    AfterValidator(_distinct),
    BeforeValidator(as_list),
]
"""One tag or a list of them."""

Template = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_well_formed)]
"""A text with ``{name}`` in it; see ``template``."""


class Match(Strict):
    """What to look for in a text; several sorts of search in one mapping must all succeed.

    ``case_sensitive`` and ``whole_word`` hold for everything inside, until that says otherwise.
    """

    literal: Annotated[str, Field(max_length=MAX_PATTERN_CHARACTERS), AfterValidator(_visible)] | None = None
    regex: Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS)] | None = None
    any_of: Matches | None = Field(default=None, alias="any")
    all_of: Matches | None = Field(default=None, alias="all")
    none_of: Matches | None = Field(default=None, alias="none")
    case_sensitive: bool | None = None
    whole_word: bool | None = None

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str | None) -> str | None:
        if regex is None:
            return None
        try:
            compiled = Regex(regex).compiled
        except (re.error, OverflowError) as error:
            raise wrong(f"is not a regular expression: {error}") from None
        except RecursionError:
            raise wrong("is not a regular expression: nested too deeply") from None
        if compiled.search(""):
            raise wrong("matches empty text, and so every document: let it ask for at least one character")
        return regex

    @model_validator(mode="after")
    def _looks_for_something(self) -> Match:
        others = any(search is not None for search in (self.literal, self.any_of, self.all_of, self.none_of))
        if self.regex is None and not others:
            raise wrong("needs one of literal, regex, any, all, none")
        if self.whole_word and not others:
            raise wrong(r"whole_word is for literals: write \b at the ends of the regex")
        return self

    def pattern(self, *, case_sensitive: bool = False, whole_word: bool = False) -> Pattern:
        """This as a pattern; the arguments are what is inherited from around it."""
        case_sensitive = case_sensitive if self.case_sensitive is None else self.case_sensitive
        whole_word = whole_word if self.whole_word is None else self.whole_word

        def inner(matches: Matches) -> tuple[Pattern, ...]:
            return tuple(match.pattern(case_sensitive=case_sensitive, whole_word=whole_word) for match in matches)

        parts: list[Pattern] = []
        if self.literal is not None:
            parts.append(Literal(self.literal, case_sensitive, whole_word))
        if self.regex is not None:
            parts.append(Regex(self.regex, case_sensitive))
        if self.any_of is not None:
            parts.append(AnyOf(inner(self.any_of)))
        if self.all_of is not None:
            parts.append(AllOf(inner(self.all_of)))
        if self.none_of is not None:
            parts.append(NoneOf(inner(self.none_of)))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _literal_shorthand(value: object) -> object:
    return {"literal": value} if isinstance(value, str) else value


MatchOrText = Annotated[Match, BeforeValidator(_literal_shorthand)]
"""A search; a plain text is short for ``{literal: text}``."""

Matches = Annotated[tuple[MatchOrText, ...], Field(strict=False, max_length=500), FILLED, BeforeValidator(as_list)]

Match.model_rebuild()


def named_groups_of(match: Match) -> set[str]:
    """The groups that a template may use: those of every regex that is not under ``none``."""
    return {name for regex in match.pattern().regexes() for name in regex.compiled.groupindex}
