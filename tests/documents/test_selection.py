"""EXPLAIN pins: a slice of an archive costs what it gives, and the page of a claim is found without a scan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from batchproc.database import SqlFolder, connect
from batchproc.documents.selection import DocumentSelection, Filter
from tests.handlers.running_job import Conn, add_tenant

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
    points = ("tenant_id", "document_ids", "statuses", "below_confidence", "engine_versions")
    return {**dict.fromkeys(points), **chosen, "after": after, "limit": limit}


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


def test_the_page_of_a_claim_is_found_among_the_few_open_revisions(connection: Conn, archive: dict[str, int]) -> None:
    values = {"claim_ids": [uuid4()] * 3, "tenant_ids": [archive["many"]] * 3}
    assert rows_read(connection, "batchproc.documents", "begun_pages", values) <= 3 + 3 * DOCUMENTS // 500


def test_jobs_that_wait_are_looked_for_by_document(connection: Conn, archive: dict[str, int]) -> None:
    connection.execute(
        """
        insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts, finished_at)
        select tenant_id, document_id, 'ocr', 'completed', 5, now() from batchproc.documents
        """
    )
    connection.execute("analyze batchproc.processing_jobs")
    values = {"document_ids": list(range(1, 101)), "kind": "ocr"}
    assert rows_read(connection, "batchproc.queue", "waiting_documents", values) <= 250
