"""Importing: every readable file becomes a document with a job, everything else a named rejection."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.database import connect
from batchproc.documents.store import DocumentStore
from batchproc.ops.importing import ImportOptions, import_manifest, import_paths
from batchproc.ops.reviving import MENDED_BY_IMPORT, DocumentJob
from batchproc.queue.store import JobStore, Tenant
from tests.handlers.running_job import Conn, add_text
from tests.ops.import_result import ImportResult

STORE = DocumentStore("batchproc", tenant_id=None)
JOBS = JobStore("batchproc")


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> Tenant:
    return JOBS.add_tenant(connection, "acme")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An archive with two files, a hidden one, an empty one and a folder below."""
    archive = tmp_path / "archive"
    (archive / "below" / "deeper").mkdir(parents=True)
    (archive / ".hidden").write_bytes(b"hidden")
    (archive / "b.tif").write_bytes(b"b")
    (archive / "a.pdf").write_bytes(b"a")
    (archive / "empty").write_bytes(b"")
    (archive / "below" / "deeper" / "c.png").write_bytes(b"c")
    return archive


def imported(
    connection: Conn, tenant: Tenant, *paths: Path | bytes, options: ImportOptions | None = None
) -> ImportResult:
    given = [path if isinstance(path, bytes) else bytes(path) for path in paths]
    return ImportResult(import_paths(connection, STORE, JOBS, tenant, given, options))


def names(result: ImportResult) -> list[bytes]:
    return [document.path.rpartition(b"/")[2] for document in result.documents]


def codes(result: ImportResult) -> dict[bytes, str]:
    return {rejected.path.rpartition(b"/")[2]: rejected.failure_code for rejected in result.rejected}


def test_a_folder_gives_its_direct_files_sorted(connection: Conn, tenant: Tenant, folder: Path) -> None:
    result = imported(connection, tenant, folder)
    assert names(result) == [b"a.pdf", b"b.tif", b"empty"]
    assert result.rejected == []
    document = STORE.load(connection, result.documents[0].document_id)
    assert (document.root, document.path, document.bytes) == (bytes(folder), b"a.pdf", 1)
    assert document.sha256 == result.documents[0].sha256 == hashlib.sha256(b"a").digest()
    assert (document.status, document.tenant_id) == ("pending", tenant.tenant_id)


def test_recursive_gives_all_below(connection: Conn, tenant: Tenant, folder: Path) -> None:
    (folder / "below" / ".git").mkdir()
    (folder / "below" / ".git" / "config").write_bytes(b"config")
    result = imported(connection, tenant, folder, options=ImportOptions(recursive=True))
    assert names(result) == [b"a.pdf", b"b.tif", b"empty", b"c.png"]
    assert STORE.load(connection, result.documents[3].document_id).path == b"below/deeper/c.png"


def test_a_hidden_file_named_outright_is_taken(connection: Conn, tenant: Tenant, folder: Path) -> None:
    assert names(imported(connection, tenant, folder / ".hidden")) == [b".hidden"]


def test_each_document_has_its_job(connection: Conn, tenant: Tenant, folder: Path) -> None:
    options = ImportOptions(lane=Lane.INTERACTIVE, priority=2, spec=KindSpec("ocr", max_attempts=7))
    result = imported(connection, tenant, folder / "a.pdf", options=options)
    rows = connection.execute(
        "select job_id, document_id, kind, state, args, lane, priority, unique_key, max_attempts"
        " from batchproc.processing_jobs"
    ).fetchall()
    found = result.documents[0]
    key = f"document:{found.document_id}"
    assert rows == [
        (found.job_id, found.document_id, "ocr", "available", {"trigger": "upload"}, 0, 2, key, 7),
    ]


def test_no_jobs_registers_only(connection: Conn, tenant: Tenant, folder: Path) -> None:
    result = imported(connection, tenant, folder, options=ImportOptions(with_jobs=False))
    assert [document.job_id for document in result.documents] == [None, None, None]
    assert connection.execute("select count(*) from batchproc.processing_jobs").fetchone() == (0,)


