"""The benches: that they measure what they say, and leave nothing behind. How fast it is, is not asserted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from psycopg import sql

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.core.job import NewJob
from batchproc.core.ranges import balanced
from batchproc.database import connect
from batchproc.ops.bench.ocr import OcrBench, OcrRun, _line, bench_ocr
from batchproc.ops.bench.ocr_pages import Side
from batchproc.ops.bench.ocr_peers import Ocrmypdf, OcrmypdfFiles, TesseractCommand, installed_peers, run
from batchproc.ops.bench.queue import KIND, Durability, QueueBench, QueueRun, _enqueue, bench_queue
from batchproc.ops.bench.ranges import RangesBench, RangesRun, bench_ranges, pages_of_a_range
from batchproc.ops.bench.schema import Urls, bench_schema
from batchproc.ops.stopped import Stopped
from batchproc.queue.inspection import Inspection
from batchproc.queue.store import JobStore
from batchproc.settings import Database, Ocr, Settings
from tests.ops.bench_command import by_command
from tests.waiting import wait_until

JOBS = JobStore("batchproc")


def schemas(database_url: str) -> set[str]:
    with connect(database_url) as connection:
        rows = connection.execute("select nspname from pg_namespace where nspname like 'batchproc%'")
        return {row[0] for row in rows.fetchall()}


def test_the_schema_of_a_bench_is_removed_whatever_ends_it(database_url: str) -> None:
    class Surprise(Exception):
        pass

    settings = Settings(database=Database(outage_limit=7), handlers=("not.for.benches",))

    def use() -> None:
        with bench_schema(settings, Urls(database_url, database_url)) as schema:
            assert schemas(database_url) == {"batchproc", schema.name}
            assert schema.name.startswith("batchproc_bench_")
            assert schema.settings.handlers == ()
            assert schema.settings.database.outage_limit == 7
            raise Surprise

    with pytest.raises(Surprise):
        use()
    assert schemas(database_url) == {"batchproc"}


def test_a_run_that_is_not_complete_gives_no_figure(database_url: str) -> None:
    with bench_schema(Settings(), Urls(database_url, database_url)) as schema, pytest.raises(Stopped):
        schema.seconds(KIND, 1)


def test_the_queue_bench_runs_all_jobs_and_touches_nothing(database_url: str) -> None:
    with connect(database_url) as connection:
        tenant = JOBS.add_tenant(connection, "mine")
        waiting = JOBS.enqueue(connection, NewJob(tenant.tenant_id, "classify"))
    told: list[str] = []
    options = ("--jobs", "30", "--workers", "2,1", "--runs", "1", "--bundle", "4", "--campaign")
    plain = by_command(bench_queue, database_url, "queue", *options, tell=told.append).plain()
    assert (plain["jobs"], plain["workers"], plain["bundle"], len(plain["runs"])) == (30, 2, 4, 2)
    assert plain["jobs_per_second"] == plain["runs"][0]["jobs_per_second"] > 0
    assert [row["workers"] for row in plain["by_workers"]] == [2, 1]
    for limit in ("commits_per_second", "commits_at_once_per_second", "bare_claims_per_second"):
        assert all(run[limit] > 0 for run in plain["runs"])
    assert plain["synchronous_commit"] == "on"
    assert plain["durable"] == (plain["fsync"] == "on")
    assert [line.rsplit(":", 1)[0] for line in told] == ["run 1 of 1"] * 4
    assert schemas(database_url) == {"batchproc"}
    with connect(database_url) as connection:
        assert Inspection("batchproc").job(connection, waiting.job_id)["state"] == "available"
        assert [found.slug for found in JOBS.tenants(connection)] == ["mine"]


@pytest.mark.parametrize("campaign", [False, True])
def test_the_jobs_of_the_queue_bench_are_of_a_campaign_where_it_is_asked_for(database_url: str, campaign: bool) -> None:
    with bench_schema(Settings(), Urls(database_url, database_url)) as schema, schema.connect() as connection:
        _enqueue(schema, 3, campaign=campaign)
        rows = connection.execute(
            sql.SQL("select campaign_id is not null from {}").format(sql.Identifier(schema.name, "processing_jobs"))
        )
        assert rows.fetchall() == [(campaign,)] * 3


def test_the_figures_of_the_queue_bench_are_medians() -> None:
    figures = ((400.0, 2000.0, 800.0), (500.0, 9.0, 10.0), (100.0, 1000.0, 500.0))
    runs = [QueueRun(2, rate, 10 / rate, commits, 3 * commits, claims) for rate, commits, claims in figures]
    runs.insert(1, QueueRun(8, 900.0, 1.0, 1000.0, 5000.0, 600.0))
    plain = QueueBench(10, 1, Durability("18.1", "on", "on"), tuple(runs)).plain()
    assert (plain["workers"], plain["jobs_per_second"], plain["least"], plain["most"]) == (2, 400, 100, 500)
    assert (plain["commits_per_second"], plain["ratio_to_commits"]) == (1000, 0.4)
    assert (plain["bare_claims_per_second"], plain["ratio_to_bare_claims"]) == (500, 0.8)
    assert [row["jobs_per_second"] for row in plain["by_workers"]] == [400, 900]


def test_a_queue_is_compared_with_its_peers_run_by_run() -> None:
    runs = tuple(
        QueueRun(2, ours, 1.0, 1.0, 1.0, 1.0, {"celery": theirs})
        for ours, theirs in ((600.0, 300.0), (500.0, 500.0), (900.0, 600.0))
    )
    versions = {"celery": "5.7.0", "celery_late": None}
    plain = QueueBench(10, 1, Durability("18.1", "on", "on"), runs, versions).plain()
    assert (plain["ratio_to_celery"], plain["ratio_to_celery_late"]) == (1.5, None)
    assert plain["peers"] == versions
    assert plain["runs"][0]["celery_per_second"] == 300


@pytest.mark.parametrize(
    ("fsync", "synchronous_commit", "durable"),
    [("on", "on", True), ("on", "local", True), ("on", "off", False), ("off", "on", False)],
)
def test_what_counts_as_durable(fsync: str, synchronous_commit: str, durable: bool) -> None:
    assert Durability("18.1", fsync, synchronous_commit).durable is durable


def test_the_ocr_bench_reads_the_same_pages_on_both_sides(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setenv("BATCHPROC_OCR__LANGUAGES", "[eng]")
    bench = by_command(
        bench_ocr,
        database_url,
        *("ocr", "--pages", "2", "--workers", "2", "--runs", "1"),
        observe=lambda claim, _outcome, _seconds: seen.append(claim.priority),
    )
    (run,) = bench.runs
    # German letters read as English, so not all words; but the very same ones.
    assert run.batchproc.word_recall == pytest.approx(run.bare_loop.word_recall, abs=0.01)
    assert run.batchproc.word_recall > 0.85
    assert (run.batchproc.preloaded, run.bare_loop.preloaded) == (2, 2)
    assert seen == [1, 1, 5, 5]
    assert schemas(database_url) == {"batchproc"}


def test_the_ranges_bench_reads_one_document_on_one_worker_and_on_several(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    read: list[int] = []
    monkeypatch.setenv("BATCHPROC_OCR__LANGUAGES", "[eng]")
    plain = by_command(
        bench_ranges,
        database_url,
        *("ranges", "--pages", "2", "--workers", "2", "--runs", "1"),
        tell=told.append,
        observe=lambda claim, _outcome, _seconds: read.append(claim.priority),
    ).plain()
    assert (plain["pages"], plain["split_pages"], plain["workers"], len(plain["runs"])) == (2, 1, 2, 1)
    assert plain["ranges"] == 2
    assert min(plain["ratio"], plain["loops_ratio"], plain["one_worker_seconds"]) > 0
    # Of either side a page to warm up each worker, the split, two ranges and the join.
    assert sorted(read) == [1, 1, 1, *[1] * 2, *[5] * 6]
    assert told[1:5] == [f"run 1 of 1: {side}" for side in ("one worker", "workers", "one loop", "loops")]
    assert schemas(database_url) == {"batchproc"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_200_pages_alone_on_two_workers_take_at_most_six_tenths_of_the_time_on_one(database_url: str) -> None:
    """Or as much as two bare loops take of the time of one, where the machine is busy with other things."""
    plain = bench_ranges(
        Settings(ocr=Ocr(languages=("eng",))),
        Urls(database_url, database_url),
        pages=200,
        workers=2,
        runs=1,
        tell=lambda _: None,
        observe=lambda *_: None,
    ).plain()
    assert plain["ratio"] <= max(0.6, 1.1 * plain["loops_ratio"]), plain


@given(st.integers(1, 100), st.integers(2, 10_000), st.integers(2, 64))
def test_there_is_a_range_for_each_worker(most: int, pages: int, workers: int) -> None:
    assume(pages >= workers)
    split_pages = pages_of_a_range(most, pages, workers)
    assert 1 <= split_pages <= most
    assert workers <= len(balanced(range(pages), split_pages)) == -(-pages // split_pages)


def test_the_ranges_bench_refuses_a_document_that_not_all_workers_can_share() -> None:
    nowhere = Urls("", "")
    with pytest.raises(UsageError, match="give --pages 4"):
        bench_ranges(Settings(), nowhere, pages=3, workers=4, runs=1, tell=lambda _: None, observe=lambda *_: None)


def test_the_ratio_of_the_ranges_bench_is_the_median_of_the_runs_ratios() -> None:
    runs = (RangesRun(10, 6, 8, 4), RangesRun(10, 5, 8, 4), RangesRun(10, 9, 8, 6))
    plain = RangesBench(200, 25, 2, runs).plain()
    assert (plain["ratio"], plain["least"], plain["most"], plain["loops_ratio"]) == (0.6, 0.5, 0.9, 0.5)
    assert plain["workers_seconds"] == 6


def test_the_ratio_of_the_ocr_bench_is_the_median_of_the_runs_ratios() -> None:
    runs = tuple(OcrRun(Side(ours, 1.0, 2), Side(bare, 1.0, 2)) for ours, bare in ((1.0, 2.0), (3.0, 4.0), (9.0, 10.0)))
    plain = OcrBench(40, 2, ("eng",), runs).plain()
    assert (plain["ratio_to_bare_loop"], plain["least"], plain["most"]) == (0.75, 0.5, 0.9)
    assert (plain["pages_per_second"], plain["bare_loop_pages_per_second"]) == (3, 4)


def test_the_ratios_to_peers_are_medians_and_null_for_what_is_not_installed() -> None:
    runs = tuple(
        OcrRun(Side(ours, 1.0, 2), Side(1.0, 1.0, 2), {"tesseract": Side(theirs, recall, 0)})
        for ours, theirs, recall in ((3.0, 2.0, 0.9), (2.0, 2.0, 0.8), (4.0, 2.0, 1.0))
    )
    versions = {"tesseract": "5.3.0", "ocrmypdf": None}
    plain = OcrBench(40, 2, ("eng",), runs, versions).plain()
    assert (plain["ratio_to_tesseract"], plain["ratio_to_ocrmypdf"]) == (1.5, None)
    assert plain["peers"] == {
        "tesseract": {"version": "5.3.0", "pages_per_second": 2.0, "word_recall": 0.8},
        "ocrmypdf": None,
    }
    assert "peers" not in OcrBench(40, 2, ("eng",), runs).plain()


# The commands themselves need not be installed: these read pages with the same engine, and take the same arguments.
_COMMAND = """#!{python}
import sys
from pathlib import Path
import tesserocr
from PIL import Image
import pypdfium2
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("{name} 5.9.9")
    sys.exit()
