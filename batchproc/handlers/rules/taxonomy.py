"""Taxonomy rules: tags and titles by what a document's text holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator

from batchproc.handlers.rules import template
from batchproc.handlers.rules.model import MatchOrText, Rule, TagNames, Template, Versioned, named_groups_of
from batchproc.handlers.rules.patterns import Pattern, SearchText, bounded_reason, named_groups
from batchproc.setting_types import wrong


class TaxonomyRule(Rule):
    """One rule of a taxonomy file.

    ``title`` may use the named groups of the rule's regexes. ``first_pages`` bounds what is looked at.
    """

    match: MatchOrText | None = None
    tags: TagNames = ()
    title: Template | None = None
    first_pages: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> TaxonomyRule:
        if not self.enabled:
            return self
        if self.match is None:
            raise wrong("needs match")
        if not self.tags and self.title is None:
            raise wrong("needs tags or title, or it would do nothing")
        known = named_groups_of(self.match)
        unknown = [name for name in template.names(self.title or "") if name not in known]
        if unknown:
            raise wrong(f"title uses {{{unknown[0]}}}, but no regex of the rule (outside of none) has such a group")
        return self

    @cached_property
    def pattern(self) -> Pattern:
        """What to look for; only an enabled rule has one."""
        assert self.match is not None
        return self.match.pattern()


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that matched: why, without a word of the document, and the title it makes of it, if any."""

    rule: str
    version: str
    reason: str
    tags: tuple[str, ...]
    title: str | None


def apply(versioned: Versioned[TaxonomyRule], text: SearchText) -> Finding | None:
    """What an enabled rule finds in a document's text, or None."""
    rule = versioned.rule
    text = text.first(rule.first_pages)
    reason = rule.pattern.find(text)
    if reason is None:
        return None
    title = None if rule.title is None else template.fill(rule.title, named_groups(rule.pattern, text))
    return Finding(rule.name, versioned.version, bounded_reason(reason), rule.tags, title)
