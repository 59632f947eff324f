"""Tenants are kept apart: by the database, by what handlers are given, by the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
from psycopg import sql

from batchproc.api import Queue
from batchproc.cli import main
from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.engine.node import RunOptions
from tests.engine.running import Bench
from tests.faults import security_handlers
from tests.ocr import drawn

HANDLERS: dict[str, Any] = {"handlers": ["tests.engine.job_handlers", security_handlers.MODULE]}
QUICK_OCR: dict[str, Any] = {"ocr": {"languages": ["eng"], "dpi": 70, "orientation": False}}
CANARY = "canary"

# Columns that name a row of a tenant without a foreign key, and why that mixes nothing.
_NO_KEY = {
    ("ocr_revisions", "job_id"): "jobs are pruned; it is only compared with the job at hand",
    ("ocr_pages", "job_id"): "as above",
}
_FOREIGN_KEYS = """
    select c.conrelid::regclass::text, c.confrelid::regclass::text,
           array(select a.attname::text from unnest(c.conkey) with ordinality k(number, place)
                 join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number order by k.place)
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where c.contype = 'f' and n.nspname = 'batchproc'
"""
_TENANT_TABLES = """
    select table_name, is_nullable
    from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_schema = 'batchproc' and column_name = 'tenant_id' and table_type = 'BASE TABLE'
"""


class Two:
    """Two tenants: ``mine`` with a document of its own, ``theirs`` with one that is nobody else's business."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.folder = folder
        self.mine, self.theirs = bench.tenant("mine"), bench.tenant("theirs")
        self.my_document = self._imported("mine", "plain")
        self.their_document = self._imported("theirs", CANARY)
        self.their_job = bench.enqueue(self.theirs, "t_echo", {"word": CANARY}, document_id=self.their_document)

    def shell(self, *arguments: str) -> int:
        return main.run(["--database", self.bench.url, *arguments])

    def count(self, table: str, tenant_id: int) -> int:
        statement = sql.SQL("select count(*) from batchproc.{} where tenant_id = %s").format(sql.Identifier(table))
        [[count]] = self.bench.connection.execute(statement, [tenant_id]).fetchall()
        return int(count)

    def _imported(self, slug: str, word: str) -> int:
        file = self.folder / slug / f"{word}.pdf"
        file.parent.mkdir()
        file.write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown(f"This is a {word} letter")), title=f"A {word} title"))
        assert self.shell("import", str(file), "--tenant", slug) == 0
        [[found]] = self.bench.rows("select max(document_id) from batchproc.documents")
        return int(found)


