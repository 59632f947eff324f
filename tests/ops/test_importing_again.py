"""An import that is given again, whether it was cut short or not: what has not changed is not read again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import connect
from batchproc.documents import file_stamp
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.originals import Original, StorageGone
from batchproc.documents.store import DocumentStore, NewDocument
from batchproc.ops import import_batches
from batchproc.ops.import_batches import ImportBatches
from batchproc.ops.importing import Import, Imported, ImportOptions
from batchproc.queue.campaigns import Campaigns
from batchproc.queue.store import JobStore, Tenant
from tests.handlers.running_job import Conn
from tests.ops.import_result import ImportResult
from tests.queue.helpers import wait_for_blocked

STORE = DocumentStore("batchproc", tenant_id=None)
JOBS = JobStore("batchproc")
HOUR_NS = 3600 * 10**9


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> Tenant:
    return JOBS.add_tenant(connection, "acme")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    archive = tmp_path / "archive"
    archive.mkdir()
    for number in range(5):
        (archive / f"{number}.tif").write_bytes(b"%d" % number)
    return archive


@pytest.fixture
def _clocks_tick_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files of the test were old: no test can wait until they are."""
    monkeypatch.setattr(file_stamp, "_COARSE_NS", -HOUR_NS)


fine = pytest.mark.usefixtures("_clocks_tick_finely")


def imported(connection: Conn, tenant: Tenant, folder: Path, options: ImportOptions | None = None) -> ImportResult:
    return ImportResult(Import(connection, STORE, JOBS, tenant, options).paths([bytes(folder)]))


def read(result: ImportResult) -> list[str]:
    return [os.fsdecode(document.path.rpartition(b"/")[2]) for document in result.documents if document.was_read]


def counted(connection: Conn, table: str) -> int:
    statements = {
        "documents": "select count(*) from batchproc.documents",
        "paths": "select count(*) from batchproc.document_paths",
        "jobs": "select count(*) from batchproc.processing_jobs",
        "campaigns": "select count(*) from batchproc.campaigns",
    }
    row = connection.execute(statements[table].encode()).fetchone()
    assert row is not None
    return int(row[0])


# -- what is known again


@fine
def test_what_has_not_changed_is_not_read_again(connection: Conn, tenant: Tenant, folder: Path) -> None:
    first = imported(connection, tenant, folder)
    written = "select xmin::text from batchproc.documents union all select xmin::text from batchproc.document_paths"
    before = connection.execute(written).fetchall()
    again = imported(connection, tenant, folder)
    assert (len(read(first)), read(again)) == (5, [])
    assert [(one.document_id, one.job_id, one.sha256, one.bytes, one.duplicate) for one in again.documents] == [
        (one.document_id, one.job_id, one.sha256, one.bytes, True) for one in first.documents
    ]
    assert connection.execute(written).fetchall() == before, "nothing is written for it"
    assert read(imported(connection, tenant, folder, ImportOptions(reread=True))) == read(first)


@fine
def test_a_file_that_was_written_to_is_read_again_whatever_its_time_says(
    connection: Conn, tenant: Tenant, folder: Path
) -> None:
    imported(connection, tenant, folder)
    file = folder / "2.tif"
    before = file.stat()
    file.write_bytes(b"!")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = imported(connection, tenant, folder)
    assert read(again) == ["2.tif"]
    assert [one.duplicate for one in again.documents] == [True, True, False, True, True]
    assert read(imported(connection, tenant, folder)) == []
    assert (counted(connection, "documents"), counted(connection, "paths")) == (6, 6)


@fine
def test_a_file_whose_inode_alone_changed_is_read_once_more(connection: Conn, tenant: Tenant, folder: Path) -> None:
    imported(connection, tenant, folder)
    (folder / "2.tif").chmod(0o640)
    assert read(imported(connection, tenant, folder)) == ["2.tif"]
    assert read(imported(connection, tenant, folder)) == []
    assert counted(connection, "paths") == 5


