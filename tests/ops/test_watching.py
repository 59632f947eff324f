"""Watching folders: a file is imported once it has come to rest, whatever happens to its storage or the database."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.errors import EnvironmentFault
from batchproc.database import connect
from batchproc.documents.file_stamp import FileStamp
from batchproc.documents.store import DocumentStore
from batchproc.ops import watching
from batchproc.ops.imported import Imported, ImportOptions, Rejected
from batchproc.ops.importing import Import
from batchproc.ops.open_writers import OpenWriters
from batchproc.ops.resting import Resting
from batchproc.ops.watching import Watch
from batchproc.queue.store import JobStore
from tests.handlers.running_job import Conn

STORE = DocumentStore("batchproc", tenant_id=None)
JOBS = JobStore("batchproc")


# -- when a file rests


def stamp(size: int = 5, changed: int = 1) -> FileStamp:
    return FileStamp(size, 1, changed)


class Looks:
    """Looks at one file at given times."""

    def __init__(self, settle: float = 10.0) -> None:
        self.resting = Resting(settle)

    def at(self, now: float, *files: tuple[bytes, FileStamp]) -> list[bytes]:
        self.resting.begin()
        found = [path for path, seen in files if self.resting.rests(path, seen, now)]
        self.resting.end()
        return found


def test_a_file_rests_when_it_was_as_it_is_for_so_long() -> None:
    looks = Looks()
    assert looks.at(100, (b"a", stamp())) == []
    assert looks.at(109.9, (b"a", stamp())) == []
    assert looks.at(110, (b"a", stamp()), (b"b", stamp())) == [b"a"]


def test_each_change_begins_the_wait_anew() -> None:
    looks = Looks()
    for now in range(0, 100, 9):
        assert looks.at(now, (b"a", stamp(changed=now))) == []
    assert looks.at(110, (b"a", stamp(changed=99))) == [b"a"]


def test_an_empty_file_waits_for_a_minute() -> None:
    looks = Looks()
    looks.at(0, (b"a", stamp(0)))
    assert looks.at(59, (b"a", stamp(0))) == []
    assert looks.at(60, (b"a", stamp(0))) == [b"a"]


def test_what_is_done_with_rests_again_only_as_another() -> None:
    looks = Looks()
    looks.at(0, (b"a", stamp()))
    looks.at(10, (b"a", stamp()))
    looks.resting.done(b"a", stamp())
    assert looks.at(1000, (b"a", stamp())) == []
    looks.at(1001, (b"a", stamp(changed=7)))
    assert looks.at(1011, (b"a", stamp(changed=7))) == [b"a"]


def test_a_look_that_is_broken_off_forgets_nothing() -> None:
    looks = Looks()
    looks.at(0, (b"a", stamp()), (b"b", stamp()))
    looks.resting.begin()
    assert looks.resting.rests(b"a", stamp(), 10)
    looks.resting.done(b"a", stamp())
    assert looks.at(11, (b"a", stamp()), (b"b", stamp())) == [b"b"]


@given(st.lists(st.sets(st.integers(0, 20)), max_size=10))
def test_no_more_is_remembered_than_the_last_look_saw(seen: list[set[int]]) -> None:
    looks = Looks()
    for now, files in enumerate(seen):
        looks.at(now, *((b"%d" % file, stamp()) for file in files))
        assert len(looks.resting) == len(files)


# -- who writes


def test_a_file_that_is_open_for_writing_is_known_by_any_name(tmp_path: Path) -> None:
    file, other = tmp_path / "scan.tif", tmp_path / "other"
    file.touch()
    other.hardlink_to(file)
    with file.open("rb"):
        assert not OpenWriters().have(other.stat())
    with file.open("ab"):
        assert OpenWriters().have(other.stat())
    assert not OpenWriters().have(other.stat())


def test_a_writer_in_another_process_counts(tmp_path: Path) -> None:
    file = tmp_path / "scan.tif"
    program = "import sys; f = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.read()"
    file.touch()
    command = [sys.executable, "-c", program, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        writer.stdout.readline()
        assert OpenWriters().have(file.stat())
        writer.stdin.close()
    assert not OpenWriters().have(file.stat())


# -- the watch


class Watched:
    """A watch whose pauses are the test's: each is an entry of ``steps``, and after the last it is stopped."""

    def __init__(self, url: str, connection: Conn, folder: Path, options: ImportOptions | None = None) -> None:
        self.url = url
        self.connection = connection
        self.folder = folder
        self.steps: list[Callable[[], object]] = []
        self.pauses: list[float] = []
        self.now = 0.0
        self.stopped = False
        self.watch = Watch(
            [bytes(folder)],
            lambda own: Import(own, STORE, JOBS, JOBS.tenant(own, "acme"), options),
            recursive=True,
            settle=10.0,
            outage_limit=60.0,
            wait=self._wait,
        )

    def _wait(self, seconds: float) -> bool:
        if seconds > 0:
            self.pauses.append(seconds)
            self.now += 10.0
            if self.steps:
                self.steps.pop(0)()
            else:
                self.stopped = True
        return self.stopped

    def outcomes(self, *steps: Callable[[], object]) -> list[tuple[str, str | None]]:
        """The names of what was imported, or rejected with a code, after these steps in the pauses between looks."""
        self.steps, self.stopped = list(steps), False
        return [
            (os.fsdecode(found.path.rpartition(b"/")[2]), found.failure_code)
            for found in self.watch.outcomes(lambda: connect(self.url))
        ]


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        JOBS.add_tenant(opened, "acme")
        yield opened


