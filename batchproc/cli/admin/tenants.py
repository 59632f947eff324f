"""``tenants``: list, show, add, set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from batchproc.cli.line.groups import JsonGroup
from batchproc.cli.shared.app import AFTER, App, pass_app
from batchproc.cli.shared.filters import FiniteRange
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, emit_rows, fields, json_option
from batchproc.core.errors import UsageError
from batchproc.handlers.args import describe_invalid
from batchproc.handlers.password_file import UnusablePasswordFile, read_passwords
from batchproc.ops.languages import LanguageCheck
from batchproc.queue.store import Tenant
from batchproc.settings import TenantSettings

_COLUMNS = ("tenant_id", "tenant", "weight", "max_running", "paused", "settings")


@click.group(cls=JsonGroup)
def tenants() -> None:
    """List, add and change tenants."""


@tenants.command("list")
@click.option("--after", type=AFTER, default=0, metavar="ID", help="Continue behind this tenant_id.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Tenants a page.")
@json_option
@pass_app
def list_tenants(app: App, after: int, limit: int, as_json: bool) -> None:
    """List tenants."""
    with app.connect() as connection:
        found = app.jobs.tenants(connection, after=after, limit=limit + 1)
    following = found[limit - 1].tenant_id if len(found) > limit else None
    emit_rows("tenants", [_row(tenant) for tenant in found[:limit]], _COLUMNS, following, as_json)


@tenants.command("show")
@click.argument("slug")
@json_option
@pass_app
def show_tenant(app: App, slug: str, as_json: bool) -> None:
    """Show one tenant."""
    with app.connect() as connection:
        _print(app.jobs.tenant(connection, slug), as_json)


@tenants.command("add")
@click.argument("slug")
@json_option
@pass_app
def add_tenant(app: App, slug: str, as_json: bool) -> None:
    """Add a tenant. SLUG: lower-case letters, digits, - and _, at most 63."""
    with app.connect() as connection:
        tenant = app.jobs.add_tenant(connection, slug)
    _print(tenant, as_json)


@tenants.command("set")
@click.argument("slug")
@click.option("--weight", type=FiniteRange(0, 1000, min_open=True), help="Turns per round, 1 for everybody.")
@click.option(
    "--max-running", type=click.IntRange(0, 2**31 - 1), help="Jobs of the tenant that may run at once, over all nodes."
)
@click.option("--unlimited", is_flag=True, help="Take --max-running back.")
@click.option("--paused/--resumed", "paused", default=None, help="Claim none of its jobs, or claim them again.")
@click.option(
    "--languages",
    metavar="LANG[,LANG]",
    help="Languages of its documents, auto first to detect which; empty takes it back.",
)
@click.option(
    "--mode", type=click.Choice(["skip", "redo", "force", ""]), help="How it treats text layers; empty takes it back."
)
@click.option(
    "--keep",
    type=click.Choice(["newest", "best", ""]),
    help="Which revision gives the text; empty takes it back.",
)
@click.option(
    "--password-file",
    metavar="PATH",
    help="Passwords for its encrypted PDFs, one a line, in a file of mode 0600; empty takes it back.",
)
@json_option
@pass_app
def set_tenant(
    app: App,
    slug: str,
    as_json: bool,
    languages: str | None,
    mode: str | None,
    keep: str | None,
    password_file: str | None,
    unlimited: bool,
    **changes: Any,
) -> None:
    """Change a tenant; what is not given stays."""
    if unlimited and changes["max_running"] is not None:
        raise UsageError("--unlimited and --max-running exclude each other")
    settings: dict[str, Any] = {}
    if languages is not None:
        settings["languages"] = [part.strip() for part in languages.split(",") if part.strip()] or None
    if mode is not None:
        settings["mode"] = mode or None
    if keep is not None:
        settings["keep"] = keep or None
    if password_file is not None:
        settings["password_file"] = password_file or None
    try:
        TenantSettings.model_validate_json(json.dumps({name: value for name, value in settings.items() if value}))
    except ValidationError as error:
        raise UsageError(f"tenant {slug}: {describe_invalid(error)}") from None
    if password_file:
        _require_usable(slug, Path(password_file))
    with app.connect() as connection:
        check = LanguageCheck(app.settings, app.jobs, connection, settings.get("languages"))
        if languages:
            check.require_detection(None)
        tenant = app.jobs.set_tenant(connection, slug, unlimited=unlimited, settings=settings, **changes)
        warning = check.warning(None) if languages else None
    _print(tenant, as_json)
    if warning is not None:
        say(f"warning: tenant {slug}: {warning}")


def _require_usable(slug: str, path: Path) -> None:
    try:
        read_passwords(path)
    except UnusablePasswordFile as fault:
        raise UsageError(
            f"tenant {slug}: the password file {path} cannot be used: {fault}",
            "give a regular file of mode 0600 that belongs to the user who runs batchproc, on every machine",
        ) from None


def _row(tenant: Tenant) -> dict[str, Any]:
    return {
        "tenant_id": tenant.tenant_id,
        "tenant": tenant.slug,
        "weight": tenant.weight,
        "max_running": tenant.max_running,
        "paused": tenant.paused,
        "settings": tenant.settings,
    }


def _print(tenant: Tenant, as_json: bool) -> None:
    if as_json:
        emit_json(_row(tenant))
    else:
        fields(list(_row(tenant).items()))
