"""A storage that is unmounted, fails or is another one costs no attempt and no document, and the run ends with 3."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from batchproc.cli import main
from batchproc.database import connect
from batchproc.engine.node import RunOptions, RunReport
from batchproc.ops import summary
from tests.engine.running import Bench
from tests.faults import storage_handlers
from tests.faults.command import started_run
from tests.faults.meanwhile import meanwhile
from tests.faults.originals import prints
from tests.mounts import Mounts
from tests.ocr import drawn
from tests.waiting import wait_until

LETTERS = 16


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Letters, each a PDF with a text layer: the storage is what is tested."""
    folder = tmp_path / "disk"
    folder.mkdir()
    for number in range(LETTERS):
        letter = drawn.pdf(drawn.PdfPage(drawn.shown(f"Letter {number} of an archive that is mounted tonight")))
        (folder / f"{number}.pdf").write_bytes(letter)
    return folder


@pytest.fixture
def archive(disk: Path, tmp_path: Path, bench: Bench, mounts: Mounts) -> Path:
    """That disk, mounted, and imported for a tenant."""
    root = tmp_path / "archive"
    mounts.folder(disk, root)
    bench.tenant("acme")
    assert main.run(["--database", bench.url, "import", str(root), "--tenant", "acme"]) == 0
    return root


def ocr_jobs(bench: Bench) -> list[int]:
    return [job for (job,) in bench.rows("select job_id from batchproc.processing_jobs where kind = 'ocr'")]


def run(bench: Bench, *handlers: str) -> RunReport:
    return bench.run(RunOptions(workers=2), dispatch={"brake": 5}, handlers=list(handlers))


def assert_nothing_was_lost(bench: Bench, report: RunReport) -> None:
    """Every job of the run that found the storage gone waits, with its attempts as they were."""
    assert report.exit_code == 3
    assert (report.counts.discarded, report.counts.retried, report.braked) == (0, 0, ())
    assert bench.rows(
        "select distinct state, attempt, crashes, timeouts from batchproc.processing_jobs"
        " where failure_code = 'storage_unavailable'"
    ) == [("scheduled", 0, 0, 0)]
    assert not bench.rows("select document_id from batchproc.documents where failure_code is not null")


def assert_completes(bench: Bench, *handlers: str) -> None:
    """The next run does all that is left, at once."""
    report = run(bench, *handlers)
    assert (report.exit_code, report.left) == (0, 0)
    assert bench.states(ocr_jobs(bench)) == {"completed": LETTERS}
    assert bench.rows("select status, count(*) from batchproc.documents group by status") == [("completed", LETTERS)]


@pytest.mark.long
def test_a_disk_that_is_unmounted_in_mid_run_costs_no_attempt(
    bench: Bench, archive: Path, disk: Path, mounts: Mounts
) -> None:
    def unmount() -> None:
        completed = "select 1 from batchproc.processing_jobs where kind = 'ocr' and state = 'completed'"
        wait_until(lambda: bench_rows(bench, completed), 60, "a letter is read")
        mounts.unmount(archive)

    with meanwhile(unmount):
        report = run(bench)

    assert_nothing_was_lost(bench, report)
    states = bench.states(ocr_jobs(bench))
    assert states["completed"] + states["scheduled"] == LETTERS, states
    assert report.counts.storage_unavailable == states["scheduled"], "each was tried once, and not again"
    [told] = [line for line in summary.lines(report, [], ()) if "the storage root" in line]
    assert f"the storage root {archive} is not the one it was" in told
    assert f"({states['scheduled']} jobs wait, without an attempt used): mount or mend it" in told
    mounts.folder(disk, archive)
    assert_completes(bench)


def bench_rows(bench: Bench, statement: str) -> bool:
    """From a thread: the bench's own connection is the main thread's."""
    with connect(bench.url) as connection:
        return connection.execute(statement.encode()).fetchone() is not None