def test_a_duplicate_adds_a_path_and_no_job(connection: Conn, tenant: Tenant, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.pdf").write_bytes(b"a")
    first = imported(connection, tenant, folder / "a.pdf").documents[0]
    again = imported(connection, tenant, tmp_path / "copy.pdf", folder / "a.pdf").documents
    assert [(found.document_id, found.job_id, found.duplicate) for found in again] == [
        (first.document_id, first.job_id, True)
    ] * 2
    assert STORE.paths(connection, first.document_id) == [(bytes(folder), b"a.pdf"), (bytes(tmp_path), b"copy.pdf")]
    assert connection.execute("select count(*) from batchproc.processing_jobs").fetchone() == (1,)


@pytest.mark.parametrize("code", sorted(MENDED_BY_IMPORT))
def test_a_document_that_failed_for_its_original_gets_a_job(
    connection: Conn, tenant: Tenant, folder: Path, code: str
) -> None:
    """It was found after all: that code is no more."""
    first = imported(connection, tenant, folder / "a.pdf").documents[0]
    connection.execute("delete from batchproc.processing_jobs")
    connection.execute("update batchproc.documents set status = 'failed', failure_code = %s", [code])

    registered_only = imported(connection, tenant, folder / "a.pdf", options=ImportOptions(with_jobs=False))
    assert registered_only.documents[0].job == DocumentJob(None, made=False, waits=False)
    again = imported(connection, tenant, folder / "a.pdf").documents[0]
    assert (again.document_id, again.duplicate, again.failure_code) == (first.document_id, True, code)
    assert (again.job.made, again.job.waits) == (True, True)
    once_more = imported(connection, tenant, folder / "a.pdf").documents[0]
    assert once_more.job == DocumentJob(again.job_id, made=False, waits=True)
    rows = connection.execute("select job_id, args from batchproc.processing_jobs").fetchall()
    assert rows == [(again.job_id, {"trigger": "upload"})]


def test_a_job_by_hand_keeps_an_import_from_making_another(connection: Conn, tenant: Tenant, folder: Path) -> None:
    found = imported(connection, tenant, folder / "a.pdf", options=ImportOptions(with_jobs=False)).documents[0]
    connection.execute("update batchproc.documents set status = 'failed', failure_code = 'source_missing'")
    by_hand = JOBS.enqueue(connection, NewJob(tenant.tenant_id, "ocr", document_id=found.document_id))
    again = imported(connection, tenant, folder / "a.pdf").documents[0]
    assert again.job == DocumentJob(by_hand.job_id, made=False, waits=True)


def test_what_followed_the_upload_does_not_follow_again(connection: Conn, tenant: Tenant, folder: Path) -> None:
    found = imported(connection, tenant, folder / "a.pdf", options=ImportOptions(with_jobs=False)).documents[0]
    add_text(connection, tenant.tenant_id, found.document_id, ["text"])
    connection.execute("update batchproc.documents set failure_code = 'permission_denied'")
    assert imported(connection, tenant, folder / "a.pdf").documents[0].job.made
    assert connection.execute("select args from batchproc.processing_jobs").fetchall() == [({},)]


@pytest.mark.parametrize("code", ["encrypted", "missing_language", "poison", "password_file_missing"])
def test_what_failed_for_anything_else_gets_no_job(connection: Conn, tenant: Tenant, folder: Path, code: str) -> None:
    imported(connection, tenant, folder / "a.pdf", options=ImportOptions(with_jobs=False))
    connection.execute("update batchproc.documents set status = 'failed', failure_code = %s", [code])
    again = imported(connection, tenant, folder / "a.pdf").documents[0]
    assert (again.failure_code, again.job) == (code, DocumentJob(None, made=False, waits=False))


def test_names_that_are_not_text_are_kept_as_bytes(
    connection: Conn, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [b"\xff\xfe.tif", b"new\nline.tif", b"-rf", b" ", b"back\\x41slash"]
    for number, name in enumerate(odd):
        (tmp_path / os.fsdecode(name)).write_bytes(b"%d" % number)
    monkeypatch.chdir(tmp_path)
    result = imported(connection, tenant, *odd)
    assert names(result) == odd
    stored = [STORE.load(connection, document.document_id).path for document in result.documents]
    assert stored == odd


def test_what_is_no_file_inside_the_roots_is_rejected(
    connection: Conn, tenant: Tenant, folder: Path, tmp_path: Path
) -> None:
    os.mkfifo(folder / "pipe")
    (tmp_path / "outside").write_bytes(b"outside")
    (folder / "leaving").symlink_to(tmp_path / "outside")
    (folder / "staying").symlink_to("a.pdf")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "folder-link").symlink_to(folder / "below")
    options = ImportOptions(roots=(bytes(folder),), recursive=True)
    result = imported(connection, tenant, folder, tmp_path / "outside", folder / "missing", options=options)
    assert codes(result) == {
        b"pipe": "not_a_file",
        b"leaving": "outside_roots",
        b"dangling": "source_missing",
        b"outside": "outside_roots",
        b"missing": "source_missing",
    }
    assert names(result) == [b"a.pdf", b"b.tif", b"empty", b"a.pdf", b"c.png"]
    assert [document.duplicate for document in result.documents] == [False, False, False, True, False]


def test_a_link_leaving_the_folder_of_a_given_file_is_rejected(connection: Conn, tenant: Tenant, folder: Path) -> None:
    (folder / "below" / "leaving").symlink_to(folder / "a.pdf")
    assert codes(imported(connection, tenant, folder / "below" / "leaving")) == {b"leaving": "outside_roots"}


@pytest.mark.parametrize("recursive", [False, True])
def test_a_link_that_leads_round_in_circles_is_rejected_by_name(
    connection: Conn, tenant: Tenant, folder: Path, recursive: bool
) -> None:
    (folder / "aa").symlink_to("aa")
    result = imported(connection, tenant, folder, options=ImportOptions(recursive=recursive))
    assert codes(result) == {b"aa": "source_missing"}
    assert "symbolic links" in result.rejected[0].detail
    assert names(result)[:3] == [b"a.pdf", b"b.tif", b"empty"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_folder_that_its_storage_cannot_list_ends_the_import(
    connection: Conn, tenant: Tenant, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.scandir

    def scandir(path: bytes) -> Any:
        if path.endswith(b"/deeper"):
            raise OSError(number, os.strerror(number))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(EnvironmentFault, match=r"the storage does not answer: .*/deeper: "):
        imported(connection, tenant, folder, options=ImportOptions(recursive=True))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_rejected(connection: Conn, tenant: Tenant, folder: Path) -> None:
    (folder / "a.pdf").chmod(0)
    (folder / "behind").symlink_to("below/deeper/c.png")
    (folder / "below").chmod(0)
    try:
        result = imported(connection, tenant, folder, options=ImportOptions(recursive=True))
    finally:
        (folder / "below").chmod(0o700)
    assert codes(result) == dict.fromkeys((b"a.pdf", b"behind", b"below"), "permission_denied")


def test_a_language_given_for_all_is_stored(connection: Conn, tenant: Tenant, folder: Path) -> None:
    result = imported(connection, tenant, folder / "a.pdf", options=ImportOptions(language="deu+fra"))
    assert STORE.load(connection, result.documents[0].document_id).language == "deu+fra"


def manifest_of(folder: Path, *lines: object) -> bytes:
    file = folder.parent / "manifest.ndjson"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return bytes(file)


def test_a_manifest_brings_ids_languages_and_titles(connection: Conn, tenant: Tenant, folder: Path) -> None:
    (folder / os.fsdecode(b"\xff.tif")).write_bytes(b"odd")
    manifest = manifest_of(
        folder,
        {"path": "archive/a.pdf", "external_id": "A-1", "language": "fra", "title": "Première"},
        "",
        {"path": str(folder / "b.tif")},
        {"path": r"archive/\xff.tif"},
    )
    options = ImportOptions(language="deu")
    result = ImportResult(import_manifest(connection, STORE, JOBS, tenant, manifest, options))
    assert names(result) == [b"a.pdf", b"b.tif", b"\xff.tif"]
    first, second, _ = (STORE.load(connection, document.document_id) for document in result.documents)
    assert (first.external_id, first.language, first.title, first.title_source) == (
        "A-1",
        "fra",
        "Première",
        "manifest",
    )
    assert (second.external_id, second.language, second.title) == (None, "deu", None)


def test_each_bad_line_of_a_manifest_is_named(connection: Conn, tenant: Tenant, folder: Path) -> None:
    manifest = manifest_of(
        folder,
        "{",
        "[" * 100_000,
        ["archive/a.pdf"],
        {"path": ""},
        {"path": "archive/a.pdf", "colour": "red"},
        {"path": "archive/a.pdf", "language": "../../etc/passwd"},
        {"path": "archive/a\0.pdf"},
        {"path": "archive/a.pdf", "external_id": "\0"},
        {"path": "archive/none.pdf"},
        {"path": "archive"},
        {"path": "archive/a.pdf", "external_id": "same"},
        {"path": "archive/b.tif", "external_id": "same"},
    )
    result = ImportResult(import_manifest(connection, STORE, JOBS, tenant, manifest))
    assert names(result) == [b"a.pdf"]
    assert codes(result) == {b"manifest.ndjson:%d" % line: "invalid_line" for line in range(1, 9)} | {
        b"none.pdf": "source_missing",
        b"archive": "not_a_file",
        b"b.tif": "external_id_taken",
    }
    assert "colour" in result.rejected[4].detail
    assert connection.execute("select count(*) from batchproc.documents").fetchone() == (1,)


def test_a_manifest_that_is_missing_is_a_usage_error(connection: Conn, tenant: Tenant, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.ndjson cannot be read: No such file"):
        ImportResult(import_manifest(connection, STORE, JOBS, tenant, bytes(folder / "none.ndjson")))


def test_a_document_and_its_job_come_together_or_not_at_all(connection: Conn, tenant: Tenant, folder: Path) -> None:
    gone = replace(tenant, tenant_id=tenant.tenant_id + 1)
    with pytest.raises(Exception, match="foreign key"):
        imported(connection, gone, folder / "a.pdf")
    assert connection.execute("select count(*) from batchproc.documents").fetchone() == (0,)
