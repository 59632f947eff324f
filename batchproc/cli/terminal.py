"""Progress for a person who watches: on stderr, and only on a terminal."""

from __future__ import annotations

import sys

import click

from batchproc.log import one_line


class StatusLine:
    """Lines that stay, and one at the end that is written over. Silent without a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._pending = False

    def tell(self, text: str) -> None:
        """A line that stays."""
        if self._shown:
            self.clear()
            click.echo(one_line(text), err=True)

    def show(self, text: str) -> None:
        """The line that the next call replaces."""
        if self._shown:
            click.echo(f"\r{one_line(text)}\x1b[K", nl=False, err=True)
            self._pending = True

    def clear(self) -> None:
        """Takes the last line away."""
        if self._pending:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._pending = False
