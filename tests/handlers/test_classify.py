"""The kind ``classify`` on a real database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.core.limits import bounded_json
from batchproc.core.outcome import FollowUp
from batchproc.database import connect
from batchproc.documents.store import DocumentStore, Tag
from batchproc.handlers.classify import LISTED_TAGS, TAXONOMY, ClassifyArgs, classify
from batchproc.handlers.context import Context
from batchproc.handlers.errors import ClaimLost, Failure
from batchproc.handlers.rules.version import version_of
from batchproc.settings import Settings, Taxonomy
from tests.handlers.running_job import Conn, RecordingSink, add_document, add_tenant, add_text, running_job

RULES = r"""
version: 7
rules:
  - name: bill
    match: {regex: '^Bill No (?P<number>\w+)'}
    tags: [bill, money]
    title: "Bill {number}"
  - name: cash
    match: {any: [cash, euro]}
    tags: money
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as connection:
        yield connection


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "taxonomy"
    folder.mkdir()
    (folder / "default.yaml").write_text(RULES)
    return folder


class Archive:
    """One tenant with one document, classified as often as asked."""

    def __init__(self, connection: Conn, rules: Path, tmp_path: Path) -> None:
        self.connection = connection
        self.rules = rules
        self.tmp_path = tmp_path
        self.tenant_id = add_tenant(connection, "acme")
        file = tmp_path / "scan_12.pdf"
        file.write_bytes(b"a scan")
        self.document_id = add_document(connection, self.tenant_id, file)
        self.store = DocumentStore("batchproc", tenant_id=self.tenant_id)

    def text(self, *pages: str) -> None:
        add_text(self.connection, self.tenant_id, self.document_id, list(pages))

    def job(self) -> Context:
        return running_job(
            self.connection,
            self.tmp_path,
            kind="classify",
            tenant_id=self.tenant_id,
            document_id=self.document_id,
            settings=Settings(taxonomy=Taxonomy(folder=self.rules)),
        )

    def tags(self) -> list[Tag]:
        return self.store.tags(self.connection, self.document_id)

    def title(self) -> tuple[str | None, str | None]:
        document = self.store.load(self.connection, self.document_id)
        return document.title, document.title_source


@pytest.fixture
def archive(connection: Conn, rules: Path, tmp_path: Path) -> Archive:
    return Archive(connection, rules, tmp_path)


def test_sets_title_and_tags_with_their_reasons(archive: Archive) -> None:
    archive.text("Bill No 4711a\nsecret words", "in cash")
    ctx = archive.job()
    done = classify(ctx, ClassifyArgs())
    assert (done.title, done.title_source, done.tags, done.tag_count) == ("Bill 4711a", "rule", ["bill", "money"], 2)
    assert archive.title() == ("Bill 4711a", "rule")
    bill, money = archive.tags()
    assert bill.rule_version is not None
    assert bill.rule_version.startswith("7+")
    reason = r"regex '^Bill No (?P<number>\w+)' on page 1"
    assert bill == Tag("bill", "bill", bill.rule_version, reason, "rule")
    assert money == Tag("money", "bill", bill.rule_version, reason, "rule")
    assert ctx.follow_ups == []


def test_says_how_many_rules_are_done(archive: Archive) -> None:
    archive.text("Nothing of note here")
    ctx = archive.job()
    classify(ctx, ClassifyArgs())
    assert isinstance(ctx.sink, RecordingSink)
    assert ctx.sink.steps == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("page", "pdf_title", "expected"),
    [
        ("A letter to you", "Annual Report", ("Annual Report", "pdf")),
        ("A letter to you", "Microsoft Word - x", ("A letter to you", "line")),
        ("A letter to you", 7, ("A letter to you", "line")),
        ("", None, ("scan 12", "file_name")),
    ],
)
def test_the_title_without_a_rule(archive: Archive, page: str, pdf_title: object, expected: tuple[str, str]) -> None:
    archive.text(page)
    with archive.connection.transaction():
        archive.store.set_field(archive.connection, archive.document_id, "pdf_title", pdf_title)
    classify(archive.job(), ClassifyArgs())
    assert archive.title() == expected


def test_a_document_without_pages_is_named_after_its_file(archive: Archive) -> None:
    archive.text()
    assert classify(archive.job(), ClassifyArgs()).title == "scan 12"


def test_what_a_person_set_stays(archive: Archive) -> None:
    archive.text("Bill No 1")
    with archive.connection.transaction():
        archive.store.set_title(archive.connection, archive.document_id, "My title", "person")
        archive.store.add_tag(archive.connection, archive.document_id, Tag("mine"), "person")
        archive.store.add_tag(archive.connection, archive.document_id, Tag("bill"), "person")
    done = classify(archive.job(), ClassifyArgs())
    assert (done.title, done.title_source) == archive.title() == ("My title", "person")
    assert [(tag.tag, tag.source) for tag in archive.tags()] == [
        ("bill", "person"),
        ("bill", "rule"),
        ("mine", "person"),
        ("money", "rule"),
    ]


