"""EXPLAIN pins: a slice of an archive costs what it gives, and the page of a claim is found without a scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from batchproc.database import SqlFolder, connect
from batchproc.documents.selection import DocumentSelection, Filter, patterns_between
from tests.documents.revising import FAILED, SPEC, Revising, page, without_sums
from tests.handlers.running_job import Conn, add_document, add_tenant

DOCUMENTS = 4000
_ARCHIVE = """
    insert into batchproc.documents (tenant_id, root, path, sha256, bytes, status)
    select case when mod(n, 100) = 0 then %(few)s else %(many)s end, '', '', sha256(int8send(n)), 0,
           case when mod(n, 1000) = 0 then 'partial' else 'completed' end
    from generate_series(1, %(documents)s) n
"""
_REVISIONS = """
    insert into batchproc.ocr_revisions
        (tenant_id, document_id, state, engine, engine_version, data_hash, profile, languages, source_sha256,
         page_count, confidence, claim_id)
    select tenant_id, document_id, case when mod(document_id, 500) = 0 then 'open' else 'complete' end, 'given', '1',
           '', '{}', '{eng}', '', 1, mod(document_id, 100), gen_random_uuid()
    from batchproc.documents
"""
_CURRENT = """
    update batchproc.documents d set current_revision = r.revision_id
    from batchproc.ocr_revisions r where r.document_id = d.document_id and r.state = 'complete'
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def archive(connection: Conn) -> dict[str, int]:
    """4,000 documents; a hundredth of them is another tenant's, a thousandth partial."""
    tenants = {"many": add_tenant(connection, "many"), "few": add_tenant(connection, "few")}
    connection.execute(_ARCHIVE.encode(), {**tenants, "documents": DOCUMENTS})
    connection.execute(_REVISIONS.encode())
    connection.execute(_CURRENT.encode())
    connection.execute("analyze batchproc.documents, batchproc.ocr_revisions, batchproc.ocr_pages")
    return tenants


def rows_read(connection: Conn, package: str, name: str, values: dict[str, Any]) -> int:
    """Rows that the scans of this statement gave or threw away."""
    statement = b"explain (analyze, format json) " + SqlFolder(package)[name]
    [[plan]] = connection.execute(statement, values, prepare=False).fetchall()

    def below(node: dict[str, Any]) -> int:
        own = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) if "Scan" in node["Node Type"] else 0
        return int(own * node["Actual Loops"]) + sum(below(child) for child in node.get("Plans", []))

    return below((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])


def selecting(after: int, limit: int, **chosen: Any) -> dict[str, Any]:
    return Filter(**chosen).values() | {"after": after, "limit": limit}


def test_slices_are_of_the_same_archive_in_the_same_order(connection: Conn, archive: dict[str, int]) -> None:
    selection = DocumentSelection("batchproc")
    found: list[int] = []
    while part := selection.slice(connection, Filter(statuses=["partial"]), after=found[-1] if found else 0, limit=3):
        assert len(part) <= 3
        found += [document.document_id for document in part]
    assert len(found) == DOCUMENTS // 1000
    assert found == sorted(set(found))


