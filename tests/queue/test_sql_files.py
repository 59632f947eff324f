"""The rules of the SQL files: one statement, qualified names, placeholders only where psycopg looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from batchproc.database import SqlFolder

TABLES = (
    "tenants|kinds|nodes|campaigns|runs|documents|document_paths|document_tags|ocr_revisions|ocr_pages|processing_jobs"
    "|job_signals|job_attempts|usage_daily|schema_migrations|storage_roots|tenant_turns|node_slots|node_activity"
)
LITERAL = re.compile(r"'(?:[^']|'')*'")


def files(package: str, folder: str = "sql") -> Iterator[tuple[str, Path]]:
    for path in sorted(Path(str(resources.files(package).joinpath(folder))).rglob("*.sql")):
        yield package, path


FILES = [*files("batchproc.queue"), *files("batchproc.documents")]
BY_NAME = [f"{package.rpartition('.')[2]}/{path.stem}" for package, path in FILES]


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def test_every_file_is_somebodys_statement() -> None:
    modules = Path(str(resources.files("batchproc"))).rglob("*.py")
    named = set(re.findall(r'"(\w+)"', "\n".join(module.read_text("utf-8") for module in modules)))
    assert [name for name, (_, path) in zip(BY_NAME, FILES, strict=True) if path.stem not in named] == []


@pytest.mark.parametrize(("package", "path"), FILES, ids=BY_NAME)
def test_a_file_is_one_qualified_statement(package: str, path: Path) -> None:
    bare = without_comments(path.read_text("utf-8"))
    code = LITERAL.sub("''", bare)
    assert code.strip()
    assert ";" not in code, "one statement, as the extended protocol takes it"
    assert "--" not in code, "comments have lines of their own: only those are taken out"
    assert "/*" not in code
    assert not re.search(rf"\b(?:from|join|into|update|table)\s+(?:only\s+)?(?:{TABLES})\b", code)
    assert not [literal for literal in LITERAL.findall(bare) if "batchproc." in literal], "would be replaced"

    other = SqlFolder(package, "elsewhere")[path.stem].decode()
    assert "batchproc." not in other
    assert bare.count("batchproc.") == other.count('"elsewhere".')
    assert "%" not in re.sub(r"%\([a-z_0-9]+\)s|%s", "", other), "a percent sign that is no placeholder"


def test_what_is_counted_is_what_is_chosen() -> None:
    """What a dry run announces is what the change then takes."""
    statements = SqlFolder("batchproc.queue")
    conditions = [
        re.findall(rb"^where .*?(?=^(?:order|group) by)", statements[name], re.M | re.S)
        for name in ("chosen_jobs", "count_chosen")
    ]
    assert [len(found) for found in conditions] == [1, 1]
    assert conditions[0] == conditions[1]


@pytest.mark.parametrize(
    "path", [path for _, path in files("batchproc.queue", "migrations")], ids=lambda path: path.stem
)
def test_a_migration_is_qualified(path: Path) -> None:
    bare = without_comments(path.read_text("utf-8"))
    code = LITERAL.sub("''", bare)
    assert not [literal for literal in LITERAL.findall(bare) if "batchproc." in literal]
    assert not re.search(rf"\b(?:table|on|references|into|update|from)\s+(?:{TABLES})\b", code)
    assert "batchproc." not in SqlFolder("batchproc.queue", "x", "migrations")[path.stem].decode()
