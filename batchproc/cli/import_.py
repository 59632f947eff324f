"""``import``: registers files as documents and enqueues their OCR."""

from __future__ import annotations

import os
from collections import Counter

import click

from batchproc.cli.app import App, pass_app
from batchproc.cli.output import emit_json, json_option, table
from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.documents.languages import hint_problem, split_languages
from batchproc.documents.paths import display_path, terminal_path
from batchproc.log import one_line
from batchproc.ops.importing import KIND, ImportOptions, ImportResult, import_manifest, import_paths
from batchproc.ops.languages import LanguageCheck


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
    as_json: bool,
) -> int:
    """Register files as documents of a tenant and enqueue their OCR.

    Files stay where they are and are only ever read. A folder gives its direct files, sorted; those whose name begins
    with a dot are left out unless named themselves, and links to folders are not followed. A link to a file is
    resolved, and has to stay below the storage roots (setting storage.roots; without any, the folder given or the
    folder of the file given). The same content again, within a tenant, adds a path to the document that is there, and
    no job, unless its OCR had failed because the original was missing, changed or could not be opened. Names that begin
    with a dash come after --.

    A language that neither this machine nor a node that runs now has is warned of; the files are imported all the same.

    FILE of --manifest has one JSON object per line: path (relative to FILE's folder), and, if known, external_id,
    language and title.

    Exits with 1 when a path was rejected; what was accepted stays imported.
    """
    if not paths and manifest is None:
        raise UsageError("nothing to import", "name files or folders, or give --manifest FILE")
    if b"" in paths:
        raise UsageError("one of the paths is empty", "check the variable that it came from")
    spec = app.registry[KIND].spec
    options = ImportOptions(
        roots=tuple(os.fsencode(root) for root in app.settings.storage.roots),
        recursive=recursive,
        language=_language(language),
        with_jobs=not no_jobs,
        lane=Lane[lane.upper()] if lane else spec.lane or Lane.BULK,
        priority=priority,
        spec=spec,
    )
    result = ImportResult()
    with app.connect() as connection:
        owner = app.jobs.tenant(connection, tenant)
        check = LanguageCheck(app.settings, app.jobs, connection, owner.settings.get("languages"))
        check.require_detection(_names(options.language))
        result.add(import_paths(connection, app.documents, app.jobs, owner, paths, options))
        if manifest is not None:
            result.add(import_manifest(connection, app.documents, app.jobs, owner, manifest, options))
        hints = dict.fromkeys(document.language for document in result.documents if not document.duplicate)
        warnings = [warning for hint in hints if (warning := check.warning(_names(hint))) is not None]
    _print(result, as_json)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return 1 if result.rejected else 0


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


def _print(result: ImportResult, as_json: bool) -> None:
    if as_json:
        documents = [
            {
                "document_id": document.document_id,
                "job_id": document.job_id,
                "path": display_path(document.path),
                "sha256": document.sha256.hex(),
                "duplicate": document.duplicate,
                "failure_code": document.failure_code,
                "enqueued": document.job.made,
            }
            for document in result.documents
        ]
        rejected = [{"path": display_path(found.path), "failure_code": found.failure_code} for found in result.rejected]
        emit_json({"documents": documents, "rejected": rejected})
    elif result.documents:
        table(
            ("document_id", "job_id", "duplicate", "path"),
            [
                (document.document_id, document.job_id, document.duplicate, terminal_path(document.path))
                for document in result.documents
            ],
        )
    _tell_of_failed(result)
    for found in result.rejected:
        detail = one_line(found.detail)
        click.echo(f"rejected {terminal_path(found.path)}: {found.failure_code}: {detail}", err=True)
    if not result.documents and not result.rejected:
        click.echo(
            "nothing to import: the folders hold no files (what is in their sub-folders comes with --recursive)",
            err=True,
        )


def _tell_of_failed(result: ImportResult) -> None:
    """Of documents whose last OCR failed: those that are read again, and which command does that for the others."""
    failed = [document for document in result.documents if document.failure_code is not None]
    again = Counter(document.failure_code for document in failed if document.job.made)
    left = Counter(document.failure_code for document in failed if not document.job.waits)
    if again:
        click.echo(f"{again.total()} had failed ({_counted(again)}) and get a new job", err=True)
    if left:
        click.echo(
            f"{left.total()} had failed ({_counted(left)}) and get no job; when the reason is gone:"
            " batchproc reprocess --failure-code CODE",
            err=True,
        )


def _counted(codes: Counter[str | None]) -> str:
    return ", ".join(f"{code} {count}" for code, count in codes.most_common())