@pytest.mark.parametrize("after", [0, DOCUMENTS // 2])
def test_a_slice_reads_little_more_than_it_gives(connection: Conn, archive: dict[str, int], after: int) -> None:
    assert rows_read(connection, "batchproc.documents", "select_documents", selecting(after, 100)) <= 250
    of_few = selecting(after, 20, tenant_id=archive["few"])
    assert rows_read(connection, "batchproc.documents", "select_documents", of_few) <= 250
    named = selecting(0, 100, document_ids=[5, 3_900])
    assert rows_read(connection, "batchproc.documents", "select_documents", named) <= 20
    anywhere = selecting(after, 100, paths=patterns_between([b"", b""]), rules={archive["many"]: "x"}, tags=["none"])
    assert rows_read(connection, "batchproc.documents", "select_documents", anywhere) <= 2 * DOCUMENTS


def test_the_page_of_a_claim_is_found_however_many_revisions_are_open(
    connection: Conn, archive: dict[str, int]
) -> None:
    """As jobs that were discarded leave them: by the claim's job and its document, in its args or its own."""
    connection.execute("update batchproc.ocr_revisions set state = 'open'")
    connection.execute(
        """
        insert into batchproc.ocr_pages (revision_id, tenant_id, page, state, job_id, attempt, claim_id)
        select revision_id, tenant_id, 1, 'started', 1, 1, claim_id from batchproc.ocr_revisions
        """
    )
    connection.execute(
        """
        insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts, finished_at, args)
        select tenant_id, case when mod(document_id, 2) = 0 then document_id end, 'ocr', 'completed', 5, now(),
               case when mod(document_id, 2) = 1 then jsonb_build_object('document_id', document_id) else '{}' end
        from batchproc.documents order by document_id
        """
    )
    connection.execute("analyze batchproc.processing_jobs, batchproc.ocr_revisions, batchproc.ocr_pages")
    claims = connection.execute(
        "select claim_id, document_id, tenant_id from batchproc.ocr_revisions where document_id = any (%s)",
        [[6, 7, 100]],
    ).fetchall()
    jobs: dict[int, int] = dict(
        connection.execute(
            "select coalesce(document_id, (args ->> 'document_id')::bigint), job_id from batchproc.processing_jobs"
        ).fetchall()
    )
    values = {
        "claim_ids": [claim_id for claim_id, _, _ in claims] + [uuid4()],
        "job_ids": [jobs[document_id] for _, document_id, _ in claims] + [jobs[8]],
        "tenant_ids": [tenant_id for _, _, tenant_id in claims] + [archive["many"]],
    }
    assert rows_read(connection, "batchproc.documents", "begun_pages", values) <= 20
    found = connection.execute(SqlFolder("batchproc.documents")["begun_pages"], values).fetchall()
    assert {row[0] for row in found} == {claim_id for claim_id, _, _ in claims}


def test_versions_are_also_those_of_pages_that_were_taken_over(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = Revising(connection, tenant, add_document(connection, tenant))
    old, _ = document.read(page("one"), FAILED)
    newer = document.begin(2, replace(SPEC, engine_version="6.0"))
    document.store.keep_pages(connection, newer, old)
    document.write(newer, 2, page("two"))
    document.complete(newer)
    connection.execute("delete from batchproc.ocr_revisions where revision_id = %s", [old])
    selection = DocumentSelection("batchproc")

    def by_version(version: str) -> list[int]:
        chosen = Filter(engine_versions=[version])
        return [one.document_id for one in selection.slice(connection, chosen, after=0, limit=9)]

    assert sorted(selection.engine_versions(connection)) == ["5.5", "6.0"]
    assert by_version("5.5") == by_version("6.0") == [document.document_id]
    document.read(page("one"), page("two"), spec=replace(SPEC, engine_version="6.0"))
    assert by_version("5.5") == []


def test_a_revision_of_before_there_were_sums_is_chosen_by_the_confidence_of_its_pages(connection: Conn) -> None:
    tenant = add_tenant(connection)
    document = Revising(connection, tenant, add_document(connection, tenant))
    document.read(page("one two three", 80.0), page("four", 40.0))
    without_sums(connection)
    selection = DocumentSelection("batchproc")
    for below, number in ((70.5, 1), (69.5, 0)):
        assert len(selection.slice(connection, Filter(below_confidence=below), after=0, limit=9)) == number


def test_jobs_that_wait_are_looked_for_by_document(connection: Conn, archive: dict[str, int]) -> None:
    connection.execute(
        """
        insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts, finished_at)
        select tenant_id, document_id, 'ocr', 'completed', 5, now() from batchproc.documents
        """
    )
    connection.execute("analyze batchproc.processing_jobs")
    values = {"document_ids": list(range(1, 101)), "kind": "ocr", "pilots": False}
    assert rows_read(connection, "batchproc.queue", "waiting_documents", values) <= 250
