"""``import``: registers files as documents and enqueues their OCR."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain

import click

from batchproc.cli.importing.output import ImportOutput
from batchproc.cli.importing.progress import ImportProgress
from batchproc.cli.importing.watch import watch_folders
from batchproc.cli.shared.ages import Age
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import json_option
from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.core.kinds import OCR
from batchproc.documents.languages import hint_problem, split_languages
from batchproc.documents.paths import terminal_path
from batchproc.ops.importing import Import, Imported, ImportOptions
from batchproc.ops.languages import LanguageCheck

_PATHS_TOLD = 20
_SETTLE = timedelta(seconds=10)


@click.command("import")
@click.argument("paths", nargs=-1, type=click.Path(path_type=bytes), metavar="PATH...")
@click.option("--tenant", required=True, metavar="SLUG", help="Whose documents they are.")
@click.option("-r", "--recursive", is_flag=True, help="Of folders take all files below, not only the direct ones.")
@click.option(
    "--language", metavar="LANG[+LANG]", help="Language of the documents: deu, deu+eng, or auto+deu+eng to detect it."
)
@click.option("--no-jobs", is_flag=True, help="Register only; enqueue nothing.")
@click.option("--manifest", type=click.Path(path_type=bytes), metavar="FILE", help="Import what FILE names, see below.")
@click.option("--lane", type=click.Choice(["interactive", "bulk"]), help="The lane of the jobs.  [default: bulk]")
@click.option("--priority", type=click.IntRange(1, 9), default=5, show_default=True, help="Of the jobs, 1 is first.")
@click.option("--watch", is_flag=True, help="Go on: import what appears in the folders, until it is stopped.")
@click.option(
    "--settle", type=Age(), metavar="DURATION", help="With --watch: how long a file has to rest.  [default: 10s]"
)
@click.option("--reread", is_flag=True, help="Read files, too, that have not changed since an import read them.")
@json_option
@pass_app
def import_(
    app: App,
    paths: tuple[bytes, ...],
    tenant: str,
    recursive: bool,
    language: str | None,
    no_jobs: bool,
    manifest: bytes | None,
    lane: str | None,
    priority: int,
    watch: bool,
    settle: timedelta | None,
    reread: bool,
    as_json: bool,
) -> int:
    """Register files as documents of a tenant and enqueue their OCR.

    \b
    batchproc import /srv/scans --tenant acme -r       all files below
    batchproc import --manifest new.ndjson --tenant acme
    batchproc import /srv/incoming --tenant acme --watch

    Files stay where they are and are only ever read. A folder gives its direct files, sorted; those whose name begins
    with a dot are left out unless named themselves, and links to folders are not followed. A link to a file is
    resolved, and has to stay below the storage roots (setting storage.roots; without any, the folder given or the
    folder of the file given); one that is found in a folder has to stay below that folder. The same content again,
    within a tenant, adds a path to the document that is there, and no job, unless its OCR had failed because the
    original was missing, changed or could not be opened. Names that begin with a dash come after --.

    A language that neither this machine nor a node that runs now has is warned of; the files are imported all the same.

    However many files there are, each is told when it has been read, and memory stays small. An import that was cut
    short is given again: it goes on where it was, without reading again what has not changed since (--reread does).
    The jobs of an import are a campaign.

    --watch is for folders that scanners write into. A file is imported when it has kept its size and times for the
    time of --settle and nobody on this machine has it open for writing; one without content after a minute; one whose
    name ends in .part, .partial, .filepart, .tmp or .crdownload, in capitals too, when it gets another name. It goes on
    when the folder is unmounted, and with what it finds when that is back. SIGTERM or Ctrl-C ends it, with 0. With
    --json each file is an object on a line of its own. Such jobs belong to no campaign.

    FILE of --manifest has one JSON object per line: path (relative to FILE's folder), and, if known, external_id,
    language and title.

    Exits with 1 when a path was rejected; what was accepted stays imported.
    """
    if not paths and manifest is None:
        raise UsageError("nothing to import", "name files or folders, or give --manifest FILE")
    if b"" in paths:
        raise UsageError("one of the paths is empty", "check the variable that it came from")
    if watch and (manifest is not None or reread):
        raise UsageError("--watch goes neither with --manifest nor with --reread", "leave one of them out")
    if settle is not None and not watch:
        raise UsageError("--settle says how long --watch waits for a file", "give --watch, too, or leave it out")
    spec = app.registry[OCR].spec
    options = ImportOptions(
        roots=tuple(os.fsencode(root) for root in app.settings.storage.roots),
        recursive=recursive,
        language=_language(language),
        with_jobs=not no_jobs,
        lane=Lane[lane.upper()] if lane else spec.lane or Lane.BULK,
        priority=priority,
        spec=spec,
        reread=reread,
        command=_command(paths, tenant, manifest),
        max_bytes=app.settings.ocr.bounds.max_bytes,
    )
    if watch:
        return watch_folders(app, paths, tenant, options, settle or _SETTLE, as_json=as_json)
    output = ImportOutput(
        tenant,
        as_json=as_json,
        progress=ImportProgress(paths, manifest, recursive=recursive),
        roots=options.roots,
        accepted=app.settings.run.accept_codes,
        quiet=app.quiet,
    )
    with app.connect() as connection:
        owner = app.jobs.tenant(connection, tenant)
        check = LanguageCheck(app.settings, app.jobs, connection, owner.settings.get("languages"))
        check.require_detection(_names(options.language))
        hints = _import(Import(connection, app.documents, app.jobs, owner, options), paths, manifest, output)
        warnings = [warning for hint in hints if (warning := check.warning(_names(hint))) is not None]
    for warning in warnings:
        say(f"warning: {warning}")
    return 1 if output.rejected.total else 0


def _import(
    work: Import, paths: tuple[bytes, ...], manifest: bytes | None, output: ImportOutput
) -> Iterable[str | None]:
    """Imports all; the different language hints of what is new."""
    hints: dict[str | None, None] = {}
    with output:
        for outcome in chain(work.paths(paths), () if manifest is None else work.manifest(manifest)):
            output.campaign_id = work.campaign_id
            output.add(outcome)
            if isinstance(outcome, Imported) and not outcome.duplicate:
                hints[outcome.language] = None
        output.folders_left_out = work.folders_left_out
        work.finish()
    return hints


def _command(paths: tuple[bytes, ...], tenant: str, manifest: bytes | None) -> str:
    """What was asked for, as words of the command line."""
    words = [
        "import",
        *map(terminal_path, paths[:_PATHS_TOLD]),
        *["..."][: len(paths) > _PATHS_TOLD],
        "--tenant",
        tenant,
    ]
    return " ".join(words if manifest is None else [*words, "--manifest", terminal_path(manifest)])


def _language(given: str | None) -> str | None:
    if given is None:
        return None
    hint = given.replace(",", "+")
    problem = hint_problem(hint)
    if problem is not None:
        raise UsageError(
            f"--language {given[:80]!r} is no language: the languages {problem}",
            "use Tesseract's names, such as deu, deu+eng or auto+deu+eng (batchproc doctor)",
        )
    return hint


def _names(hint: str | None) -> tuple[str, ...] | None:
    return None if hint is None else split_languages(hint)
