"""Large imports and ``import --watch`` on the real command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli.main import run
from batchproc.database import connect
from batchproc.ops import import_batches
from tests.engine.test_sd_notify import Manager
from tests.handlers.running_job import Conn, add_tenant
from tests.waiting import wait_until

_PEAK = """
import resource, sys
from batchproc.cli.main import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        add_tenant(opened, "acme")
        yield opened


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    return folder


def write(folder: Path, numbers: range) -> None:
    for number in numbers:
        (folder / f"{number:05}.tif").write_bytes(b"%d" % number)


def documents(connection: Conn) -> int:
    row = connection.execute("select count(*) from batchproc.documents").fetchone()
    return int(row[0]) if row else 0


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "batchproc", "--database", url, "import", *arguments, "--tenant", "acme"]


@contextmanager
def started(words: list[str], home: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "BATCHPROC_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=home
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_of_more_than_a_hundred_the_sum_is_told(
    database_url: str, connection: Conn, scans: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(scans, range(150))
    (scans / "again.tif").write_bytes(b"7")
    os.mkfifo(scans / "pipe")
    assert run(["--database", database_url, "import", str(scans), "--tenant", "acme"]) == 1
    out, err = capfd.readouterr()
    first, *others = out.splitlines()
    assert re.fullmatch(r"152 files in [\d.]+ m?s, .* read", first)
    assert " a second" not in first, "so few seconds say nothing of how fast it would go on"
    assert others == ["150 imported, 1 known already", "1 rejected: not_a_file 1", "150 jobs enqueued in campaign 1"]
    assert err == f"rejected {scans}/pipe: not_a_file: pipe is no regular file\n"
    [campaign] = connection.execute("select command, documents, filled_at is not null from batchproc.campaigns")
    assert campaign == (f"import {scans} --tenant acme", 150, True)


def test_json_is_one_whole_object_also_when_the_storage_goes(
    database_url: str,
    connection: Conn,
    scans: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(scans, range(3))
    (scans / "below").mkdir()
    real = os.scandir

    def scandir(path: Any) -> Any:
        if path == bytes(scans / "below"):
            raise OSError(5, os.strerror(5))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert run(["--database", database_url, "import", "-r", str(scans), "--tenant", "acme", "--json"]) == 3
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert list(found) == ["documents", "rejected", "campaign_id"]
    assert (len(found["documents"]), found["rejected"], found["campaign_id"]) == (3, [], 1)
    assert "the storage does not answer" in err
    assert documents(connection) == 3


def test_an_import_that_is_killed_goes_on_where_it_was(
    database_url: str, connection: Conn, scans: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(scans, range(1500))
    with started(command(database_url, str(scans)), tmp_path) as process:
        wait_until(lambda: documents(connection) > 0, 30, "the first batch")
        process.kill()
        process.wait()
    before = documents(connection)
    assert 0 < before < 1500
    assert before % import_batches.FILES == 0, "whole batches"
    assert run(["--database", database_url, "import", str(scans), "--tenant", "acme", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)["documents"]
    assert [document["duplicate"] for document in told] == [True] * before + [False] * (1500 - before)
    rows = connection.execute(
        "select count(*), count(distinct document_id) from batchproc.processing_jobs where state = 'available'"
    )
    assert (documents(connection), rows.fetchone()) == (1500, (1500, 1500))


@pytest.mark.long
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_memory_stays_the_same_however_many_files_there_are(
    database_url: str, connection: Conn, scans: Path, tmp_path: Path, flags: list[str]
) -> None:
    """Six times as many cost no more than 3 MB; what is told of one alone would be 1 kB, so 10 MB."""

    def peak(*numbers: range) -> float:
        """MB, as the kernel counts them."""
        for one in numbers:
            write(scans, one)
        words = ["--database", database_url, "import", str(scans), "--tenant", "acme", *flags]
        with started([sys.executable, "-P", "-c", _PEAK, *words], tmp_path) as process:
            _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        return int(err.split()[-1]) / 1024

    few = peak(range(2000))
    many = peak(range(2000, 12_000))
    assert documents(connection) == 12_000
    assert many - few < 3


def test_a_watched_folder_is_imported_until_the_service_is_stopped(
    database_url: str, connection: Conn, scans: Path, tmp_path: Path
) -> None:
    words = command(database_url, str(scans), "--watch", "--settle", "200ms", "--json")
    with started(words, tmp_path) as process:
        assert process.stdout is not None
        write(scans, range(2))
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        with (scans / "growing.tif").open("wb") as growing:
            growing.write(b"half")
            growing.flush()
            write(scans, range(2, 3))
            third = json.loads(process.stdout.readline())
            growing.write(b"whole")
        fourth = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, ""), err
    names = [Path(one["path"]).name for one in [*first, third, fourth]]
    assert names == ["00000.tif", "00001.tif", "00002.tif", "growing.tif"]
    assert "stopped: 4 imported, 0 rejected" in err
    sizes = connection.execute("select bytes from batchproc.documents order by document_id").fetchall()
    assert sizes == [(1,), (1,), (1,), (9,)]
    assert connection.execute("select count(*) from batchproc.campaigns").fetchone() == (0,)


def test_the_watchdog_hears_of_it_while_it_waits_for_files(
    database_url: str, connection: Conn, scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Manager(str(tmp_path / "notify")) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
        monkeypatch.setenv("WATCHDOG_USEC", "1500000")
        with started(command(database_url, str(scans), "--watch", "--settle", "1h"), tmp_path) as process:
            wait_until(lambda: "READY" in manager.states(), 30, "it watches")
            before = time.monotonic()
            seen = len(manager.told)
            wait_until(lambda: len(manager.hear()) >= seen + 2, 30, "it gives signs of life in a wait of half an hour")
            assert all("WATCHDOG" in message for message in manager.told[seen:])
            assert time.monotonic() - before < 30
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        assert manager.states()[-1] == "STOPPING"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--watch", "--manifest", "x", "."], "--watch goes neither with --manifest nor with --reread"),
        (["--watch", "none"], "is no folder"),
        (["--settle", "5s", "."], "--settle says how long --watch waits"),
    ],
)
def test_wrong_usage_of_watch_is_told(
    database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["--database", database_url, "import", *arguments, "--tenant", "acme"]) == 2
    assert message in capfd.readouterr().err
