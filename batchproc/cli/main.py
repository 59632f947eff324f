"""The command line's entry: global options, the default command, and errors as one line."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import click
from click.shell_completion import CompletionItem, add_completion_class

from batchproc.cli import argv, crash
from batchproc.cli.commands import every_command
from batchproc.cli.global_options import GlobalOptions
from batchproc.cli.lazy import LazyGroup
from batchproc.cli.shells import Bash
from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line, redact
from batchproc.version import __version__

if TYPE_CHECKING:
    import psycopg

_WITH_VALUE = ("--conf", "--database")
_FLAGS = ("-v", "--verbose", "-q", "--quiet")

add_completion_class(Bash)


class DefaultsToRun(LazyGroup):
    """Without a command it is ``run``, and options of ``run`` work without naming it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        position = 0
        while position < len(args):
            token = args[position]
            if token in _WITH_VALUE:
                position += 2
            elif token in _FLAGS or token.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
                position += 1
            else:
                break
        rest = args[position:]
        if rest[:1] == ["--json"] and len(rest) > 1 and rest[1] in self.commands:
            rest = [rest[1], "--json", *rest[2:]]
            args = [*args[:position], *rest]
        if not rest and ctx.resilient_parsing:
            pass  # a shell asks what may come first
        elif not rest or (rest[0].startswith("-") and rest[0] not in ("--help", "-h", "--version")):
            args = [*args[:position], "run", *rest]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Behind ``batchproc -`` also the options of ``run``, which work without naming it."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            known = {item.value for item in found}
            of_run = self.commands["run"]
            with click.Context(of_run, ctx, "run") as inner:
                found += [item for item in of_run.shell_complete(inner, incomplete) if item.value not in known]
        return found


@click.group(
    cls=DefaultsToRun,
    commands=every_command(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="batchproc")
@click.option("--conf", type=click.Path(path_type=Path), help="Settings file, laid over the defaults.")
@click.option("--database", metavar="URL", help="PostgreSQL database instead of the configured one.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@click.option("-q", "--quiet", is_flag=True, help="Log warnings and errors only; no progress.")
@click.pass_context
def cli(ctx: click.Context, conf: Path | None, database: str | None, verbose: bool, quiet: bool) -> None:
    """Batch processor for multi-tenant document archives on PostgreSQL.

    Without a command it runs what is due and exits, as from cron.

    \b
    batchproc demo                              see it work on its own documents
    batchproc tenants add acme                  then: import scans/ --tenant acme
    batchproc                                   run everything that is due
    batchproc --once 42                         run one job, its outcome shown
    batchproc documents text 7                  the recognised text
    """
    ctx.obj = GlobalOptions(conf, database, verbose, quiet, own_process=ctx.obj is True)


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    argv.mask_passwords()
    crash.hide_passwords_in_tracebacks()
    try:
        sys.exit(run(sys.argv[1:], own_process=True))
    finally:
        # Python looks for garbage once more as it ends, among all that was imported: a fifth of a short command's time.
        gc.freeze()


def run(arguments: list[str], *, own_process: bool = False) -> int:
    """Runs the command line and returns its exit code; every known error is one line on stderr.

    With ``own_process`` the command has this process to itself: ``run`` makes it the guardian of its node, which
    returns from here in a process of its own.
    """
    _open_closed_streams()
    try:
        result = cli.main(arguments, prog_name="batchproc", standalone_mode=False, obj=own_process)
    except BatchprocError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.Abort:
        return _fail("stopped", 130)
    except click.ClickException as error:
        return _fail(_click_message(error), 2)
    except UnicodeError:
        return _fail("an argument or the database URL holds bytes that are not UTF-8", 2)
    except BrokenPipeError:
        # Whoever read the output has enough; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"cannot go on: {error.strerror or type(error).__name__}: {error.filename or 'output'}", 3)
    except Exception as error:
        if not _is_of_database(error):
            raise
        return _fail(f"the database refused: {_database_reason(error)}: check it with: batchproc doctor", 3)
    return result if isinstance(result, int) else 0


def _open_closed_streams() -> None:
    """Gives us those of the three standard streams that whoever started this has closed.

    Else the next thing that is opened would have a stream's number: every process started from here would take a
    connection for its output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for the rest of the process


def _fail(message: str, code: int) -> int:
    lines = message.splitlines() or [message]
    for line in lines:
        click.echo(f"batchproc: {one_line(redact(line))}", err=True)
    return code


def _is_of_database(error: Exception) -> TypeGuard[psycopg.Error]:
    """Whether psycopg raised it, which then is loaded: a command that needs no database does not wait for that."""
    return "psycopg" in sys.modules and isinstance(error, sys.modules["psycopg"].Error)


def _database_reason(error: psycopg.Error) -> str:
    """The server's own sentence; what it adds as detail or context quotes rows and statements."""
    text = error.diag.message_primary or str(error)
    return redact(" ".join(text.split())) or type(error).__name__


def _click_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}; see: {error.ctx.command_path} --help"
    return message