def option(name):
    return arguments[arguments.index(name) + 1]
with tesserocr.PyTessBaseAPI(path=sys.prefix + "/share/tessdata", lang=option("-l")) as api:
    def text(image):
        api.SetImage(image)
        return api.GetUTF8Text()
    if "--sidecar" in arguments:
        pages = pypdfium2.PdfDocument(arguments[-2])
        texts = [text(page.render(scale=300 / 72).to_pil()) for page in pages]
        Path(option("--sidecar")).write_text(chr(12).join(texts))
    else:
        Path(arguments[1] + ".txt").write_text(text(Image.open(arguments[0])))
"""


def install(folder: Path, name: str) -> None:
    program = folder / name
    program.write_text(_COMMAND.format(python=sys.executable, name=name))
    program.chmod(0o755)


@pytest.mark.long
def test_peers_read_the_same_pages(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_peers() == {"tesseract": None, "ocrmypdf": None, "ocrmypdf-files": None}
    install(tmp_path, "ocrmypdf")
    assert installed_peers()["ocrmypdf"] is None, "it is of no use without tesseract"
    install(tmp_path, "tesseract")
    peers = installed_peers()
    assert [type(peer) for peer in peers.values()] == [TesseractCommand, Ocrmypdf, OcrmypdfFiles]
    told: list[str] = []
    bench = bench_ocr(
        Settings(ocr=Ocr(languages=("eng",))),
        Urls(database_url, database_url),
        pages=2,
        workers=2,
        runs=1,
        tell=told.append,
        observe=lambda *_: None,
        peers=peers,
    )
    plain = bench.plain()
    assert plain["ratio_to_tesseract"] > 0
    assert plain["ratio_to_ocrmypdf"] > 0
    assert plain["ratio_to_ocrmypdf-files"] > 0
    for peer in plain["peers"].values():
        assert peer["version"] == "5.9.9"
        assert peer["word_recall"] == pytest.approx(plain["word_recall"], abs=0.02)
    sides = ("batchproc", "bare loop", "tesseract", "ocrmypdf", "ocrmypdf-files")
    assert told[1:6] == [f"run 1 of 1: {side}" for side in sides]


def test_a_peer_that_fails_or_hangs_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"sh ended with 3: no such language"):
        run(("/bin/sh", "-c", "echo no such language; exit 3"), 60, {})
    alive = tmp_path / "pid"
    with pytest.raises(EnvironmentFault, match=r"sh did not end within 1 seconds"):
        run(("/bin/sh", "-c", f"sleep 600 & echo $! > {alive}; wait"), 1, {})
    _wait_for_the_end_of(alive)


def test_what_a_peer_leaves_behind_when_it_ends_is_ended(tmp_path: Path) -> None:
    alive = tmp_path / "pid"
    assert run(("/bin/sh", "-c", f"sleep 47 >/dev/null 2>&1 & echo $! > {alive}"), 60, {}) == ""
    _wait_for_the_end_of(alive)
    with pytest.raises(EnvironmentFault, match="did not end"):  # it still holds the pipe
        run(("/bin/sh", "-c", f"sleep 47 & echo $! > {alive}; exit 0"), 1, {})
    _wait_for_the_end_of(alive)


def _wait_for_the_end_of(written: Path) -> None:
    pid = int(written.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), 30, "the end of what it started")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_bare_loop_that_says_nothing_is_given_up() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loop:
        with pytest.raises(EnvironmentFault, match="silent for 0 seconds"):
            _line(loop, 0.2)
        assert loop.wait(timeout=30) == -signal.SIGKILL


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that leaves room for a socket's path in it."""
    with tempfile.TemporaryDirectory(prefix="bp-", dir="/tmp") as folder:
        yield Path(folder)


