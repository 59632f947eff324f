"""A tenant's password file: what of it is believed, that it opens documents, and that it shows nowhere."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from batchproc.database import connect
from batchproc.handlers.errors import Failure, StorageUnavailable
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.password_file import (
    MAX_BYTES,
    MAX_PASSWORDS,
    MissingPasswordFile,
    SilentPasswordFile,
    UnusablePasswordFile,
    read_passwords,
)
from batchproc.handlers.registry import declared
from batchproc.settings import Settings
from tests.faults.stored import tables_with
from tests.handlers.running_job import Conn, add_document, add_tenant, running_job
from tests.ocr.encrypted import encrypted_pdf
from tests.queue.helpers import rows_of

SECRET = "hunter2-Quetzal"
SETTINGS = Settings.model_validate({"ocr": {"languages": ["eng"]}})


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def password_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "passwords"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" with blanks \n", [" with blanks "]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        ("förster\n".encode(), ["förster"]),
        ("förster\n".encode("latin-1"), ["förster"]),
        (b"one\none\n", ["one"]),
    ],
)
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_one_password_a_line(tmp_path: Path, content: bytes, expected: list[str], mode: int) -> None:
    assert read_passwords(password_file(tmp_path, content, mode)) == expected


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601, 0o700, 0o777])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UnusablePasswordFile, match=f"{mode:04o}.*chmod 600"):
        read_passwords(password_file(tmp_path, SECRET.encode(), mode))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(UnusablePasswordFile, match="no regular file"):
            read_passwords(path)
    with pytest.raises(UnusablePasswordFile, match=r"regular file|directory"):
        read_passwords(tmp_path)
    for path in (tmp_path / "missing", tmp_path / "missing" / "passwords", pipe / "passwords"):
        with pytest.raises(MissingPasswordFile, match=r"No such file|Not a directory"):
            read_passwords(path)


def answer(monkeypatch: pytest.MonkeyPatch, path: Path, code: int) -> None:
    """Lets whoever opens ``path`` meet an error of the system."""
    opened = os.open

    def refuse(name: os.PathLike[str] | str, *args: Any, **options: Any) -> int:
        if name == path:
            raise OSError(code, os.strerror(code))
        return opened(name, *args, **options)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.EIO, SilentPasswordFile),
        (errno.ESTALE, SilentPasswordFile),
        (errno.EACCES, UnusablePasswordFile),
        (errno.EMFILE, OSError),
    ],
)
def test_errors_of_the_system_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[Exception]
) -> None:
    path = password_file(tmp_path, b"one")
    answer(monkeypatch, path, code)
    with pytest.raises(expected, match=os.strerror(code)) as caught:
        read_passwords(path)
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    "content",
    [
        SECRET.encode() + b"\n" * MAX_BYTES,
        b"".join(b"%d\n" % number for number in range(MAX_PASSWORDS + 1)),
        SECRET.encode() + b"x" * 127,
        SECRET.encode() + b"\0",
    ],
)
def test_too_much_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnusablePasswordFile) as caught:
        read_passwords(password_file(tmp_path, content))
    assert SECRET not in str(caught.value)


def test_another_users_file_is_refused_unless_by_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = password_file(tmp_path, b"one")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1 + (path.stat().st_uid == 0) * 1000)
    if path.stat().st_uid == 0:  # root's files are trusted
        assert read_passwords(path) == ["one"]
        os.chown(path, 12345, -1)
    with pytest.raises(UnusablePasswordFile, match="another user"):
        read_passwords(path)


def read_encrypted(connection: Conn, folder: Path, passwords: Path | None) -> OcrResult:
    original = folder / "letter.pdf"
    original.write_bytes(encrypted_pdf("A letter with secrets", user=SECRET.encode()))
    settings = {} if passwords is None else {"password_file": str(passwords)}
    tenant = add_tenant(connection, **settings)
    document = add_document(connection, tenant, original)
    workdir = folder / "work"
    workdir.mkdir()
    ctx = running_job(connection, workdir, kind="ocr", tenant_id=tenant, document_id=document, settings=SETTINGS)
    result = ocr(ctx, OcrArgs(document_id=document))
    assert isinstance(result, OcrResult)
    return result


def test_the_tenants_passwords_open_its_documents_and_are_kept_nowhere(connection: Conn, tmp_path: Path) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE")
    try:
        result = read_encrypted(connection, tmp_path, password_file(tmp_path, f"wrong\n{SECRET}\n".encode()))
    finally:
        logger.remove(sink)
    assert (result.pages, result.text_pages) == (1, 1)
    assert tables_with(connection, SECRET) == []
    assert SECRET not in "".join(lines)
    assert SECRET not in result.model_dump_json()


def test_without_the_right_one_the_document_is_encrypted(connection: Conn, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        read_encrypted(connection, tmp_path, password_file(tmp_path, b"wrong\n"))
    assert (caught.value.code, caught.value.retry) == ("encrypted", False)


def test_a_file_that_became_unusable_is_told(connection: Conn, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        read_encrypted(connection, tmp_path, password_file(tmp_path, SECRET.encode(), 0o644))
    assert caught.value.code == "encrypted"
    detail = caught.value.detail or ""
    assert "the tenant's password file was not used: its mode is 0644, which opens it to others: chmod 600" in detail
    assert str(tmp_path) not in detail


def test_one_whose_storage_does_not_answer_is_waited_for(
    connection: Conn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = password_file(tmp_path, SECRET.encode())
    answer(monkeypatch, path, errno.ESTALE)
    with pytest.raises(StorageUnavailable) as caught:
        read_encrypted(connection, tmp_path, path)
    detail = caught.value.detail or ""
    assert "password_file: its storage does not answer" in detail
    assert str(tmp_path) not in detail
    [document] = rows_of(connection, "select document_id, status, failure_code from batchproc.documents")
    assert (document["status"], document["failure_code"]) == ("pending", None)
    assert f"document {document['document_id']} " in detail, "or twenty would speak for all that lies with them"


def test_one_that_is_missing_is_named_and_tried_again(connection: Conn, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        read_encrypted(connection, tmp_path, tmp_path / "unmounted" / "passwords")
    assert (caught.value.code, caught.value.retry) == ("password_file_missing", True)
    assert caught.value.code in declared(ocr).spec.failure_codes
    detail = caught.value.detail or ""
    assert "setting password_file" in detail
    assert "tenants set SLUG --password-file" in detail
    assert str(tmp_path) not in detail