def test_running_again_after_a_rule_change_replaces_only_what_rules_set(archive: Archive) -> None:
    archive.text("Bill No 1, cash")
    classify(archive.job(), ClassifyArgs())
    with archive.connection.transaction():
        archive.store.add_tag(archive.connection, archive.document_id, Tag("flow"), "workflow")
    first = archive.tags()
    classify(archive.job(), ClassifyArgs())
    assert archive.tags() == first
    (archive.rules / "acme.yaml").write_text("version: 2\nrules:\n  - {name: bill, enabled: false}\n")
    done = classify(archive.job(), ClassifyArgs())
    assert (done.title, done.title_source) == ("Bill No 1, cash", "line")
    assert [(tag.tag, tag.rule, tag.source) for tag in archive.tags()] == [
        ("flow", None, "workflow"),
        ("money", "cash", "rule"),
    ]


def test_the_version_of_all_its_rules_is_remembered(archive: Archive) -> None:
    archive.text("nothing that a rule finds")

    def remembered() -> tuple[str, str]:
        classify(archive.job(), ClassifyArgs())
        [[stored]] = archive.connection.execute("select rules_version from batchproc.documents").fetchall()
        return str(stored), version_of(TAXONOMY.rules(archive.rules, "acme"))

    stored, now = remembered()
    assert stored == now
    (archive.rules / "acme.yaml").write_text("version: 1\nrules:\n  - {name: cash, enabled: false}\n")
    assert remembered() == (version_of(TAXONOMY.rules(archive.rules, "acme")),) * 2
    assert remembered()[0] != stored


def test_workflow_follows_an_upload(archive: Archive) -> None:
    archive.text("Text")
    ctx = archive.job()
    classify(ctx, ClassifyArgs(trigger="upload"))
    assert ctx.follow_ups == [FollowUp("workflow", {"trigger": "upload"}, archive.document_id)]


def test_without_text_or_document_it_fails_for_good(archive: Archive) -> None:
    with pytest.raises(Failure) as caught:
        classify(archive.job(), ClassifyArgs())
    assert (caught.value.code, caught.value.retry) == ("no_text", False)
    ctx = archive.job()
    ctx.document_id = None
    with pytest.raises(Failure) as caught:
        classify(ctx, ClassifyArgs())
    assert caught.value.code == "no_document"


def test_wrong_rules_fail_for_good_with_their_place_and_change_nothing(archive: Archive) -> None:
    archive.text("Bill No 1")
    (archive.rules / "acme.yaml").write_text("version: 2\nrules:\n  - {name: bill}\n")
    with pytest.raises(Failure) as caught:
        classify(archive.job(), ClassifyArgs())
    assert (caught.value.code, caught.value.retry) == ("invalid_rules", False)
    assert caught.value.detail == f"{archive.rules}/acme.yaml:3: rules[0]: needs match"
    assert archive.title() == (None, None)
    assert archive.tags() == []


def test_nothing_is_written_without_the_claim(archive: Archive) -> None:
    archive.text("Bill No 1")
    ctx = archive.job()
    ctx.claim_id = uuid4()
    with pytest.raises(ClaimLost):
        classify(ctx, ClassifyArgs())
    assert archive.title() == (None, None)
    assert archive.tags() == []


def test_the_result_is_bounded(archive: Archive) -> None:
    many = [f"{'𐐀' * 59}{number:04}" for number in range(200)]
    rules = "".join(f"  - {{name: r{n}, match: text, tags: {tag}}}\n" for n, tag in enumerate(many))
    (archive.rules / "default.yaml").write_text(f"version: 1\nrules:\n{rules}")
    archive.text("𐐀𐐀𐐀 text" * 12)
    done = classify(archive.job(), ClassifyArgs())
    assert done.tag_count == len(archive.tags()) == 200
    assert len(done.tags) == LISTED_TAGS
    assert json.loads(bounded_json(done.model_dump_json()))["tag_count"] == 200


def test_hostile_titles_are_stored_clean(archive: Archive) -> None:
    archive.text("Bill No 1")
    (archive.rules / "default.yaml").write_text(
        "version: 1\nrules:\n  - {name: a, match: {regex: '(?s)(?P<all>.+)'}, title: 'All: {all}'}\n"
    )
    archive.text("\u202eevil\ttext\nwith\x1b[31m colour" + "x" * 5000)
    classify(archive.job(), ClassifyArgs())
    stored, source = archive.title()
    assert source == "rule"
    assert stored is not None
    assert stored.startswith("All: evil text with[31m colourxxx")
    assert len(stored) <= 200


def test_language_is_that_of_the_document(archive: Archive) -> None:
    archive.text("Text")
    archive.connection.execute("update batchproc.documents set language = 'deu'")
    assert classify(archive.job(), ClassifyArgs()).language == "deu"
