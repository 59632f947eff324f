"""The kind ``workflow`` on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.core.limits import bounded_json
from batchproc.database import connect
from batchproc.documents.store import Document, DocumentStore, Tag
from batchproc.handlers.context import Context
from batchproc.handlers.errors import ClaimLost, Failure
from batchproc.handlers.workflow import DoneAction, WorkflowArgs, workflow
from batchproc.settings import Settings, Workflows
from tests.handlers.running_job import Conn, add_document, add_tenant, running_job

RULES = r"""
version: 3
rules:
  - name: bills
    when: {tags: bill, title: {regex: 'Bill (?P<number>\d+)'}}
    do:
      - tag: [accounting, checked]
      - set_field: {name: number, value: "{number}"}
      - enqueue: {kind: thumbnail, args: {size: 64}}
  - name: not-checked-yet
    when: {tags: {none: checked}}
    do:
      - tag: new
      - set_field: {name: number, value: other}
      - enqueue: {kind: thumbnail, args: {size: 64}}
      - enqueue: {kind: thumbnail, args: {size: 65}}
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as connection:
        yield connection


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "default.yaml").write_text(RULES)
    return folder


class Archive:
    """One tenant with one document, a tagged bill."""

    def __init__(self, connection: Conn, rules: Path, tmp_path: Path) -> None:
        self.connection = connection
        self.rules = rules
        self.tmp_path = tmp_path
        self.tenant_id = add_tenant(connection, "acme")
        self.document_id = add_document(connection, self.tenant_id, content=b"a scan")
        self.store = DocumentStore("batchproc", tenant_id=self.tenant_id)
        with connection.transaction():
            self.store.set_title(connection, self.document_id, "Bill 12", "rule")
            self.store.replace_rule_tags(connection, self.document_id, [Tag("bill", "b", "1", "because")])

    def job(self) -> Context:
        return running_job(
            self.connection,
            self.tmp_path,
            kind="workflow",
            tenant_id=self.tenant_id,
            document_id=self.document_id,
            settings=Settings(workflows=Workflows(folder=self.rules)),
        )

    def tags(self) -> list[tuple[str, str, str | None]]:
        return [(tag.tag, tag.source, tag.rule) for tag in self.store.tags(self.connection, self.document_id)]

    def document(self) -> Document:
        return self.store.load(self.connection, self.document_id)


@pytest.fixture
def archive(connection: Conn, rules: Path, tmp_path: Path) -> Archive:
    return Archive(connection, rules, tmp_path)


AFTERWARDS = [
    ("accounting", "workflow", "bills"),
    ("bill", "rule", "b"),
    ("checked", "workflow", "bills"),
    ("new", "workflow", "not-checked-yet"),
]


def test_tags_sets_fields_and_enqueues(archive: Archive) -> None:
    ctx = archive.job()
    done = workflow(ctx, WorkflowArgs(trigger="upload"))
    assert done.rules == ["bills", "not-checked-yet"]
    assert done.rule_count == 2
    assert done.actions == [
        DoneAction(rule="bills", action="tag", name="accounting"),
        DoneAction(rule="bills", action="tag", name="checked"),
        DoneAction(rule="not-checked-yet", action="tag", name="new"),
        DoneAction(rule="bills", action="set_field", name="number"),
        DoneAction(rule="bills", action="enqueue", name="thumbnail"),
        DoneAction(rule="not-checked-yet", action="enqueue", name="thumbnail"),
    ]
    assert done.action_count == 6
    assert archive.tags() == AFTERWARDS
    assert archive.document().fields == {"number": "12"}
    assert [(job.kind, job.args, job.document_id) for job in ctx.follow_ups] == [
        ("thumbnail", {"size": 64}, archive.document_id),
        ("thumbnail", {"size": 65}, archive.document_id),
    ]
    assert len({job.unique_key for job in ctx.follow_ups}) == 2


def test_a_tag_says_which_rule_of_which_version_and_why(archive: Archive) -> None:
    workflow(archive.job(), WorkflowArgs())
    tag = archive.store.tags(archive.connection, archive.document_id)[0]
    assert tag.rule_version is not None
    assert tag.rule_version.startswith("3+")
    assert tag.reason == r"when tags, regex 'Bill (?P<number>\d+)' in the title"


def test_running_again_gives_the_same(archive: Archive) -> None:
    first, second = archive.job(), archive.job()
    done = workflow(first, WorkflowArgs())
    before = archive.document()
    assert workflow(second, WorkflowArgs()) == done
    assert archive.tags() == AFTERWARDS
    assert archive.document() == before
    assert second.follow_ups == first.follow_ups


def test_only_tags_of_workflow_rules_are_replaced(archive: Archive) -> None:
    workflow(archive.job(), WorkflowArgs())
    with archive.connection.transaction():
        archive.store.add_tag(archive.connection, archive.document_id, Tag("checked"), "person")
    (archive.rules / "acme.yaml").write_text("version: 1\nrules:\n  - {name: bills, enabled: false}\n")
    done = workflow(archive.job(), WorkflowArgs())
    assert done.rules == []
    assert archive.tags() == [("bill", "rule", "b"), ("checked", "person", None)]


def test_it_needs_no_text(archive: Archive) -> None:
    assert archive.document().current_revision is None
    assert workflow(archive.job(), WorkflowArgs()).rule_count == 2


def test_without_a_document_it_fails_for_good(archive: Archive) -> None:
    ctx = archive.job()
    ctx.document_id = None
    with pytest.raises(Failure) as caught:
        workflow(ctx, WorkflowArgs())
    assert (caught.value.code, caught.value.retry) == ("no_document", False)


def test_wrong_rules_change_nothing(archive: Archive) -> None:
    (archive.rules / "default.yaml").write_text(RULES + "  - {name: bills}\n")
    ctx = archive.job()
    with pytest.raises(Failure) as caught:
        workflow(ctx, WorkflowArgs())
    assert caught.value.code == "invalid_rules"
    assert caught.value.detail is not None
    assert "default.yaml:17: rules[2].name: another rule above is named bills too" in caught.value.detail
    assert archive.tags() == [("bill", "rule", "b")]
    assert ctx.follow_ups == []


def test_nothing_is_written_without_the_claim(archive: Archive) -> None:
    ctx = archive.job()
    ctx.claim_id = uuid4()
    with pytest.raises(ClaimLost):
        workflow(ctx, WorkflowArgs())
    assert archive.tags() == [("bill", "rule", "b")]
    assert archive.document().fields == {}


def test_the_result_is_bounded(archive: Archive) -> None:
    name = "𐐀" * 59
    rules = "".join(
        f"  - {{name: {name}{n:04}, when: {{}}, do: [{{tag: {name}{n:04}}}, {{enqueue: {{kind: k{n}}}}}]}}\n"
        for n in range(200)
    )
    (archive.rules / "default.yaml").write_text(f"version: 1\nrules:\n{rules}")
    done = workflow(archive.job(), WorkflowArgs())
    assert (done.rule_count, done.action_count) == (200, 400)
    bounded_json(done.model_dump_json())
