"""The doctor's look at the tenants' password files: what is wrong with each, whose it is, and never what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from batchproc.database import connect
from batchproc.ops.doctor.examination import CHECKS
from batchproc.ops.doctor.findings import Check, Patient, concluded
from batchproc.queue.store import JobStore
from batchproc.settings import Settings
from tests.handlers.running_job import Conn

SECRET = "correct horse battery"


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def check(database_url: str, tmp_path: Path) -> Callable[[], Check]:
    patient = Patient(Settings(), "the test", tmp_path, None, lambda: database_url, database_url)
    return lambda: concluded("passwords", patient, CHECKS["passwords"])


def tenant(connection: Conn, slug: str, file: Path | None) -> None:
    jobs = JobStore("batchproc")
    jobs.add_tenant(connection, slug)
    if file is not None:
        jobs.set_tenant(connection, slug, settings={"password_file": str(file)})


def private(folder: Path, content: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    file = folder / "passwords"
    file.write_text(content)
    file.chmod(mode)
    return file


def test_a_file_that_can_be_used_is_as_it_should_be(
    check: Callable[[], Check], connection: Conn, tmp_path: Path
) -> None:
    tenant(connection, "none", None)
    assert (check().ok, check().detail) == (True, "no tenant has a file")
    tenant(connection, "acme", private(tmp_path))
    found = check()
    assert (found.ok, found.advice, found.detail) == (True, None, "1 password files are set, all can be used")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda file: file.chmod(0o644), "its mode is 0644, which opens it to others: chmod 600"),
        (lambda file: file.unlink(), "it cannot be read: No such file or directory"),
        (lambda file: (file.unlink(), file.mkdir()), "it cannot be read: Is a directory"),
        (lambda file: file.write_text(f"{SECRET}\n" * 3 + "x" * 200), "a line is longer than 127 bytes"),
    ],
    ids=["mode", "missing", "folder", "long"],
)
def test_what_keeps_workers_from_it_is_told_with_its_tenant(
    check: Callable[[], Check], connection: Conn, tmp_path: Path, spoil: Callable[[Path], object], told: str
) -> None:
    file = private(tmp_path)
    for slug in ("acme", "beta"):
        tenant(connection, slug, file)
    spoil(file)
    found = check()
    assert not found.ok
    assert f"the password file {file} of tenant acme, beta cannot be used: {told}" in found.detail
    assert found.advice is not None
    assert "or set another: batchproc tenants set acme --password-file PATH" in found.advice
    assert SECRET not in found.detail + found.advice


def test_a_file_without_a_password_is_a_warning(check: Callable[[], Check], connection: Conn, tmp_path: Path) -> None:
    tenant(connection, "acme", private(tmp_path, "\n\n"))
    found = check()
    assert found.is_warning
    assert found.detail.endswith("of tenant acme holds no password")


def test_another_users_file_is_no_use_to_this_one(
    check: Callable[[], Check], connection: Conn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = private(tmp_path)
    tenant(connection, "acme", file)
    monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    if file.stat().st_uid == 0:
        assert check().ok, "root's serves everybody who can read it"
    else:
        assert "it belongs to another user" in check().detail