def test_a_bench_that_is_stopped_leaves_nothing_behind(database_url: str, short_folder: Path) -> None:
    command = [sys.executable, "-m", "batchproc", "--database", database_url, "bench", "queue", "--jobs", "50000"]
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as bench:
        try:
            wait_until(lambda: _is_running(database_url), 60, "a worker at work")
            bench.send_signal(signal.SIGTERM)
            _, said = bench.communicate(timeout=60)
        finally:
            bench.kill()
    assert bench.returncode == 130, said
    assert said.startswith("batchproc: the bench was stopped")
    assert said.count("\n") == 1
    assert schemas(database_url) == {"batchproc"}
    assert list(short_folder.iterdir()) == []


def _is_running(database_url: str) -> bool:
    """Whether a worker is connected."""
    with connect(database_url) as connection:
        rows = connection.execute("select application_name from pg_stat_activity where datname = current_database()")
        return ("batchproc worker",) in rows.fetchall()


def test_the_command_prints_one_line_of_json(database_url: str) -> None:
    command = [sys.executable, "-m", "batchproc", "--database", database_url, "bench", "--json", "queue"]
    done = subprocess.run([*command, "--jobs", "5", "--runs", "1"], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout)["jobs"] == 5
    durable = json.loads(done.stdout)["durable"]
    assert ("not durable" in done.stderr) is not durable