@pytest.fixture
def watched(database_url: str, connection: Conn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    folder = tmp_path / "incoming"
    folder.mkdir()
    made = Watched(database_url, connection, folder)
    monkeypatch.setattr(watching, "_now", lambda: made.now)
    return made


def nothing() -> None:
    """Passes the time of a pause."""


def test_files_are_imported_at_rest_each_once(watched: Watched) -> None:
    """One that grows is left until it does not."""
    first, late = watched.folder / "a.tif", watched.folder / "below" / "late.tif"
    late.parent.mkdir()
    first.write_bytes(b"a")

    def grow() -> None:
        with late.open("ab") as opened:
            opened.write(b"more")

    assert watched.outcomes(grow, grow, grow, nothing, nothing) == [("a.tif", None), ("late.tif", None)]
    row = watched.connection.execute("select bytes from batchproc.documents order by document_id").fetchall()
    assert row == [(1,), (12,)]
    assert watched.connection.execute("select count(*) from batchproc.processing_jobs").fetchone() == (2,)


@pytest.mark.parametrize("ending", [".part", ".PART", ".Partial", ".FilePart", ".TMP", ".crDownload"])
def test_a_name_of_a_program_that_still_writes_is_left_until_it_is_renamed(watched: Watched, ending: str) -> None:
    part = watched.folder / f"scan.pdf{ending}"
    part.write_bytes(b"a")
    steps = [nothing, nothing, lambda: part.rename(watched.folder / "scan.pdf"), nothing, nothing]
    assert watched.outcomes(*steps) == [("scan.pdf", None)]


def test_a_file_that_somebody_has_open_for_writing_is_left(watched: Watched) -> None:
    file = watched.folder / "scan.tif"
    opened = file.open("wb")
    opened.write(b"a")
    opened.flush()
    # The look at all processes serves for a second.
    watched.watch._writers = type("Now", (), {"have": staticmethod(lambda found: OpenWriters().have(found))})()
    imported = watched.connection.execute

    def none_yet() -> None:
        assert imported("select count(*) from batchproc.documents").fetchone() == (0,)

    assert watched.outcomes(nothing, nothing, none_yet, opened.close, nothing) == [("scan.tif", None)]


def test_what_was_imported_before_is_no_news(watched: Watched) -> None:
    (watched.folder / "a.tif").write_bytes(b"a")
    with connect(watched.url) as own:
        list(Import(own, STORE, JOBS, JOBS.tenant(own, "acme")).paths([bytes(watched.folder)]))
    # It had changed a moment before it was imported, so it is read once more, and then known.
    assert watched.outcomes(nothing, nothing) == [("a.tif", None)]
    assert watched.outcomes(nothing, nothing, nothing) == []


def test_what_cannot_be_imported_is_told_once(watched: Watched) -> None:
    os.mkfifo(watched.folder / "pipe")
    (watched.folder / "dangling").symlink_to("nowhere")
    found = watched.outcomes(*[nothing] * 8)  # the pipe, without content, waits for a minute
    assert found == [
        ("dangling", "source_missing"),
        ("pipe", "not_a_file"),
    ]


def test_a_link_leads_to_nothing_beside_the_watched_folder(watched: Watched, tmp_path: Path) -> None:
    """Although one root holds all tenants' folders."""
    (tmp_path / "beta").mkdir()
    (tmp_path / "beta" / "secret.pdf").write_bytes(b"secret")
    options = ImportOptions(roots=(bytes(tmp_path),))
    watched.watch._begin = lambda own: Import(own, STORE, JOBS, JOBS.tenant(own, "acme"), options)
    (watched.folder / "mine.pdf").symlink_to("../beta/secret.pdf")
    (watched.folder / "staying.pdf").symlink_to("plain.pdf")
    (watched.folder / "plain.pdf").write_bytes(b"plain")
    found = watched.outcomes(nothing, nothing)
    assert found[0] == ("mine.pdf", "outside_roots")
    assert {name for name, _ in found[1:]} == {"plain.pdf"}


def test_what_is_taken_away_before_it_is_imported_is_passed_over(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = watched.folder / "a.tif"
    file.write_bytes(b"a")
    rests = Watch._rests

    def and_goes(watch: Watch, path: bytes) -> FileStamp | None:
        found = rests(watch, path)
        if found is not None:
            file.unlink()
        return found

    monkeypatch.setattr(Watch, "_rests", and_goes)
    assert watched.outcomes(nothing, nothing, nothing) == []


def test_a_folder_that_is_gone_is_waited_for(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """As when it is unmounted, so that its mount point, or an empty folder, is what is left."""
    archive, away = watched.folder, watched.folder.with_name("away")
    (archive / "a.tif").write_bytes(b"a")

    def unmount() -> None:
        archive.rename(away)

    def leave_mount_point() -> None:
        archive.mkdir()

    def mount() -> None:
        archive.rmdir()
        away.rename(archive)
        (archive / "b.tif").write_bytes(b"b")

    steps = [nothing, unmount, nothing, leave_mount_point, nothing, mount, nothing, nothing]
    assert watched.outcomes(*steps) == [("a.tif", None), ("b.tif", None)]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN])
def test_a_storage_that_does_not_answer_is_asked_less_often(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.scandir
    (watched.folder / "a.tif").write_bytes(b"a")

    def scandir(path: Any) -> Any:
        raise OSError(number, os.strerror(number))

    def gone() -> None:
        monkeypatch.setattr(os, "scandir", scandir)

    def back() -> None:
        monkeypatch.setattr(os, "scandir", real)

    found = watched.outcomes(gone, nothing, nothing, nothing, back, nothing)
    assert found == [("a.tif", None)]
    assert watched.pauses[1:5] == [10.0, 20.0, 40.0, 60.0]
    assert watched.pauses[-1] == 5.0


def test_a_database_that_is_gone_is_waited_for(watched: Watched) -> None:
    (watched.folder / "a.tif").write_bytes(b"a")

    def end_everybody() -> None:
        watched.connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    assert watched.outcomes(end_everybody, end_everybody, nothing, nothing) == [("a.tif", None)]
    assert watched.connection.execute("select count(*) from batchproc.documents").fetchone() == (1,)


def test_a_database_that_stays_away_ends_it(watched: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr("batchproc.engine.outage.time.monotonic", lambda: next(clock))
    watched.url = f"postgresql:///none?host={tmp_path}"
    with pytest.raises(EnvironmentFault, match=r"the database failed for 60 s .*when the database is mended"):
        watched.outcomes(*[nothing] * 50)


def test_an_error_that_is_no_outage_is_told(watched: Watched, connection: Conn) -> None:
    connection.execute("alter table batchproc.documents rename to papers")
    (watched.folder / "a.tif").write_bytes(b"a")
    with pytest.raises(psycopg.errors.UndefinedTable):
        watched.outcomes(nothing, nothing)


def test_a_stop_while_a_large_file_is_read_ends_it_there(watched: Watched) -> None:
    (watched.folder / "1.tif").write_bytes(b"1")
    with (watched.folder / "2.tif").open("wb") as large:
        large.truncate(1 << 40)  # it would be read for an hour
    watched.steps = [nothing, nothing]
    real, looks = watched._wait, 0

    def stopped_while_it_is_read(seconds: float) -> bool:
        nonlocal looks
        looks += seconds == 0
        return real(seconds) or looks > 10

    watched.watch._wait = stopped_while_it_is_read
    told = list(watched.watch.outcomes(lambda: connect(watched.url)))
    assert [found.path.rpartition(b"/")[2] for found in told] == [b"1.tif"], "what was read before"


def test_a_hole_that_no_scan_can_be_is_rejected_unread(
    database_url: str, connection: Conn, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (watched.folder / "hole.tif").open("wb") as hole:
        hole.truncate(1 << 43)
    (watched.folder / "scan.tif").write_bytes(b"a scan")
    limited = Watched(database_url, connection, watched.folder, ImportOptions(recursive=True, max_bytes=1 << 30))
    monkeypatch.setattr(watching, "_now", lambda: limited.now)
    assert sorted(limited.outcomes(nothing, nothing)) == [("hole.tif", "too_large"), ("scan.tif", None)]


def test_a_stop_during_a_look_keeps_what_was_imported(watched: Watched) -> None:
    for number in range(3):
        (watched.folder / f"{number}.tif").write_bytes(b"%d" % number)
    watched.steps = [nothing, nothing]
    real = watched._wait
    told: list[Imported | Rejected] = []
    watched.watch._wait = lambda seconds: real(seconds) or bool(told)
    for outcome in watched.watch.outcomes(lambda: connect(watched.url)):
        told.append(outcome)
    assert len(told) == 1
    assert watched.connection.execute("select count(*) from batchproc.documents").fetchone() == (3,), "a batch"