def test_a_file_that_changed_a_moment_ago_is_read_again(connection: Conn, tenant: Tenant, folder: Path) -> None:
    """It can change again within the same tick of its storage's clock."""
    imported(connection, tenant, folder)
    assert len(read(imported(connection, tenant, folder))) == 5
    stamps = connection.execute("select count(*) from batchproc.document_paths where changed_ns is not null")
    assert stamps.fetchone() == (0,)


@pytest.mark.parametrize(
    ("modified", "changed", "tells"),
    [(3, 3, True), (900, 3, True), (3, 1, False), (1, 3, False), (3, -60, False), (2**34, 3, False)],
)
def test_a_stamp_tells_when_its_times_are_two_seconds_old(modified: int, changed: int, tells: bool) -> None:
    """In seconds ago: less than nothing is a clock that goes fast; 2^34 are more than the database holds in ns."""
    now, second = 10**18, 10**9
    assert FileStamp(1, now - modified * second, now - changed * second).tells(now) is tells


@fine
def test_a_year_that_no_column_holds_is_no_obstacle(connection: Conn, tenant: Tenant, folder: Path) -> None:
    os.utime(folder / "2.tif", ns=(0, 2**63 + 10**18))
    if (folder / "2.tif").stat().st_mtime_ns < 2**63:
        pytest.skip("the file system here ends before the year 2262")
    imported(connection, tenant, folder)
    assert read(imported(connection, tenant, folder)) == ["2.tif"]


@fine
def test_what_is_known_of_another_tenant_is_read(connection: Conn, tenant: Tenant, folder: Path) -> None:
    imported(connection, tenant, folder)
    other = JOBS.add_tenant(connection, "beta")
    assert len(read(imported(connection, other, folder))) == 5
    assert counted(connection, "documents") == 10


@fine
def test_what_a_document_lacks_is_taken_without_reading(connection: Conn, tenant: Tenant, folder: Path) -> None:
    first = imported(connection, tenant, folder).documents[0]
    again = imported(connection, tenant, folder, ImportOptions(language="deu"))
    assert read(again) == []
    assert STORE.load(connection, first.document_id).language == "deu"
    imported(connection, tenant, folder, ImportOptions(language="fra"))
    assert STORE.load(connection, first.document_id).language == "deu"


@fine
def test_a_document_that_failed_for_its_original_gets_its_job_without_reading(
    connection: Conn, tenant: Tenant, folder: Path
) -> None:
    """The job itself will read it. What is known says that the very content is there again."""
    imported(connection, tenant, folder, ImportOptions(with_jobs=False))
    connection.execute("update batchproc.documents set status = 'failed', failure_code = 'source_missing'")
    again = imported(connection, tenant, folder)
    assert read(again) == []
    assert [one.job.made for one in again.documents] == [True] * 5


# -- batches


