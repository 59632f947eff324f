"""The command line's entry: global options, the default command, and errors as one line."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeGuard

import click
from click.shell_completion import CompletionItem, add_completion_class

from batchproc.cli.commands import every_command
from batchproc.cli.completion import shells
from batchproc.cli.line import argv, crash
from batchproc.cli.line.global_options import FLAGS, ONLY_BEFORE, GlobalOptions
from batchproc.cli.line.lazy import LazyGroup
from batchproc.cli.shared.messages import say
from batchproc.core.errors import BatchprocError
from batchproc.core.shown_text import one_line, redact
from batchproc.version import __version__

if TYPE_CHECKING:
    import psycopg

_WITH_VALUE = ("--conf", "--database")
_FLAG = re.compile(r"--(?:verbose|quiet|help|version)|-[vqh].*")
"""One that all commands share, or several in one word: ``-vv``."""

add_completion_class(shells.Bash)


class DefaultsToRun(LazyGroup):
    """Without a command it is ``run``, and options of ``run`` work without naming it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        shared, as_json, rest = _apart(args)
        json = ["--json"] if as_json else []
        if rest is None or (not rest and ctx.resilient_parsing):
            line = shared  # the value of its last option is missing, or a shell asks what may come first
        elif rest and not rest[0].startswith("-"):
            line = [*shared, rest[0], *json, *rest[1:]]
        else:
            line = [*shared, "run", *json, *rest]
        return super().parse_args(ctx, line)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Behind ``batchproc -`` also the options of ``run``, which work without naming it."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            known = {item.value for item in found}
            of_run = self.commands["run"]
            with click.Context(of_run, ctx, "run") as inner:
                found += [item for item in of_run.shell_complete(inner, incomplete) if item.value not in known]
        return found


def _apart(args: list[str]) -> tuple[list[str], bool, list[str] | None]:
    """What stands first on a line and is for all commands, whether ``--json`` is there too, and what comes behind.

    The last is None where a line ends with an option that lacks its value.
    """
    shared: list[str] = []
    as_json = False
    rest = list(args)
    while rest:
        if rest[0] == "--json":
            as_json = True
            rest = rest[1:]
            continue
        if rest[0] in _WITH_VALUE:
            taken = 2
        elif _FLAG.fullmatch(rest[0]) or rest[0].startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            taken = 1
        else:
            break
        shared += rest[:taken]
        if len(rest) < taken:
            return shared, as_json, None
        rest = rest[taken:]
    return shared, as_json, rest


def _given_path(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """The file of ``--conf``; an empty name would be the current folder."""
    if value == "":
        raise click.BadParameter("it is empty: give a settings file, or leave it out", ctx, param)
    return None if value is None else Path(value)


@click.group(
    cls=DefaultsToRun,
    commands=every_command(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="batchproc")
@click.option("--conf", type=click.Path(), callback=_given_path, help="Settings file, laid over the defaults.")
@click.option("--database", metavar="URL", help="PostgreSQL database instead of the configured one.")
@click.option(*FLAGS["verbose"][0], is_flag=True, help=FLAGS["verbose"][1])
@click.option(*FLAGS["quiet"][0], is_flag=True, help=FLAGS["quiet"][1])
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
        shells.check(os.environ)
        result = cli.main(arguments, prog_name="batchproc", standalone_mode=False, obj=own_process)
    except BatchprocError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.Abort:
        return _fail("stopped", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        return _said(partial(click.echo, error.format_message(), err=True), 2)
    except click.ClickException as error:
        return _fail(_click_message(error), 2)
    except UnicodeError:
        return _fail("an argument or the database URL holds bytes that are not UTF-8", 2)
    except BrokenPipeError:
        # Whoever read the output has enough; nothing is wrong.
        _to_nowhere(sys.stdout)
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


def _to_nowhere(stream: TextIO) -> None:
    """Whatever it still holds would be written, and fail, when the process ends: and Python would change its code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str, code: int) -> int:
    lines = message.splitlines() or [message]
    return _said(partial(say, "\n".join(f"batchproc: {one_line(redact(line))}" for line in lines)), code)


def _said(saying: Callable[[], None], code: int) -> int:
    """Says it where it can be said; whoever does not read it still gets the code."""
    try:
        saying()
    except OSError:
        _to_nowhere(sys.stderr)
    return code


def _is_of_database(error: Exception) -> TypeGuard[psycopg.Error]:
    """Whether psycopg raised it, which then is loaded: a command that needs no database does not wait for that."""
    return "psycopg" in sys.modules and isinstance(error, sys.modules["psycopg"].Error)


def _database_reason(error: psycopg.Error) -> str:
    """The server's own sentence; what it adds as detail or context quotes rows and statements."""
    text = error.diag.message_primary or str(error)
    return redact(" ".join(text.split())) or type(error).__name__


def _click_message(error: click.ClickException) -> str:
    # Of a choice that is missing click lists the values below each other.
    message = re.sub(r"\n\s*", " ", error.format_message()).rstrip(".")
    if isinstance(error, click.NoSuchOption) and error.option_name in ONLY_BEFORE and error.ctx is not None:
        program, _, command = error.ctx.command_path.partition(" ")
        option = f"{error.option_name} {ONLY_BEFORE[error.option_name]}"
        return f"{error.option_name} stands before the command: {program} {option} {command}"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}; see: {error.ctx.command_path} --help"
    return message
