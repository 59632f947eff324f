"""The commands that the documentation tells of, those of the examples in ``conf`` too, and how they are parsed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator

import click

from batchproc.cli.main import cli
from batchproc.packaged import packaged_conf
from tests.cli.documentation import PAGES, code_of, command_lines, options_of, steps

PLACE = re.compile(r"\b(?:JOB_ID|ID|SLUG|KIND|ROOT|FILE|PATH|REVISION|BEFORE)\b|\[[AB]\]")
"""What stands for something of the reader's."""


def told() -> frozenset[str]:
    """Every command of ours that a page or an example names, without the program, a pipe and what explains it."""
    of_pages = {_alone(line) for page in PAGES for line in command_lines(page)}
    return frozenset(of_pages | set(of_conf()) - {""})


def of_sessions() -> frozenset[str]:
    """Those of them that are run in the sessions of a page, and compared with what it shows."""
    calls = (re.search(r"(?:^|[\s/])batchproc +([a-z-].*)", step.command) for page in PAGES for step in steps(page))
    return frozenset(_alone(found[1]) for found in calls if found)


def of_blocks() -> frozenset[str]:
    """Those that stand in a block of their own: to be typed, or put into a crontab."""
    text = "\n\n".join(page.read_text("utf-8") for page in PAGES)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return frozenset(
        _alone(line) for line in re.findall(r"^ {4,}(?:.*[\s/])?batchproc ([a-z-].*)$", text, re.MULTILINE)
    )


def of_conf() -> Iterator[str]:
    """Those of the examples for cron, systemd and Prometheus, and of the comments there."""
    for path in sorted(packaged_conf().rglob("*")):
        if path.is_file():
            text = re.sub(r"(?<=\S)\n(?:# *| {8,})(?=\S)", " ", path.read_text("utf-8"))  # sentences over several lines
            for called in re.finditer(r"\bbatchproc +(?=([a-z-][^`\"(\n]*))", text):
                if command := longest(called[1]):
                    yield command


def options_alone() -> frozenset[str]:
    """The pieces of code that begin with an option, which is of a command that the sentence tells."""
    return frozenset(code for page in PAGES for code in code_of(page) if re.match(r"--[a-z]", code))


def shortcoming(line: str) -> click.UsageError | None:
    """What the real command line's parser has against ``line``."""
    words = shlex.split(PLACE.sub("1", line))
    if words and words[0].startswith("--"):
        words.insert(0, "run")  # as the command line itself has it
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _parse(words)
    except click.exceptions.Exit as end:  # --help; or what a monitoring plugin does instead of an error
        return click.UsageError(f"exits with {end.exit_code}") if end.exit_code else None
    except click.UsageError as error:
        return error
    return None


def lacks_something(error: click.UsageError | None) -> bool:
    """Whether it only wants more than what stands there: a name in a sentence, not something to be typed."""
    return isinstance(error, click.MissingParameter | click.exceptions.NoArgsIsHelpError) or (
        isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message
    )


def takes(command: click.Command, words: list[str]) -> bool:
    """Whether ``command`` or one below it takes ``words``, if need be with more."""
    if isinstance(command, click.Group):
        return words[0] in options_of(command) or any(takes(inner, words) for inner in command.commands.values())
    if command.context_settings.get("ignore_unknown_options"):
        return False  # they are another program's
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            command.make_context(command.name, list(words)).close()
    except click.exceptions.Exit:
        return True  # --help
    except click.UsageError as error:
        return lacks_something(error)
    return True


def _parse(words: list[str]) -> None:
    found: click.Command = cli
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(click.Context(cli, info_name="batchproc", **cli.context_settings))
        while isinstance(found, click.Group):
            if not words:
                raise click.exceptions.NoArgsIsHelpError(context)
            name, inner, words = found.resolve_command(context, words)
            assert inner is not None
            found, parent = inner, context
            if isinstance(found, click.Group):
                context = stack.enter_context(click.Context(found, info_name=name, parent=parent))
            else:
                stack.enter_context(found.make_context(name, list(words), parent=parent))


def _alone(line: str) -> str:
    return re.split(r"\s{2,}|\s[|>#]", line)[0].strip()


def longest(text: str) -> str | None:
    """The command that ``text`` begins with, before it goes on as a sentence.

    A sentence does not go on with an option: the command goes to the last one at least, right or wrong. Nor does it
    with a word behind a group's name, where a command of that group is to stand.
    """
    words: list[str] = []
    for word in text.split():
        if (bare := word.rstrip(",.;:\\")) in ("and", "batchproc") or not re.fullmatch(r"[\w./+-]+(?::\d\d)?", bare):
            break
        words.append(bare)
        if bare != word:
            break
    if not words or (words[0] not in cli.commands and not words[0].startswith("--")):
        return None
    of_group = words[:2] if isinstance(cli.commands.get(words[0]), click.Group) else words[:1]
    least = max(len(of_group), *(place + 1 for place, word in enumerate(words) if word.startswith("-")), 1)
    for end in range(len(words), least, -1):
        line = " ".join(words[:end])
        error = shortcoming(line)
        if error is None or lacks_something(error):
            return line
    return " ".join(words[:least])
