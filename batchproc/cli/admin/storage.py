"""``storage``: list, accept, forget."""

from __future__ import annotations

import os
from typing import Any

import click

from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import App, pass_app
from batchproc.cli.shared.messages import wrapped
from batchproc.cli.shared.output import emit_json, emit_rows, fields, json_option
from batchproc.core.errors import UsageError
from batchproc.core.shown_text import one_line
from batchproc.documents.paths import display_path, terminal_path
from batchproc.documents.storage_roots import StorageRoots
from batchproc.ops import storage as operations

_COLUMNS = ("state", "known_at", "marker", "root")
_WIDTH = 80


@click.group(cls=JsonGroup)
def storage() -> None:
    """Tell storage roots that are mounted from those that are not."""


@storage.command("list")
@json_option
@pass_app
def list_roots(app: App, as_json: bool) -> None:
    """List storage roots, and what is mounted below them.

    Each is known (it is the one it was), other (it is not, so nothing that is missing there is believed to be missing),
    gone (it cannot be opened) or new (no original was found in it).
    """
    with app.connect() as connection:
        found = operations.survey(connection, StorageRoots(app.schema), _configured(app))
    shown = display_path if as_json else terminal_path
    rows = [
        {
            "root": shown(root.root),
            "state": root.state,
            "marker": root.marker,
            "known_at": root.known_at,
            "detail": root.detail if root.marker_problem is None else f"{root.detail}; {root.marker_problem}",
        }
        for root in found
    ]
    emit_rows("roots", rows, _COLUMNS, None, as_json)
    if not as_json:
        for root, row in zip(found, rows, strict=True):
            if root.state in ("other", "gone") or root.marker_problem is not None:
                _explain(row)


def _explain(row: dict[str, Any]) -> None:
    """What is wrong with a root, below the table and not in it: it is a sentence, and long."""
    text = one_line(f"{row['root']}: {row['detail']}")
    click.echo()
    for line in wrapped(text, _WIDTH):
        click.echo(line)


@storage.command("accept")
@click.argument("root", type=click.Path(path_type=bytes))
@json_option
@pass_app
def accept(app: App, root: bytes, as_json: bool) -> None:
    """Take what is at ROOT now for the archive. What was there before counts no more.

    Only for a root that was really replaced, and from which files are missing for good: the first original that is
    found unchanged does the same by itself. What is not there is from now on believed to be missing.
    """
    root = _absolute(root)
    with app.connect() as connection:
        found = operations.accept(connection, StorageRoots(app.schema), root, _configured(app))
    if as_json:
        emit_json({"root": display_path(root), "state": "known", "marker": found.marker, "detail": found.shown()})
    else:
        fields([("root", terminal_path(root)), ("state", "known"), ("marker", found.marker), ("detail", found.shown())])


@storage.command("forget")
@click.argument("root", type=click.Path(path_type=bytes))
@json_option
@pass_app
def forget(app: App, root: bytes, as_json: bool) -> None:
    """Know nothing of ROOT any more, as it will never come back. ROOT may be a mount below a root.

    It is known again after its next file is imported or found unchanged.
    """
    root = _absolute(root)
    with app.connect() as connection:
        operations.forget(connection, StorageRoots(app.schema), root)
    if as_json:
        emit_json({"root": display_path(root), "state": "new"})
    else:
        fields([("root", terminal_path(root)), ("state", "new")])


def _configured(app: App) -> list[bytes]:
    return [os.fsencode(root) for root in app.settings.storage.roots]


def _absolute(path: bytes) -> bytes:
    """By its text alone: a root may be reached through a link, and is known by the path it was imported under."""
    if not path:
        raise UsageError("the storage root is empty", "see: batchproc storage list")
    return os.path.normpath(os.path.join(os.getcwdb(), path))  # noqa: PTH109, PTH118 - pathlib knows no bytes