@pytest.fixture
def two(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Two:
    made = Two(bench, tmp_path)
    capfd.readouterr()
    return made


def test_every_row_of_a_tenant_is_tied_to_its_tenant(bench: Bench) -> None:
    """A new table cannot be forgotten: it is found in the catalog."""
    tables: dict[str, str] = dict(bench.rows(_TENANT_TABLES))
    assert set(tables.values()) == {"NO"}
    keys = [(_bare(table), _bare(other), columns) for table, other, columns in bench.rows(_FOREIGN_KEYS)]
    for table in tables:
        assert any(own == table and "tenant_id" in columns for own, _, columns in keys) or table == "tenants", table
    for table, other, columns in keys:
        if table in tables and other in tables:
            assert "tenant_id" in columns, f"{table} names a row of {other} without its tenant"
    tied = {(table, column) for table, _, columns in keys for column in columns if "tenant_id" in columns}
    names = bench.rows(
        "select table_name, column_name from information_schema.columns where table_schema = 'batchproc'"
        " and column_name in ('document_id', 'job_id', 'revision_id', 'current_revision')"
    )
    owners = {("documents", "document_id"), ("processing_jobs", "job_id"), ("ocr_revisions", "revision_id")}
    untied = {pair for pair in names if pair[0] in tables and pair not in tied | owners}
    assert untied == set(_NO_KEY)


def test_the_database_refuses_rows_that_mix_tenants(two: Two) -> None:
    assert two.bench.run(**HANDLERS, **QUICK_OCR).counts.discarded == 0
    _signal(two)
    tried = []
    for table, other, columns in two.bench.rows(_FOREIGN_KEYS):
        table, other = _bare(table), _bare(other)
        if other == "tenants" or "tenant_id" not in columns:
            continue
        assert two.count(table, two.mine) > 0, f"nothing in {table} to try it with"
        moved = sql.SQL("update batchproc.{} set tenant_id = %s where tenant_id = %s and {} is not null").format(
            sql.Identifier(table), sql.Identifier(next(column for column in columns if column != "tenant_id"))
        )
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            two.bench.connection.execute(moved, [two.theirs, two.mine])
        tried.append(table)
    assert set(tried) >= {"document_paths", "document_tags", "documents", "job_attempts", "job_signals", "ocr_pages"}
    for statement in (
        "update batchproc.documents set current_revision = (select max(revision_id) from batchproc.ocr_revisions"
        " where tenant_id = %(theirs)s) where tenant_id = %(mine)s",
        "insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts)"
        " values (%(mine)s, %(document)s, 't_quick', 'available', 1)",
        "insert into batchproc.document_tags (tenant_id, document_id, tag, source)"
        " values (%(mine)s, %(document)s, 'x', 'person')",
    ):
        values = {"mine": two.mine, "theirs": two.theirs, "document": two.their_document}
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            two.bench.connection.execute(statement.encode(), values)


def test_a_handler_reaches_no_document_of_another_tenant(two: Two) -> None:
    job = two.bench.enqueue(
        two.mine, "sec_reach", {"document_id": two.their_document}, document_id=two.my_document, max_attempts=1
    )
    before = two.bench.rows("select d::text from batchproc.documents d where tenant_id = %s", two.theirs)

    two.bench.run(RunOptions(workers=1, job_id=job), **HANDLERS, **QUICK_OCR)

    assert two.bench.job(job)["result"]["found"] == {
        "load": "LookupError",
        "text": "[]",
        "tags": "[]",
        "paths": "[]",
        "other store": "ValueError",
        "own document": "True",
        "title": "False",
        "failure": "None",
        "field": "None",
        "drop": "None",
        "tag": "ForeignKeyViolation",
    }
    assert two.bench.rows("select d::text from batchproc.documents d where tenant_id = %s", two.theirs) == before


def test_work_on_another_tenants_document_is_not_followed_up(two: Two) -> None:
    named = two.bench.enqueue(two.mine, "sec_follow_up", {"document_id": two.their_document}, max_attempts=1)
    hidden = two.bench.enqueue(two.mine, "sec_follow_up_args", {"document_id": two.their_document})

    two.bench.run(**HANDLERS, **QUICK_OCR)

    assert two.bench.job(named)["state"] == "discarded"
    assert two.bench.rows("select 1 from batchproc.processing_jobs where kind = 't_quick'") != []  # of t_echo
    wrong = "select 1 from batchproc.processing_jobs where tenant_id = %s and document_id = %s"
    assert two.bench.rows(wrong, two.mine, two.their_document) == []
    assert two.bench.job(hidden)["state"] == "completed"
    asked = "select state, failure_code from batchproc.processing_jobs where tenant_id = %s and args @> %s"
    args = json.dumps({"document_id": two.their_document})
    found = two.bench.rows(asked + " and kind = 'ocr'", two.mine, args)
    assert found == [("discarded", "unknown_document")]


def test_follow_ups_have_the_tenant_of_their_job(two: Two) -> None:
    two.bench.run(**HANDLERS, **QUICK_OCR)

    kinds = "select kind, count(*) from batchproc.processing_jobs where tenant_id = %s group by kind order by kind"
    assert two.bench.rows(kinds, two.theirs)[0] == ("classify", 1)
    # What was asked for by t_echo is there once, and theirs.
    [[owner]] = two.bench.rows("select tenant_id from batchproc.processing_jobs where kind = 't_quick'")
    assert owner == two.theirs


def test_unique_keys_contents_and_external_ids_are_each_tenants_own(two: Two, tmp_path: Path) -> None:
    for tenant in (two.mine, two.theirs):
        first = two.bench.jobs.enqueue(two.bench.connection, NewJob(tenant, "t_quick", unique_key="nightly"))
        assert not first.duplicate
    file = two.folder / "theirs" / f"{CANARY}.pdf"
    manifest = tmp_path / "both.ndjson"
    manifest.write_text(json.dumps({"path": str(file), "external_id": "42"}))
    assert two.shell("import", "--manifest", str(manifest), "--tenant", "mine", "--no-jobs") == 0
    assert two.shell("import", "--manifest", str(manifest), "--tenant", "theirs", "--no-jobs") == 0
    owners = two.bench.rows("select tenant_id, external_id from batchproc.documents where external_id is not null")
    assert sorted(owners) == sorted([(two.mine, "42"), (two.theirs, "42")])


def test_what_leads_out_of_the_roots_leads_to_nobodys_files(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Roots are of the settings: a tenant's own root keeps its imports away from another's files."""
    secret = two.folder / "theirs" / f"{CANARY}.pdf"
    own = two.folder / "mine"
    (own / "link.pdf").symlink_to(secret)
    (own / "folder").symlink_to(secret.parent)
    manifest = own / "manifest.ndjson"
    paths = [str(secret), f"../theirs/{CANARY}.pdf", "link.pdf", f"folder/{CANARY}.pdf"]
    manifest.write_text("\n".join(json.dumps({"path": path}) for path in paths))
    monkeypatch.setenv("BATCHPROC_STORAGE__ROOTS", json.dumps([str(own)]))

    code = two.shell("import", str(own), *paths, "--manifest", str(manifest), "--tenant", "mine", "-r", "--json")

    found = json.loads(capfd.readouterr().out)
    assert code == 1
    refused = [rejected["failure_code"] for rejected in found["rejected"]]
    assert set(refused) == {"outside_roots", "source_missing"}
    assert refused.count("outside_roots") == 6
    assert {Path(document["path"]).name for document in found["documents"]} == {"plain.pdf", "manifest.ndjson"}
    assert two.count("documents", two.mine) == 2


def test_a_link_is_no_way_round_roots_that_are_not_set(two: Two, capfd: pytest.CaptureFixture[str]) -> None:
    (two.folder / "mine" / "link.pdf").symlink_to(two.folder / "theirs" / f"{CANARY}.pdf")

    assert two.shell("import", str(two.folder / "mine"), "--tenant", "mine", "--json") == 1

    [rejected] = json.loads(capfd.readouterr().out)["rejected"]
    assert rejected["failure_code"] == "outside_roots"


@pytest.mark.parametrize("recursive", [[], ["--recursive"]])
def test_a_link_in_a_folder_leads_to_no_other_folder_of_one_root_for_all(
    two: Two, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], recursive: list[str]
) -> None:
    own = two.folder / "mine"
    (own / "absolute.pdf").symlink_to(two.folder / "theirs" / f"{CANARY}.pdf")
    (own / "relative.pdf").symlink_to(f"../theirs/{CANARY}.pdf")
    (own / "chain.pdf").symlink_to("relative.pdf")
    (own / "staying.pdf").symlink_to("plain.pdf")
    monkeypatch.setenv("BATCHPROC_STORAGE__ROOTS", json.dumps([str(two.folder)]))

    assert two.shell("import", str(own), "--tenant", "mine", "--json", *recursive) == 1

    found = json.loads(capfd.readouterr().out)
    refused = {Path(rejected["path"]).name: rejected["failure_code"] for rejected in found["rejected"]}
    assert refused == dict.fromkeys(["absolute.pdf", "relative.pdf", "chain.pdf"], "outside_roots")
    assert {Path(document["path"]).name for document in found["documents"]} == {"plain.pdf"}
    # Whom the operator names is the operator's to answer for.
    assert two.shell("import", str(own / "relative.pdf"), "--tenant", "mine", "--json") == 0
    [document] = json.loads(capfd.readouterr().out)["documents"]
    assert document["path"] == str(two.folder / "theirs" / f"{CANARY}.pdf")


def test_applications_enqueue_only_on_documents_of_the_tenant(two: Two) -> None:
    queue = Queue(two.bench.url)
    with pytest.raises(UsageError, match=f"has no document {two.their_document}"):
        queue.enqueue("t_quick", tenant="mine", document_id=two.their_document)
    with pytest.raises(UsageError, match="not that tenant's"):
        queue.enqueue_many([NewJob(two.theirs, "t_quick", document_id=two.their_document)], tenant="mine")
    assert two.bench.rows("select 1 from batchproc.processing_jobs where kind = 't_quick'") == []


_FORBIDDEN: dict[str, Callable[[Two], list[str]]] = {
    "enqueue": lambda two: ["classify", "--document", str(two.their_document)],
    "jobs retry": lambda two: ["--document", str(two.their_document), "--yes"],
    "jobs cancel": lambda two: ["--document", str(two.their_document), "--yes"],
    "jobs discard": lambda two: ["--document", str(two.their_document), "--yes"],
    "jobs prioritise": lambda two: ["--document", str(two.their_document), "--yes"],
    "jobs list": lambda two: ["--document", str(two.their_document), "--json"],
    "documents list": lambda _: ["--json"],
    "reprocess": lambda two: ["--document", str(two.their_document), "--mode", "force", "--json"],
    "import": lambda two: ["--no-jobs", "--json", str(two.folder / "mine")],
    "run": lambda _: ["--json"],
    "campaigns list": lambda _: ["--json"],
    "prune": lambda _: ["--older-than", "0"],
    "usage": lambda _: ["--json"],
    "status": lambda _: ["--check", "--json"],
}
"""What to call each command with that takes ``--tenant``; called for ``mine`` it must know nothing of ``theirs``."""


def test_every_command_for_one_tenant_keeps_to_it(two: Two, capfd: pytest.CaptureFixture[str]) -> None:
    main.run(["--version"])
    two.bench.connection.execute(
        b"update batchproc.processing_jobs set state = 'cancelled', finished_at = clock_timestamp()"
        b" where tenant_id = %s and kind = 'ocr'",
        [two.theirs],
    )
    theirs = two.count("processing_jobs", two.theirs)
    for command in sorted(_taking_a_tenant(main.cli)):
        assert command in _FORBIDDEN, f"say what {command} --tenant must not do"
        if command == "run":  # a node of its own; the scope of a run is tested with the engine
            continue
        capfd.readouterr()
        two.shell(*command.split(), *_FORBIDDEN[command](two), "--tenant", "mine")
        printed = capfd.readouterr()
        assert CANARY not in printed.out + printed.err
        if command == "jobs list":
            assert json.loads(printed.out)["jobs"] == []
    assert two.bench.job(two.their_job)["state"] == "available"
    assert two.count("processing_jobs", two.theirs) == theirs
    assert two.bench.rows("select 1 from batchproc.processing_jobs where tenant_id = %s and kind = 'classify'", 1) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--document", "{theirs}"],
        ["--args", '{{"document_id": {theirs}}}'],
        ["--args", '{{"document_id": {theirs}}}', "--document", "{mine}"],
    ],
)
def test_enqueue_names_the_tenant_that_lacks_the_document(
    two: Two, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    given = [word.format(theirs=two.their_document, mine=two.my_document) for word in arguments]

    assert two.shell("enqueue", "ocr", "--tenant", "mine", *given) == 2

    assert CANARY not in capfd.readouterr().err
    assert two.count("processing_jobs", two.mine) == 1  # that of its import


def test_statements_on_documents_name_the_tenant() -> None:
    """Those that the command line lists with are for the operator, who sees all tenants; storage roots are nobody's."""
    for_all = {"list_documents.sql", "show_revision.sql", "show_pages.sql", "show_ranges.sql", "engine_versions.sql"}
    for_all |= {"data_in_use.sql"}
    for_all |= {"begun_pages.sql"}  # of claims, each with its own tenant
    # Of a campaign or run, whosever documents are in it: each row is joined with its own tenant's.
    for_all |= {"readings.sql", "campaign_current.sql", "lock_documents.sql"}
    for_all |= {"revert_targets.sql", "revert_documents.sql"}
    for_all |= {f"{what}.sql" for what in ("all_roots", "forget_root", "known_roots", "learn_root", "renew_root")}
    files = list(Path(str(resources.files("batchproc.documents").joinpath("sql"))).rglob("*.sql"))
    assert len(files) > 60
    for file in files:
        if file.name not in for_all:
            assert re.search(r"\btenant_id\b.*%\(tenant_id\)s", file.read_text("utf-8"), re.DOTALL), file.name


def _taking_a_tenant(group: click.Group, prefix: str = "") -> list[str]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += _taking_a_tenant(command, f"{prefix}{name} ")
        elif any("--tenant" in getattr(parameter, "opts", ()) for parameter in command.params):
            found.append(f"{prefix}{name}")
    return found


def _signal(two: Two) -> None:
    """A row of each table that a run does not leave filled."""
    values: list[Any] = [two.mine, two.mine]
    two.bench.connection.execute(
        b"insert into batchproc.job_signals (job_id, tenant_id)"
        b" select min(job_id), %s from batchproc.processing_jobs where tenant_id = %s",
        values,
    )
    two.bench.connection.execute(
        b"insert into batchproc.document_tags (tenant_id, document_id, tag, source) values (%s, %s, 'x', 'person')",
        [two.mine, two.my_document],
    )


def _bare(table: str) -> str:
    return table.removeprefix("batchproc.")
