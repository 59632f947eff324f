"""The figures for Prometheus agree with the tables, add up over runs, and reach whoever asks for them."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from batchproc.cli.main import run
from batchproc.core.errors import EnvironmentFault
from batchproc.core.job import Lane
from batchproc.database import connect
from batchproc.engine.node import Node, RunOptions
from batchproc.engine.ready import Scope
from batchproc.engine.window import Window
from batchproc.ops.metrics import textfile
from batchproc.ops.metrics.exporting import connector, exported
from batchproc.ops.metrics.node_metrics import NodeMetrics
from batchproc.ops.metrics.queue_metrics import QueueMetrics
from batchproc.ops.metrics.textfile import Textfile
from tests.engine.running import Bench, bench_on, settings
from tests.faults.command import started_run
from tests.faults.meanwhile import meanwhile
from tests.waiting import wait_until

HANDLERS = ["tests.engine.job_handlers", "tests.faults.budget_handlers"]
Figures = dict[tuple[str, ...], float]
EVERYTHING = Scope()
COMPLETED = 1_000_000.0
"""When the node that is asked last completed a job."""


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


def counted(bench: Bench, options: RunOptions | None = None, **sections: Any) -> NodeMetrics:
    """What a run has counted."""
    meters = NodeMetrics()
    node = Node(settings(handlers=HANDLERS, **sections), bench.url, bench.url, lambda *_: None, meters=meters)
    node.run(options or RunOptions(workers=2))
    return meters


def figures(text: str) -> Figures:
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of_node(meters: NodeMetrics) -> Figures:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in meters.registry.collect()
        for sample in family.samples
    }


def named(found: Figures, name: str) -> Figures:
    return {key[1:]: value for key, value in found.items() if key[0] == name}


def queue_of(bench: Bench, *, for_ever: bool = False, scope: Scope = EVERYTHING) -> Figures:
    metrics = QueueMetrics(
        "batchproc", connector(bench.url), for_ever=for_ever, scope=scope, last_completed=lambda: COMPLETED
    )
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


def test_what_a_node_counts_is_what_the_tables_hold(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    for kind in ("t_quick", "t_quick", "t_fail_once", "t_fail", "t_declared", "b_crashes", "b_slow"):
        bench.enqueue(tenant, kind)
    bench.enqueue(tenant, "t_echo", {"word": "x"})

    found = of_node(counted(bench))

    attempts = bench.rows(
        "select j.kind, a.outcome, count(*) from batchproc.job_attempts a join batchproc.processing_jobs j"
        " using (job_id) group by 1, 2"
    )
    assert named(found, "batchproc_attempts_total") == {(kind, outcome): n for kind, outcome, n in attempts}
    failures = bench.rows(
        "select a.failure_code, j.kind, count(*) from batchproc.job_attempts a join batchproc.processing_jobs j"
        " using (job_id) where a.outcome = 'failed' group by 1, 2"
    )
    assert named(found, "batchproc_attempt_failures_total") == {(code, kind): n for code, kind, n in failures}
    jobs = bench.rows("select kind, state, count(*) from batchproc.processing_jobs group by 1, 2")
    assert named(found, "batchproc_jobs_total") == {(kind, state): n for kind, state, n in jobs}
    discarded = bench.rows(
        "select failure_code, kind, count(*) from batchproc.processing_jobs where state = 'discarded' group by 1, 2"
    )
    assert named(found, "batchproc_jobs_discarded_total") == {(code, kind): n for code, kind, n in discarded}
    assert len(discarded) == 4
    usage: dict[str, float] = dict(bench.rows("select kind, worker_seconds from batchproc.usage_daily"))
    seconds = named(found, "batchproc_attempt_duration_seconds_sum")
    assert {kind: value for (kind,), value in seconds.items()} == pytest.approx(usage, abs=1e-3)
    assert named(found, "batchproc_worker_deaths_total") == {("crashed",): 3, ("timeout",): 2}
    assert found["batchproc_slots",] == 2
    assert 0 < found["batchproc_slot_seconds_total",] < 240
    assert sum(seconds.values()) < found["batchproc_slot_seconds_total",]


@pytest.mark.long
def test_jobs_of_a_dead_node_are_counted_as_rescued(bench: Bench, tmp_path: Path) -> None:
    bench.enqueue(bench.tenant("acme"), "b_tree", {"file": str(tmp_path / "pids")})
    with started_run(bench, "--workers", "1", handlers=HANDLERS, dispatch={"lease": 1.0}) as killed:
        wait_until((tmp_path / "pids").exists, 60)
        killed.kill_node()
        killed.wait()
    assert bench.jobs.cancel(bench.connection, [1]) == [(1, "requested")]

    found = of_node(counted(bench, dispatch={"lease": 1.0}))

    assert found["batchproc_jobs_rescued_total",] == 1
    assert named(found, "batchproc_jobs_total") == {("b_tree", "cancelled"): 1}
    assert named(found, "batchproc_attempts_total") == {("b_tree", "failed"): 1}


@pytest.mark.long
def test_an_outage_is_counted_once_with_its_length(bench: Bench, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = bench.enqueue(bench.tenant("acme"), "b_waits", {"file": str(gate)})

    def cut() -> None:
        wait_until(lambda: bench.job(job)["state"] == "running", 60)
        with connect(bench.url) as other:
            other.execute(
                b"select pg_terminate_backend(pid) from pg_stat_activity"
                b" where datname = current_database() and application_name = 'batchproc node'"
            )
            nodes = b"select count(*) from pg_stat_activity where application_name = 'batchproc node'"
            wait_until(lambda: other.execute(nodes).fetchall()[0][0] >= 3, 30, "it is connected again")
        gate.touch()

    with meanwhile(cut):
        found = of_node(counted(bench))

    assert found["batchproc_database_outages_total",] == 1
    assert 0 < found["batchproc_database_outage_seconds_total",] < 60


def test_the_queue_is_told_by_lane_and_a_pause_ages_nobody(bench: Bench) -> None:
    acme, paused = bench.tenant("acme"), bench.tenant("paused")
    for _ in range(3):
        bench.enqueue(acme, "t_quick")
    bench.enqueue(paused, "t_quick")
    bench.connection.execute(b"update batchproc.tenants set paused = true where slug = 'paused'")
    bench.connection.execute(
        b"update batchproc.processing_jobs set lane = 0, run_at = run_at - interval '5 minutes' where job_id = 1"
    )
    bench.connection.execute(
        b"update batchproc.processing_jobs set run_at = run_at - interval '1 day' where job_id = 4"
    )
    bench.connection.execute(b"update batchproc.processing_jobs set state = 'held' where job_id = 3")
    bench.connection.execute(
        b"insert into batchproc.kinds (kind, paused, paused_code) values ('t_fail', true, 'internal_error')"
    )

    found = queue_of(bench)

    waiting = {key: value for key, value in named(found, "batchproc_queue_jobs").items() if value}
    assert waiting == {("interactive", "available"): 1, ("bulk", "available"): 2, ("bulk", "held"): 1}
    assert found["batchproc_queue_oldest_age_seconds", "interactive"] == pytest.approx(300, abs=60)
    assert found["batchproc_queue_oldest_age_seconds", "bulk"] < 60
    assert named(found, "batchproc_kind_paused") == {("internal_error", "t_fail"): 1}
    assert found["batchproc_database_up",] == 1


@pytest.mark.parametrize(
    "limit",
    [
        "update batchproc.tenants set max_running = 0",
        "insert into batchproc.kinds (kind, max_running) values ('t_quick', 0)",
        "insert into batchproc.kinds (kind, declared_limit) values ('t_quick', 0)",
    ],
)
def test_what_a_limit_of_0_keeps_back_ages_nobody_and_is_no_work(bench: Bench, limit: str) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    bench.connection.execute("update batchproc.processing_jobs set lane = 0, run_at = run_at - interval '1 day'")
    oldest, success = "batchproc_queue_oldest_age_seconds", "batchproc_last_success_timestamp_seconds"
    waits = queue_of(bench, for_ever=True)
    assert (waits[oldest, "interactive"] > 86_000, waits[success, "all"]) == (True, COMPLETED)
    bench.connection.execute(limit.encode())
    kept = queue_of(bench, for_ever=True)
    assert kept[oldest, "interactive"] == 0
    assert kept[success, "all"] == pytest.approx(time.time(), abs=60)


def test_pages_are_those_of_all_days(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    bench.connection.execute(
        b"insert into batchproc.usage_daily (tenant_id, day, kind, pages_ocr, pages_failed)"
        b" select %s, (clock_timestamp() at time zone 'UTC')::date - days, 'ocr', 10, 1"
        b" from generate_series(0, 5) as days",
        [tenant],
    )
    metrics = QueueMetrics("batchproc", connector(bench.url))
    for ocr in (60, 63):
        found = {
            tuple(sample.labels.values()): sample.value
            for family in metrics.collect()
            for sample in family.samples
            if sample.name == "batchproc_pages_total"
        }
        assert found == {("text",): 0, ("ocr",): ocr, ("blank",): 0, ("failed",): 6}
        bench.connection.execute(
            b"update batchproc.usage_daily set pages_ocr = pages_ocr + 3"
            b" where day = (clock_timestamp() at time zone 'UTC')::date"
        )


def test_a_success_is_a_run_that_did_its_work_and_not_somebodys_look_at_one_job(bench: Bench) -> None:
    ended = (
        b"insert into batchproc.runs (node_id, scope, finished_at, exit_code) values (gen_random_uuid(), %s, %s, %s)"
    )
    whole: dict[str, Any] = {"tenant_ids": [], "kinds": [], "lanes": []}
    for scope, hour, code in (
        (whole, 1, 0),
        (whole, 2, 1),
        (whole, 3, 3),
        (whole | {"single": True}, 4, 0),
        (whole | {"in_process": True}, 6, 0),
        (whole | {"lanes": [1], "pilot": True}, 7, 0),
        (whole | {"lanes": [0]}, 5, 0),
    ):
        bench.connection.execute(ended, [json.dumps(scope), f"2026-11-30T0{hour}:00:00Z", code])
    found = queue_of(bench)
    midnight = datetime(2026, 11, 30, tzinfo=UTC).timestamp()
    assert named(found, "batchproc_last_success_timestamp_seconds") == {
        ("all",): midnight + 2 * 3600,
        ("part",): midnight + 5 * 3600,
    }
    assert named(found, "batchproc_last_run_timestamp_seconds")[("all",)] == midnight + 3 * 3600
    assert named(found, "batchproc_last_run_exit_code") == {("all",): 3, ("part",): 0}


def test_a_node_that_runs_for_ever_succeeds_while_nothing_is_due(bench: Bench) -> None:
    now = time.time()
    assert queue_of(bench, for_ever=True)["batchproc_last_success_timestamp_seconds", "all"] == pytest.approx(
        now, abs=60
    )
    bench.enqueue(bench.tenant("acme"), "t_quick")
    assert named(queue_of(bench, for_ever=True), "batchproc_last_success_timestamp_seconds") == {("all",): COMPLETED}


@pytest.mark.parametrize("part", ["tenant_ids", "kinds", "lanes"])
def test_a_service_for_a_part_says_nothing_of_the_nights_for_all(bench: Bench, part: str) -> None:
    acme, beta = bench.tenant("acme"), bench.tenant("beta")
    mine: dict[str, Any] = {"tenant_ids": acme, "kinds": "t_brief", "lanes": Lane.INTERACTIVE}
    scope = Scope(**{part: frozenset([mine[part]])})
    success = "batchproc_last_success_timestamp_seconds"
    bench.enqueue(beta, "t_quick", lane=Lane.BULK)
    idle = named(queue_of(bench, for_ever=True, scope=scope), success)
    assert idle == {("part",): pytest.approx(time.time(), abs=60)}, "what waits is not for it"
    bench.enqueue(acme, "t_brief", lane=Lane.INTERACTIVE)
    assert named(queue_of(bench, for_ever=True, scope=scope), success) == {("part",): COMPLETED}
    bench.connection.execute(
        b"insert into batchproc.runs (node_id, scope, finished_at, exit_code)"
        b" values (gen_random_uuid(), '{}', '2026-11-29T06:00:00Z', 0)"
    )
    night = datetime(2026, 11, 29, 6, tzinfo=UTC).timestamp()
    assert named(queue_of(bench, for_ever=True, scope=scope), success) == {("all",): night, ("part",): COMPLETED}


def test_without_a_database_what_the_node_counted_is_told_all_the_same(bench: Bench, tmp_path: Path) -> None:
    bench.enqueue(bench.tenant("acme"), "t_quick")
    meters = counted(bench)
    queue = QueueMetrics("batchproc", connector("postgresql:///nowhere?host=/nonexistent"))
    Textfile(tmp_path / "batchproc.prom", meters.registry, queue).write()
    found = figures((tmp_path / "batchproc.prom").read_text())
    assert found["batchproc_database_up",] == 0
    assert found["batchproc_jobs_total", "t_quick", "completed"] == 1
    assert named(found, "batchproc_queue_jobs") == {}


class _Nothing(CollectorRegistry):
    """No figures of others."""


def test_runs_go_on_counting_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "batchproc.prom"
    for night in (1, 2):
        meters = NodeMetrics()
        textfile = Textfile(path, meters.registry, _Nothing())
        textfile.write()
        for _ in range(3):
            meters.given_up("ocr", "missing_language")
            textfile.write()
        if night == 2:
            meters.given_up("classify", "missing_language")
        textfile.write()
        found = figures(path.read_text())
        assert found["batchproc_jobs_total", "ocr", "discarded"] == 3 * night
    assert found["batchproc_jobs_total", "classify", "discarded"] == 1
    assert [file.name for file in tmp_path.iterdir() if not file.name.endswith(".lock")] == ["batchproc.prom"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_is_no_exposition_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "batchproc.prom"
    path.write_text("batchproc_jobs_total{kind= 7\n")
    meters = NodeMetrics()
    meters.given_up("ocr", "missing_language")
    Textfile(path, meters.registry, _Nothing()).write()
    assert figures(path.read_text())["batchproc_jobs_total", "ocr", "discarded"] == 1


def _count(path: Path, times: int) -> None:
    meters = NodeMetrics()
    textfile = Textfile(path, meters.registry, _Nothing())
    for _ in range(times):
        meters.given_up("ocr", "missing_language")
        textfile.write()


def test_runs_that_overlap_lose_none_of_each_others_counts(tmp_path: Path) -> None:
    path = tmp_path / "batchproc.prom"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_count, args=(path, 40)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert figures(path.read_text())["batchproc_jobs_total", "ocr", "discarded"] == 120


def test_a_run_from_cron_writes_the_file_and_the_command_keeps_it(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, conf = tmp_path / "batchproc.prom", tmp_path / "conf.yaml"
    conf.write_text(json.dumps({"handlers": HANDLERS, "metrics": {"textfile": str(path), "port": 1}}))
    arguments = ["--conf", str(conf), "--database", bench.url]
    tenant = bench.tenant("acme")
    for _ in range(2):
        bench.enqueue(tenant, "t_quick")
        bench.enqueue(tenant, "t_declared")
        assert run([*arguments, "run", "--workers", "1"]) == 1, "the port is for services alone"
    bench.enqueue(tenant, "t_quick")
    assert run([*arguments, "metrics", "--write"]) == 0
    found = figures(path.read_text())
    assert named(found, "batchproc_jobs_total") == {("t_quick", "completed"): 2, ("t_declared", "discarded"): 2}
    assert found["batchproc_queue_jobs", "bulk", "available"] == 1
    assert found["batchproc_last_run_exit_code", "all"] == 1
    assert found["batchproc_nodes",] == 0
    capfd.readouterr()
    assert run([*arguments, "metrics"]) == 0
    printed = figures(capfd.readouterr().out)
    assert printed["batchproc_queue_jobs", "bulk", "available"] == 1
    assert named(printed, "batchproc_jobs_total") == {}


def test_a_service_answers_on_its_port_and_writes_its_file_and_says_when_the_port_is_taken(
    bench: Bench, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path / "batchproc.prom"
    bench.enqueue(bench.tenant("acme"), "t_quick")
    wanted: dict[str, Any] = {"metrics": {"port": port, "textfile": str(file)}}
    with started_run(bench, "--forever", "--workers", "1", handlers=HANDLERS, **wanted) as service:
        url = f"http://127.0.0.1:{port}/metrics"

        def asked() -> Figures:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return figures(answer.read().decode())

        def is_done() -> bool:
            try:
                return asked().get(("batchproc_jobs_total", "t_quick", "completed")) == 1
            except OSError:
                return False

        wait_until(is_done, 60, "the job is counted")
        found = asked()
        assert (found["batchproc_slots",], found["batchproc_slots_busy",], found["batchproc_nodes",]) == (1, 0, 1)
        assert found["batchproc_last_success_timestamp_seconds", "all"] == pytest.approx(time.time(), abs=60)
        taken = pytest.raises(EnvironmentFault, match=f"on 127.0.0.1 port {port}: Address already in use")
        with taken, exported(settings(**wanted), bench.url, for_ever=True):
            pytest.fail("it is taken")
        service.process.terminate()
        assert service.wait() == 0
    families = [line.split()[2] for line in file.read_text().splitlines() if line.startswith("# TYPE ")]
    assert len(families) == len(set(families)), "a file with a family twice is refused as a whole"
    kept = figures(file.read_text())
    assert kept["batchproc_jobs_total", "t_quick", "completed"] == 1
    assert {key for key in found if key[0].startswith("batchproc_queue")} <= set(kept)


def test_a_textfile_that_cannot_be_written_keeps_nobody_from_working(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    conf, log = tmp_path / "conf.yaml", tmp_path / "log"
    conf.write_text(
        json.dumps(
            {
                "handlers": HANDLERS,
                "logging": {"file": str(log)},
                "metrics": {"textfile": str(tmp_path / "nowhere" / "batchproc.prom")},
            }
        )
    )
    job = bench.enqueue(bench.tenant("acme"), "t_quick")
    assert run(["--conf", str(conf), "--database", bench.url, "run", "--workers", "1"]) == 0
    assert bench.job(job)["state"] == "completed"
    assert "batchproc.prom cannot be written: No such file or directory" in log.read_text()


@contextmanager
def held_lock(path: Path) -> Iterator[None]:
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def held_table(bench: Bench) -> Iterator[None]:
    with bench.connection.transaction():
        bench.connection.execute("lock table batchproc.usage_daily in access exclusive mode")
        yield


@pytest.mark.parametrize("what", ["lock", "table"])
def test_what_hangs_holds_no_run_beyond_its_window(bench: Bench, tmp_path: Path, what: str) -> None:
    path = tmp_path / "batchproc.prom"
    wanted = settings(metrics={"textfile": str(path)})
    with held_lock(path) if what == "lock" else held_table(bench):
        window = Window(time.monotonic() + 1.0, time.monotonic, 1.0, "then")
        with exported(wanted, bench.url, for_ever=False, window=window):
            pass
        assert time.monotonic() < window.end
    wait_until(path.exists, 30, "nobody is in its way any more")


def test_a_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textfile, "_LOCK_SECONDS", 0.1)
    path = tmp_path / "batchproc.prom"
    with held_lock(path), pytest.raises(OSError, match="another process holds its lock"):
        Textfile(path, NodeMetrics().registry, _Nothing()).write()


@pytest.mark.parametrize(("left", "counts"), [(1.0, False), (3600.0, True)])
def test_jobs_are_counted_once_more_unless_the_window_ends(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float, counts: bool
) -> None:
    asked: list[QueueMetrics] = []
    monkeypatch.setattr(QueueMetrics, "look_again", lambda queue: asked.append(queue))
    path = tmp_path / "batchproc.prom"
    window = Window(left, lambda: 0.0, left, "then")
    with exported(settings(metrics={"textfile": str(path)}), bench.url, for_ever=False, window=window):
        pass
    assert len(asked) == counts
