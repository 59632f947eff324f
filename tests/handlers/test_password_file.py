"""A tenant's password file: what of it is believed, that it opens documents, and that it shows nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from batchproc.database import connect
from batchproc.handlers.errors import Failure
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs
from batchproc.handlers.password_file import MAX_BYTES, MAX_PASSWORDS, UnusablePasswordFile, read_passwords
from batchproc.settings import Settings
from tests.faults.stored import tables_with
from tests.handlers.running_job import Conn, add_document, add_tenant, running_job
from tests.ocr.encrypted import encrypted_pdf

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
    with pytest.raises(UnusablePasswordFile, match="No such file"):
        read_passwords(tmp_path / "missing")


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
    return ocr(ctx, OcrArgs(document_id=document))


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
    assert "chmod 600" in detail
    assert str(tmp_path) not in detail
