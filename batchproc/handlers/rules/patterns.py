"""Patterns and what they find in a text. Pure.

A finding is described for the auditor by the pattern and the page alone: never by the document's own words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

MAX_PAGE_CHARACTERS = 100_000
MAX_TEXT_CHARACTERS = 2_000_000
REASON_CHARACTERS = 500
GROUP_CHARACTERS = 100

_SOFT_HYPHEN = "\u00ad"


class SearchText:
    """Text made ready to be searched: NFKC (ligatures and wide letters become plain ones), no soft hyphens.

    Bounded, for a regex is run over text that anybody may have sent: of each page the first 100,000 characters,
    of all pages together 2,000,000.

    Args:
        pages: the text of each page.
        place: how a finding is placed in a reason, such as ``on page {page}``, ``page`` counting from 1.
    """

    def __init__(self, pages: Sequence[str], place: str = "on page {page}") -> None:
        self._place = place
        self.truncated = False
        self.pages = list(self._bounded(pages))

    def _bounded(self, pages: Sequence[str]) -> Iterator[str]:
        left = MAX_TEXT_CHARACTERS
        for page in pages:
            kept = page[: min(left, MAX_PAGE_CHARACTERS)]
            self.truncated |= len(kept) < len(page)
            left -= len(kept)
            # One character can become eighteen: cut again.
            yield unicodedata.normalize("NFKC", kept.replace(_SOFT_HYPHEN, ""))[:MAX_PAGE_CHARACTERS]

    @cached_property
    def flowing(self) -> list[str]:
        """The pages with every run of white space as one space, so that a phrase is found across lines."""
        return [" ".join(page.split()) for page in self.pages]

    @cached_property
    def folded(self) -> list[str]:
        """``flowing`` without the difference of upper and lower case."""
        return [page.casefold() for page in self.flowing]

    def first(self, pages: int | None) -> SearchText:
        """The first ``pages`` of it, all when None."""
        if pages is None or pages >= len(self.pages):
            return self
        part = copy(self)
        part.pages = self.pages[:pages]
        part.flowing = self.flowing[:pages]
        part.folded = self.folded[:pages]
        return part

    def place(self, index: int) -> str:
        """Where page ``index``, counted from 0, is."""
        return self._place.format(page=index + 1)


class Pattern(Protocol):
    """Something that a text has or has not."""

    def find(self, text: SearchText) -> str | None:
        """Why it matches, or None when it does not."""

    def regexes(self) -> Iterator[Regex]:
        """The regexes whose groups a template may use, in the order of the file."""


@dataclass(frozen=True)
class Literal:
    """A word or phrase as it stands, but for white space and, unless told, case."""

    literal: str
    case_sensitive: bool = False
    whole_word: bool = False

    @cached_property
    def _needle(self) -> str:
        flowing = " ".join(unicodedata.normalize("NFKC", self.literal.replace(_SOFT_HYPHEN, "")).split())
        return flowing if self.case_sensitive else flowing.casefold()

    def find(self, text: SearchText) -> str | None:
        for index, page in enumerate(text.flowing if self.case_sensitive else text.folded):
            if self._on(page):
                return f"literal {_quoted(self.literal)} {text.place(index)}"
        return None

    def _on(self, page: str) -> bool:
        start = page.find(self._needle)
        while start >= 0:
            end = start + len(self._needle)
            if not self.whole_word or not (_is_word(page[start - 1 : start]) or _is_word(page[end : end + 1])):
                return True
            start = page.find(self._needle, start + 1)
        return False

    def regexes(self) -> Iterator[Regex]:
        yield from ()


@dataclass(frozen=True)
class Regex:
    """A regular expression of Python's ``re``; ``^`` and ``$`` are the ends of a line.

    Raises (from ``compiled``, and so when a rule file is loaded): re.error, RecursionError, OverflowError.
    """

    regex: str
    case_sensitive: bool = False

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex, re.MULTILINE | (re.NOFLAG if self.case_sensitive else re.IGNORECASE))

    def find(self, text: SearchText) -> str | None:
        for index, page in enumerate(text.pages):
            if self.compiled.search(page):
                return f"regex {_quoted(self.regex)} {text.place(index)}"
        return None

    def groups(self, text: SearchText) -> dict[str, str]:
        """The named groups of the first match in which all of them took part, else of the first match."""
        first: dict[str, str] = {}
        for page in text.pages:
            for match in self.compiled.finditer(page):
                found = {name: value for name, value in match.groupdict().items() if value and value.strip()}
                if len(found) == len(self.compiled.groupindex):
                    return found
                first = first or found
        return first

    def regexes(self) -> Iterator[Regex]:
        yield self


@dataclass(frozen=True)
class AllOf:
    """Every part is found, each wherever it is."""

    parts: tuple[Pattern, ...]

    def find(self, text: SearchText) -> str | None:
        reasons = []
        for part in self.parts:
            reason = part.find(text)
            if reason is None:
                return None
            reasons.append(reason)
        return " and ".join(reasons)

    def regexes(self) -> Iterator[Regex]:
        for part in self.parts:
            yield from part.regexes()


@dataclass(frozen=True)
class AnyOf:
    """At least one part is found; the first of them is the reason."""

    parts: tuple[Pattern, ...]

    def find(self, text: SearchText) -> str | None:
        return next((reason for part in self.parts if (reason := part.find(text)) is not None), None)

    def regexes(self) -> Iterator[Regex]:
        for part in self.parts:
            yield from part.regexes()


@dataclass(frozen=True)
class NoneOf:
    """No part is found anywhere."""

    parts: tuple[Pattern, ...]

    def find(self, text: SearchText) -> str | None:
        found = any(part.find(text) is not None for part in self.parts)
        return None if found else f"none of {len(self.parts)} exclusions"

    def regexes(self) -> Iterator[Regex]:
        yield from ()


def named_groups(pattern: Pattern, text: SearchText) -> dict[str, str]:
    """What the named groups of the pattern's regexes hold in ``text``, each at most 100 characters.

    The first regex with a group of the name decides, whichever part of the pattern was the reason.
    """
    groups: dict[str, str] = {}
    for regex in pattern.regexes():
        if regex.compiled.groupindex.keys() - groups.keys():
            groups = regex.groups(text) | groups
    return {name: value[:GROUP_CHARACTERS] for name, value in groups.items()}


def bounded_reason(reason: str) -> str:
    """A reason of at most 500 characters."""
    return reason if len(reason) <= REASON_CHARACTERS else reason[: REASON_CHARACTERS - 1] + "…"


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _quoted(pattern: str) -> str:
    return f"'{pattern}'"
