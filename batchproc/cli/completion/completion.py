"""``completion``: what makes a shell complete commands, options and values of batchproc."""

from __future__ import annotations

import click

from batchproc.cli.completion.shells import SHELLS, VARIABLE

_PROGRAM = "batchproc"


@click.command()
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options and values.

    Of tenants, kinds, campaigns and runs it offers those in the database, where that answers within a second.
    The shell must find batchproc by that name: bin/batchproc by its path, or a link to it in a folder of PATH.

    \b
    source <(batchproc completion bash)         in ~/.bashrc
    source <(batchproc completion zsh)          in ~/.zshrc, behind compinit
    batchproc completion fish | source          in ~/.config/fish/config.fish
    """
    root = click.get_current_context().find_root().command
    script = SHELLS[shell](root, {}, _PROGRAM, VARIABLE)
    # Not source(): for bash that starts one to ask for its version, which need not be the one that reads this.
    click.echo((script.source_template % script.source_vars()).strip())
