"""An original is checked before it is read, by the descriptor that is read, and what proves its root is remembered."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loguru import logger

from batchproc.database import connect
from batchproc.documents.originals import Original, OriginalError, StorageGone
from batchproc.documents.storage_roots import StorageRoots
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, StorageUnavailable
from batchproc.handlers.ocr import ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.verified_originals import VerifiedOriginals
from batchproc.ocr.errors import OcrFailure
from tests.handlers.running_job import Conn, add_document, add_tenant, running_job
from tests.mounts import Mounts

CONTENT = b"%PDF the original"


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return holding(tmp_path / "archive")


def holding(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "scan.pdf").write_bytes(content)
    return folder


class Job:
    """A job on one document, and the places of its original."""

    def __init__(self, connection: Conn, file: Path, workdir: Path) -> None:
        self.connection = connection
        self.tenant = add_tenant(connection, "acme")
        self.document_id = add_document(connection, self.tenant, file)
        self.ctx = running_job(connection, workdir, kind="ocr", tenant_id=self.tenant, document_id=self.document_id)

    @property
    def originals(self) -> VerifiedOriginals:
        return VerifiedOriginals(self.ctx, self.ctx.documents.load(self.connection, self.document_id))

    def read(self) -> bytes:
        with self.originals.open() as original:
            return os.pread(original.descriptor, 100, 0)

    def also_at(self, root: Path) -> None:
        self.connection.execute(
            "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, %s, 'scan.pdf')",
            [self.tenant, self.document_id, bytes(root)],
        )

    def fails(self) -> str:
        with pytest.raises(OriginalError) as caught:
            self.originals.open()
        return caught.value.code

    def waits(self) -> str:
        with pytest.raises(StorageGone) as caught:
            self.originals.open()
        return caught.value.summary

    def roots(self) -> list[tuple[str, str]]:
        """The remembered roots, each with the transaction that wrote it last."""
        rows = self.connection.execute("select root, xmin::text from batchproc.storage_roots order by root").fetchall()
        return [(os.fsdecode(root), written) for root, written in rows]


@pytest.fixture
def job(connection: Conn, root: Path, tmp_path: Path) -> Job:
    return Job(connection, root / "scan.pdf", tmp_path)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    lines: list[str] = []
    number = logger.add(lambda line: lines.append(str(line)), format="{level} {message}")
    yield lines
    logger.remove(number)


def test_an_unchanged_original_proves_its_root_once(job: Job, root: Path) -> None:
    assert job.read() == CONTENT
    [(known, written)] = job.roots()
    assert known == str(root)
    [(first,)] = job.connection.execute("select verified_at from batchproc.documents").fetchall()
    assert job.read() == CONTENT
    [(second,)] = job.connection.execute("select verified_at from batchproc.documents").fetchall()
    assert second > first
    assert job.roots() == [(str(root), written)], "nothing is written of a root that is as it was"


def test_a_root_that_was_replaced_heals_by_the_first_original_that_is_unchanged(
    job: Job, root: Path, tmp_path: Path
) -> None:
    job.read()
    root.rename(tmp_path / "old disk")
    root.mkdir()
    assert "is not the one it was" in job.waits()
    holding(root)
    assert job.read() == CONTENT
    (root / "scan.pdf").unlink()
    assert job.fails() == "source_missing"


def test_a_changed_original_is_an_alarm_that_names_it(job: Job, root: Path, logged: list[str]) -> None:
    job.read()
    (root / "scan.pdf").write_bytes(CONTENT.upper())
    with pytest.raises(Failure) as caught:
        ocr(job.ctx, OcrArgs(document_id=job.document_id))
    assert caught.value.code == "source_changed"
    document = job.ctx.documents.load(job.connection, job.document_id)
    assert (document.status, document.failure_code) == ("failed", "source_changed")
    [alarm] = [line for line in logged if "integrity alarm" in line]
    assert alarm.startswith("ERROR ")
    assert f"{root}/scan.pdf" in alarm
    assert f"document {job.document_id} of tenant acme" in alarm


def test_other_files_of_the_same_names_on_another_disk_are_no_alarm(
    job: Job, root: Path, tmp_path: Path, logged: list[str]
) -> None:
    job.read()
    root.rename(tmp_path / "the archive")
    holding(root, CONTENT.upper())
    with pytest.raises(StorageUnavailable, match="is not the one it was"):
        ocr(job.ctx, OcrArgs(document_id=job.document_id))
    document = job.ctx.documents.load(job.connection, job.document_id)
    assert (document.status, document.failure_code) == ("pending", None)
    assert not [line for line in logged if "integrity alarm" in line]
    holding(root, b"of another size")
    assert job.waits()


def test_a_file_system_mounted_over_a_folder_is_believed_once_an_original_was_found_there(
    connection: Conn, tmp_path: Path, mounts: Mounts
) -> None:
    below = holding(tmp_path / "archive", b"of the root") / "2021"
    file = holding(below) / "scan.pdf"
    job = Job(connection, file, tmp_path)
    connection.execute("update batchproc.documents set root = %s, path = '2021/scan.pdf'", [bytes(below.parent)])
    connection.execute("update batchproc.document_paths set root = %s, path = '2021/scan.pdf'", [bytes(below.parent)])
    assert job.read() == CONTENT
    mounts.memory(below)
    assert f"something is mounted on {below} in which no original was found yet" in job.waits()
    file.write_bytes(b"%PDF other tax!!")
    assert job.waits(), "as long as nothing of the archive was found there, no other content is an alarm"
    file.write_bytes(CONTENT)
    assert job.read() == CONTENT, "with the right hash it is the right file, wherever it lies"
    assert [root for root, _ in job.roots()] == [str(below.parent), str(below)]
    file.unlink()
    assert job.fails() == "source_missing"
    mounts.unmount(below)
    assert job.read() == CONTENT


def test_a_good_copy_is_read_when_the_other_root_is_gone(job: Job, root: Path, tmp_path: Path) -> None:
    copy = holding(tmp_path / "copy")
    job.also_at(copy)
    job.read()
    root.rename(tmp_path / "unmounted")
    assert job.read() == CONTENT
    root.mkdir()
    assert job.read() == CONTENT
    (copy / "scan.pdf").unlink()
    assert str(root) in job.waits(), "the copy is missing, but the original may be there"
    root.rmdir()
    (tmp_path / "unmounted").rename(root)
    (root / "scan.pdf").unlink()
    assert job.fails() == "source_missing"


def test_a_missing_original_is_not_given_up_while_the_root_of_its_copy_is_gone(
    job: Job, root: Path, tmp_path: Path
) -> None:
    copy = holding(tmp_path / "copy")
    job.also_at(copy)
    (root / "scan.pdf").unlink()
    job.read()
    copy.rename(tmp_path / "unmounted")
    copy.mkdir()
    assert str(copy) in job.waits()


def test_what_is_too_large_is_not_hashed(job: Job, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = 10 * 2**30
    os.truncate(root / "scan.pdf", huge)
    job.connection.execute("update batchproc.documents set bytes = %s", [huge])

    def hashed(_: Original, __: Callable[[], None] | None = None) -> bytes:
        raise AssertionError("it was hashed")

    monkeypatch.setattr(Original, "sha256", hashed)
    with pytest.raises(OcrFailure) as caught:
        job.originals.open()
    assert caught.value.code == "too_large"
    os.truncate(root / "scan.pdf", huge + 1)
    assert job.fails() == "source_changed", "nor is what has another size"


def test_what_is_read_is_what_was_hashed_whatever_takes_its_name(job: Job, root: Path) -> None:
    with job.originals.open() as original:
        (root / "other").write_bytes(b"something else")
        (root / "other").rename(root / "scan.pdf")
        assert os.pread(original.descriptor, 100, 0) == CONTENT
    assert job.fails() == "source_changed"


def test_what_is_overwritten_while_it_is_read_is_found_out(job: Job, root: Path) -> None:
    with job.originals.open() as original:
        assert not original.touched()
        (root / "scan.pdf").write_bytes(CONTENT.upper())
        assert original.touched()
        with pytest.raises(OriginalError):
            job.originals.verify(original)


def test_a_hard_link_is_as_good_a_file(job: Job, root: Path, tmp_path: Path) -> None:
    (root / "scan.pdf").rename(tmp_path / "first name")
    os.link(tmp_path / "first name", root / "scan.pdf")
    assert job.read() == CONTENT


def test_a_read_only_root_is_enough_and_no_time_of_access_changes(
    job: Job, root: Path, tmp_path: Path, mounts: Mounts
) -> None:
    file = root / "scan.pdf"
    os.utime(file, (1, 10**9))  # read before it was written last: what relatime would set anew
    assert job.read() == CONTENT
    assert file.stat().st_atime == 1
    disk = tmp_path / "disk"
    root.rename(disk)
    mounts.read_only(disk, root)
    with pytest.raises(OSError, match="Read-only"):
        (root / "scan.pdf").touch()
    assert job.read() == CONTENT


def test_somebody_elses_file_is_read_as_usual(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file's owner, or root, may ask for its time of access to stay."""
    really, refused = os.open, []

    def as_another_user(path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_NOATIME:
            refused.append(path)
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr("batchproc.documents.walk.os.open", as_another_user)
    assert job.read() == CONTENT
    assert refused == [b"scan.pdf"]


def test_a_storage_that_stops_to_answer_is_named_without_the_file(
    job: Job, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("batchproc.documents.originals.os.preadv", stale)
    with pytest.raises(StorageUnavailable) as caught:
        ocr(job.ctx, OcrArgs(document_id=job.document_id))
    assert caught.value.detail == f"the storage root {root} does not answer: Stale file handle"
    assert job.roots() == []


def test_a_root_without_a_row_is_believed_as_ever(job: Job, root: Path, tmp_path: Path) -> None:
    """As in a database of an older release, until the first original was read."""
    root.rename(tmp_path / "unmounted")
    root.mkdir()
    assert job.fails() == "source_missing"
    assert StorageRoots("batchproc").all(job.connection) == []


def test_nothing_is_remembered_without_the_claim(job: Job) -> None:
    job.connection.execute("update batchproc.processing_jobs set claim_id = gen_random_uuid()")
    with pytest.raises(Exception, match="no longer claimed"):
        job.originals.open()
    assert job.roots() == []
    assert isinstance(job.ctx, Context)
