"""The pages of ``batchproc/docs``: their sessions, queries and examples are run. (Commands: test_told_commands.py.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from batchproc.cli.main import cli
from batchproc.database import connect
from batchproc.packaged import packaged_conf
from tests.cli import settings_reference
from tests.cli.documentation import (
    HANDLERS,
    PAGES,
    README,
    REPO,
    check_sessions,
    code_of,
    fences,
    session_of,
    steps,
)

DOCS = REPO / "batchproc" / "docs"
SCHEMA, OPERATING = DOCS / "schema.md", DOCS / "operating.md"


def with_sessions() -> list[Path]:
    return [page for page in PAGES if page != README and steps(page)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", with_sessions(), ids=lambda page: page.name)
def test_the_sessions_of_a_page(page: Path, tmp_path: Path, database_url: str) -> None:
    check_sessions(page, session_of(page, tmp_path, database_url))


def test_no_session_shows_a_run_that_says_nothing() -> None:
    """A session is run without a terminal. Its reader has one, on which every run ends with a line of figures."""
    told = [(page.name, step) for page in PAGES for step in steps(page)]
    runs = [(name, step) for name, step in told if re.search(r"(?:^|[\s/])batchproc(?:$| run\b| -)", step.command)]
    assert len(runs) >= 5
    assert [(name, step.command) for name, step in runs if not step.expected] == []


# -- what is shown as code


@pytest.mark.parametrize("command", ["bin/test", "python -m pytest"])
def test_the_commands_that_run_the_example_work(command: str, tmp_path: Path, server_url: str) -> None:
    """As the page has them; ``bin/test`` with this environment instead of one that it would have to install.

    Once with the server that is named, and once with one of their own.
    """
    assert f"\n    {command} /srv/batchproc\n" in HANDLERS.read_text("utf-8")
    _write_the_example(tmp_path)
    (tmp_path / "bin").mkdir()
    script = (REPO / "bin" / "test").read_text("utf-8")
    script = script.replace('$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")', str(REPO / "bin"))
    changed = script.replace("prepare_venv test", f"venv={sys.prefix}")
    assert changed != script
    (tmp_path / "bin" / "test").write_text(changed)
    words = ["bash", "bin/test"] if command == "bin/test" else [sys.executable, "-m", "pytest"]
    theirs = ("PYTHONPATH", "BATCHPROC_TEST_DATABASE_URL")
    bare = {name: value for name, value in os.environ.items() if name not in theirs}  # as if it was installed
    more = {"BATCHPROC_TEST_DATABASE_URL": server_url} if command == "bin/test" else {"PYTHONPATH": str(REPO)}
    ran = subprocess.run(
        [*words, str(tmp_path)], cwd=tmp_path, env=bare | more, capture_output=True, text=True, timeout=100
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr


def _write_the_example(folder: Path) -> None:
    handler = next(fence for fence in fences(README) if fence.file == "/srv/batchproc/archive_handlers.py")
    (folder / "archive_handlers.py").write_text(handler.text, "utf-8")
    for fence in fences(HANDLERS):
        if fence.text.startswith("pytest_plugins"):
            (folder / "conftest.py").write_text(fence.text, "utf-8")
        elif fence.file == "/srv/batchproc/test_letter_date.py":
            (folder / "test_letter_date.py").write_text(fence.text, "utf-8")


def queries() -> list[str]:
    return [fence.text for fence in fences(SCHEMA) if fence.language == "sql"]


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.split("from")[1].split()[0])
def test_a_query_of_the_schemas_page_runs(query: str, database_url: str) -> None:
    with connect(database_url) as connection:
        connection.execute(query.encode())


def test_every_table_is_described_and_what_is_described_exists(database_url: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*)$", SCHEMA.read_text("utf-8"), re.MULTILINE)
    with connect(database_url) as connection:
        found = connection.execute(
            "select table_name, array_agg(column_name::text) from information_schema.columns"
            " where table_schema = 'batchproc' group by table_name"
        )
        tables: dict[str, list[str]] = dict(found.fetchall())
    assert {name for name, _ in rows} == set(tables)
    words = {"outcome", "claim_id", "campaign_id"}
    for name, told in rows:
        named = set(re.findall(r"`([a-z_0-9]+)`", told)) - {"tenants", "run"}
        unknown = {column for column in named if column not in tables[name]}
        assert unknown <= (words if name in ("job_attempts", "campaigns") else set()), (name, unknown)


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert settings_reference.PAGE.read_text("utf-8") == settings_reference.written(), (
        "write it with: python -m tests.cli.settings_reference"
    )


# -- nothing is left out


def test_every_command_is_named_in_the_pages() -> None:
    told = " ".join(code for page in PAGES for code in code_of(page))
    names = {name for name, command in cli.commands.items() if not isinstance(command, click.Group)}
    groups = {name for name, command in cli.commands.items() if isinstance(command, click.Group)}
    assert {name for name in names | groups if not re.search(rf"\b{name}\b", told)} == set()


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\(batchproc/docs/([\w-]+\.md)", README.read_text("utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - linked == set()


def test_the_readers_settings_have_one_name_everywhere() -> None:
    """Whoever puts the example for cron beside the handler of the README has it found."""
    texts = [path.read_text("utf-8") for path in [*PAGES, *packaged_conf().rglob("*")] if path.is_file()]
    named = [name for text in texts for name in re.findall(r"\bBATCHPROC_CONF=(\S+)", text)]
    assert len(named) >= 7
    written = {fence.file for page in PAGES for fence in fences(page) if fence.language == "yaml" and fence.file}
    assert set(named) == {"/srv/batchproc/site.yaml"}
    assert set(named) <= written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name} links to {target}#{anchor}"
