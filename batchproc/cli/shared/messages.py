"""What is said on stderr: errors, warnings, notes and questions. On a terminal within its width."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

_USUAL_WIDTH = 80
_LEAST_WIDTH = 20
_INDENT = 2
_COMMAND_INDENT = 4
"""Of a command on a line of its own, as in the summary of a run: what is set in so far is to be copied."""
# Words of a command end before the punctuation of the sentence that it stands in, and before its next words.
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s,;:()'"]|[,;:](?=\S))+"""
_PROGRAM = r"(?:[A-Z_]+=\S+[ ])*(?:(?:bin/)?batchproc|dmesg|chmod|pip[ ]install|python[ ]-c)"
_COMMAND = rf"{_PROGRAM}(?:[ ](?!(?:and|or|then)\b){_WORD})+"
_PIECE = rf"(?P<gap> *)(?:(?P<opened>\(?)(?P<command>{_COMMAND})(?P<behind>[^ ]*)|(?P<word>[^ ]+))"
"""Not compiled before something is said: most starts say nothing, and none shall wait for it."""


def say(text: str) -> None:
    """Says it on stderr: as it is where that is no terminal, for ``grep`` and for mails; else broken between words.

    Args:
        text: lines with nothing in them that could move a cursor.
    """
    for line in _fitted(text, spare=0):
        click.echo(line, err=True)


def confirm(question: str) -> None:
    """Asks on stderr.

    Raises:
        click.Abort: the answer is no.
    """
    click.confirm("\n".join(_fitted(question, spare=len(" [y/N]: "))), abort=True, err=True)


def terminal_width() -> int:
    """Of the terminal that stderr is: stdout may be another, or a file."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def wrapped(text: str, width: int, *, indent: int = _INDENT, command_indent: int = _COMMAND_INDENT) -> list[str]:
    """A line as several of at most ``width`` terminal cells, broken at spaces, all but the first set in.

    A command is never broken. Where it does not fit behind what precedes it, it gets a line of its own, to be copied
    from, without the comma behind it; one that is longer than a line is left to the terminal, which copies it whole.
    """
    from rich.cells import cell_len  # only a terminal needs it, and a start is to import little

    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    has_room = False
    for piece in _pieces(text):
        if has_room and cell_len(longer := lines[-1] + piece.gap + piece.text) <= width:
            lines[-1] = longer
        elif piece.alone and lines:
            set_in = max(0, min(command_indent, width - cell_len(piece.alone)))
            lines.append(" " * set_in + piece.alone)
            has_room = False
            continue
        else:
            lines.append((" " * indent if lines else piece.gap) + piece.text)
        has_room = True
    return lines


@dataclass(frozen=True)
class _Piece:
    """What is not broken: a word, or a command with what stands close to it; ``alone`` is the command without that.

    ``gap`` are the spaces before it.
    """

    gap: str
    text: str
    alone: str = ""


def _pieces(text: str) -> Iterator[_Piece]:
    for found in re.finditer(_PIECE, text):
        gap, opened, command, behind, word = found.group("gap", "opened", "command", "behind", "word")
        if command is None:
            yield _Piece(gap, word)
        else:
            # What is closed by a parenthesis keeps it: alone on the next line that would belong to nothing.
            yield _Piece(gap, opened + command + behind, "" if opened or behind.strip(",;:") else command)


def _fitted(text: str, *, spare: int) -> list[str]:
    if not sys.stderr.isatty():
        return [text]
    width = max(_LEAST_WIDTH, terminal_width() - spare)
    return [part for line in text.splitlines() or [""] for part in wrapped(line, width)]
