"""Progress for a person who watches: on stderr, and only on a terminal."""

from __future__ import annotations

import sys

import click
from rich.cells import cell_len, set_cell_size

from batchproc.cli.shared.messages import say, terminal_width
from batchproc.core.shown_text import one_line


def show_over(text: str) -> None:
    """Shows a line on stderr in place of the last one, cut to the terminal: what wraps cannot be written over."""
    text = one_line(text)
    if cell_len(text) >= (width := terminal_width()):
        text = set_cell_size(text, max(0, width - 2)) + "…"
    click.echo(f"\r{text}\x1b[K", nl=False, err=True)


class StatusLine:
    """Lines that stay, and one at the end that is written over. Silent without a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._pending = False

    def tell(self, text: str) -> None:
        """A line that stays."""
        if self._shown:
            self.clear()
            say(one_line(text))

    def show(self, text: str) -> None:
        """The line that the next call replaces."""
        if self._shown:
            show_over(text)
            self._pending = True

    def clear(self) -> None:
        """Takes the last line away."""
        if self._pending:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._pending = False