def test_what_was_read_before_the_storage_went_is_kept(
    connection: Conn, tenant: Tenant, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Original.steady_sha256

    def failing(original: Original, reading: Callable[[], None]) -> tuple[bytes, int]:
        if original.location.path == b"3.tif":
            raise StorageGone("Input/output error")
        return real(original, reading)

    monkeypatch.setattr(Original, "steady_sha256", failing)
    outcomes = Import(connection, STORE, JOBS, tenant).paths([bytes(folder)])
    told = [next(outcomes) for _ in range(3)]
    with pytest.raises(EnvironmentFault, match=r"the storage does not answer"):
        next(outcomes)
    assert all(isinstance(one, Imported) for one in told)
    assert (counted(connection, "documents"), counted(connection, "jobs")) == (3, 3)


def test_what_took_a_second_to_read_is_written_before_the_rest_is(
    connection: Conn, tenant: Tenant, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_batches, "_SECONDS", 0.0)
    outcomes = Import(connection, STORE, JOBS, tenant).paths([bytes(folder)])
    next(outcomes)
    assert counted(connection, "documents") == 1
    assert len(list(outcomes)) == 4


def test_the_same_content_twice_in_a_batch_is_one_document(connection: Conn, tenant: Tenant, folder: Path) -> None:
    (folder / "5.tif").write_bytes(b"1")
    found = imported(connection, tenant, folder).documents
    assert [one.duplicate for one in found] == [False] * 5 + [True]
    assert (found[5].document_id, found[5].job_id) == (found[1].document_id, found[1].job_id)
    assert (counted(connection, "documents"), counted(connection, "paths"), counted(connection, "jobs")) == (5, 6, 5)


def test_an_import_that_is_a_deadlocks_victim_goes_on_file_by_file(
    database_url: str, connection: Conn, tenant: Tenant, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody imports the same contents in another order, each in a transaction that waits for the other's."""
    theirs = STORE.of_tenant(tenant.tenant_id)
    together: list[int] = []
    real = ImportBatches._register_together

    def register(batches: ImportBatches, read: Sequence[Any]) -> Any:
        together.append(len(read))
        return real(batches, read)

    monkeypatch.setattr(ImportBatches, "_register_together", register)

    def same_as(number: int) -> NewDocument:
        return NewDocument(b"/other", b"%d" % number, hashlib.sha256(b"%d" % number).digest(), 1)

    def importing() -> ImportResult:
        with connect(database_url) as own:
            own.execute("set deadlock_timeout = '2s'")  # who looks for one is its victim
            return imported(own, tenant, folder)

    with ThreadPoolExecutor() as threads, connect(database_url) as other:
        other.execute("set deadlock_timeout = '30s'")
        with other.transaction():
            theirs.register(other, same_as(4))
            result = threads.submit(importing)
            wait_for_blocked(connection)
            theirs.register(other, same_as(0))
        found = result.result(timeout=30).documents
    assert [one.duplicate for one in found[1:]] == [False, False, False, True]
    assert counted(connection, "documents") == 5
    assert len(together) == 1 + 5


# -- the campaign


def campaigns(connection: Conn) -> list[tuple[object, ...]]:
    return connection.execute(
        "select command, kind, scope, documents, filled_at is not null from batchproc.campaigns order by campaign_id"
    ).fetchall()


def test_the_jobs_of_an_import_are_a_campaign(connection: Conn, tenant: Tenant, folder: Path) -> None:
    options = ImportOptions(command="import /archive --tenant acme")
    work = Import(connection, STORE, JOBS, tenant, options)
    assert len(list(work.paths([bytes(folder)]))) == 5
    assert campaigns(connection) == [("import /archive --tenant acme", "ocr", {"tenant": "acme"}, 5, False)]
    work.finish()
    assert campaigns(connection)[0][-1] is True
    jobs = connection.execute("select distinct campaign_id from batchproc.processing_jobs").fetchall()
    assert jobs == [(work.campaign_id,)]
    imported(connection, tenant, folder, options)
    assert counted(connection, "campaigns") == 1, "nothing was enqueued again"


def test_an_import_whose_campaign_is_cancelled_ends(
    connection: Conn, tenant: Tenant, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_batches, "_SECONDS", 0.0)
    work = Import(connection, STORE, JOBS, tenant, ImportOptions(command="import"))
    outcomes = work.paths([bytes(folder)])
    next(outcomes)
    assert work.campaign_id is not None
    Campaigns("batchproc").mark_cancelled(connection, work.campaign_id, cancelled=True)
    with pytest.raises(UsageError, match="was cancelled while this command"):
        next(outcomes)
    assert counted(connection, "documents") == 1


def test_a_batch_that_is_written_file_by_file_is_one_campaign(
    connection: Conn, tenant: Tenant, folder: Path, tmp_path: Path
) -> None:
    lines = [f'{{"path": "archive/{n}.tif", "external_id": "{n % 4}"}}\n' for n in range(5)]
    (tmp_path / "manifest").write_text("".join(lines))
    work = Import(connection, STORE, JOBS, tenant, ImportOptions(command="import"))
    result = ImportResult(work.manifest(bytes(tmp_path / "manifest")))
    assert [one.failure_code for one in result.rejected] == ["external_id_taken"]
    assert (counted(connection, "jobs"), campaigns(connection)[0][3], counted(connection, "campaigns")) == (4, 4, 1)