@pytest.mark.long
def test_a_file_system_mounted_over_a_folder_of_the_archive_costs_no_attempt(
    bench: Bench, tmp_path: Path, mounts: Mounts
) -> None:
    root = tmp_path / "archive"
    bench.tenant("acme")
    year = root / "2021"
    year.mkdir(parents=True)
    for number in range(LETTERS):
        words = f"Letter {number} of an archive over which something is mounted tonight"
        (year / f"{number}.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown(words))))
    assert main.run(["--database", bench.url, "import", "-r", str(root), "--tenant", "acme"]) == 0
    mounts.memory(year)

    report = run(bench)

    assert_nothing_was_lost(bench, report)
    told = " ".join(" ".join(summary.lines(report, [], ())).split())
    assert f"something is mounted on {year} in which no original was found yet" in told
    assert f" batchproc storage accept {year} " in told
    mounts.unmount(year)
    assert_completes(bench)


@pytest.mark.long
def test_the_mail_of_a_nightly_run_names_the_root_that_is_gone(bench: Bench, archive: Path, mounts: Mounts) -> None:
    mounts.unmount(archive)

    with started_run(bench, "--workers", "2", handlers=[]) as command:
        assert command.wait(60) == 3
        told, errors = command.output()

    assert errors == ""
    told = " ".join(told.split())
    assert f"the storage root {archive} is not the one it was: it is device " in told
    assert f"({LETTERS} jobs wait, without an attempt used)" in told
    assert f"{LETTERS} snoozed, {LETTERS} left" in told
    assert "exit 3" in told


@pytest.mark.long
def test_another_disk_with_files_of_the_same_names_fails_no_document(
    bench: Bench, archive: Path, disk: Path, tmp_path: Path, mounts: Mounts
) -> None:
    other = tmp_path / "other disk"
    other.mkdir()
    for file in disk.iterdir():
        (other / file.name).write_bytes(bytes(reversed(file.read_bytes())))
    mounts.unmount(archive)
    mounts.folder(other, archive)

    assert_nothing_was_lost(bench, run(bench))

    mounts.unmount(archive)
    mounts.folder(disk, archive)
    assert_completes(bench)


@pytest.fixture
def storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says with which error everything is read, see ``storage_handlers``."""
    file = tmp_path / "errno"
    monkeypatch.setenv(storage_handlers.VARIABLE, str(file))
    return file


@pytest.mark.long
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN], ids=errno.errorcode.__getitem__)
def test_a_storage_that_answers_with_an_error_costs_no_attempt(
    bench: Bench, archive: Path, storage_error: Path, number: int
) -> None:
    storage_error.write_text(str(number))

    report = run(bench, storage_handlers.__name__)

    assert_nothing_was_lost(bench, report)
    reason = os.strerror(number)
    assert dict(report.counts.storages) == {f"the storage root {archive} does not answer: {reason}": LETTERS}
    storage_error.unlink()
    assert_completes(bench, storage_handlers.__name__)


_ON_A_DISK_THAT_IS_GONE = """
    with documents as (
        insert into batchproc.documents (tenant_id, root, path, sha256, bytes)
        select %s, %s, n::text::bytea, sha256(int8send(n)), 1 from generate_series(1, %s) n
        returning document_id, tenant_id, root, path
    ), paths as (
        insert into batchproc.document_paths (tenant_id, document_id, root, path)
        select tenant_id, document_id, root, path from documents
    )
    insert into batchproc.processing_jobs (tenant_id, document_id, kind, state, max_attempts)
    select tenant_id, document_id, 'ocr', 'available', 5 from documents
    returning job_id
"""


def test_a_disk_that_is_gone_is_not_looked_for_by_every_job_and_keeps_nobody_from_another(
    bench: Bench, tmp_path: Path
) -> None:
    """The jobs of the disk that is gone are the older ones, of the same tenant."""
    root, tenant = tmp_path / "archive", bench.tenant("acme")
    root.mkdir()
    bench.rows(_ON_A_DISK_THAT_IS_GONE, tenant, bytes(tmp_path / "gone"), 5000)
    for number in range(3):
        (root / f"{number}.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown(f"Letter {number} on a good disk"))))
    assert main.run(["--database", bench.url, "import", str(root), "--tenant", "acme"]) == 0

    report = run(bench)

    assert (report.exit_code, report.left, report.braked) == (3, 5000, ())
    assert bench.rows("select status, count(*) from batchproc.documents group by 1 order by 1") == [
        ("completed", 3),
        ("pending", 5000),
    ]
    assert report.counts.snoozed < 1000, "most of them were put off without being tried"
    [(told, waiting)] = report.counts.storages.items()
    assert told == f"the storage root {tmp_path / 'gone'} cannot be opened: No such file or directory"
    assert waiting == 5000
    assert run(bench).counts.snoozed >= 20, "the next run takes them up"


def test_a_disk_that_can_only_be_read_is_all_that_is_needed(bench: Bench, tmp_path: Path, mounts: Mounts) -> None:
    disk, root = tmp_path / "disk", tmp_path / "archive"
    disk.mkdir()
    (disk / "letter.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("A letter that nobody can write over"))))
    before = prints(disk)
    mounts.read_only(disk, root)
    bench.tenant("acme")
    assert main.run(["--database", bench.url, "import", str(root), "--tenant", "acme"]) == 0
    assert run(bench).exit_code == 0
    assert prints(disk) == before


@pytest.mark.long
def test_files_that_changed_on_the_disk_they_were_on_are_told_one_by_one(
    bench: Bench, archive: Path, disk: Path
) -> None:
    for number in range(3):
        content = (disk / f"{number}.pdf").read_bytes()
        (disk / f"{number}.pdf").write_bytes(content.replace(b"mounted", b"MOUNTED"))

    report = run(bench)

    assert (report.exit_code, report.counts.codes) == (1, {"source_changed": 3})
    assert bench.rows("select status, failure_code, count(*) from batchproc.documents group by 1, 2 order by 1") == [
        ("completed", None, LETTERS - 3),
        ("failed", "source_changed", 3),
    ]
