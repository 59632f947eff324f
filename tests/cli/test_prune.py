"""``prune``: what goes, what stays, what it says, and that a signal ends it between two batches."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from psycopg import Connection

from batchproc.cli import main
from batchproc.core.job import JobState
from batchproc.database import connect
from batchproc.ops.pruning import paced
from batchproc.queue import pruning
from batchproc.queue.pruning import Pruned, Pruning, Wanted

_FINISHED = """
    insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts, created_at, finished_at)
    select t.tenant_id, %(kind)s, %(state)s, 5, f.at, f.at
    from batchproc.tenants t
    cross join lateral (select clock_timestamp() - make_interval(days => %(days)s) as at) f
    cross join generate_series(1, %(count)s)
    where t.slug = %(tenant)s
"""


class Archive:
    def __init__(self, connection: Connection[Any], url: str, capfd: pytest.CaptureFixture[str]) -> None:
        self.connection, self._url, self._capfd = connection, url, capfd

    def finished(
        self, tenant: str, count: int, *, state: str = "completed", kind: str = "ocr", days: int = 100
    ) -> None:
        self.connection.execute("insert into batchproc.tenants (slug) values (%s) on conflict do nothing", [tenant])
        values = {"tenant": tenant, "count": count, "state": state, "kind": kind, "days": days}
        self.connection.execute(_FINISHED, values)

    def count(self, table: str = "processing_jobs") -> int:
        row = self.connection.execute(f"select count(*) from batchproc.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def shell(self, *arguments: str) -> tuple[int, str, str]:
        code = main.run(["--database", self._url, *arguments])
        out, err = self._capfd.readouterr()
        return code, out, err

    def prune(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        exit_code, out, err = self.shell("prune", "--json", *arguments)
        assert exit_code == code, err
        told: dict[str, Any] = json.loads(out)
        return told


@pytest.fixture
def archive(database_url: str, capfd: pytest.CaptureFixture[str]) -> Any:
    with connect(database_url) as connection:
        yield Archive(connection, database_url, capfd)


def test_it_goes_by_age_and_tells_the_states(archive: Archive) -> None:
    archive.finished("acme", 3)
    archive.finished("acme", 2, state="discarded")
    archive.finished("acme", 4, days=80)
    dry = archive.prune("--dry-run")
    assert (dry["jobs"], dry["dry_run"], archive.count()) == (5, True, 9)
    done = archive.prune()
    assert done == {
        "jobs": 5,
        "by_state": {"completed": 3, "discarded": 2, "cancelled": 0},
        "left": 0,
        "runs": 0,
        "nodes": 0,
        "older_than": 90 * 86400.0,
        "dry_run": False,
        "stopped": False,
    }
    assert archive.prune("--older-than", "79d12h")["jobs"] == 4
    assert archive.count() == 0


def test_what_is_not_wanted_stays_also_where_it_is_most(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_STRETCH", 4)
    monkeypatch.setattr(pruning, "_BATCH", 2)
    archive.finished("acme", 1, days=1, kind="export")
    for days in (120, 110, 100):
        archive.finished("acme", 5, days=days)
        archive.finished("other", 3, days=days, kind="classify")
        archive.finished("other", 1, days=days, state="cancelled")
    assert archive.prune("--tenant", "other", "--kind", "classify")["jobs"] == 9
    assert archive.prune("--state", "cancelled", "--state", "discarded")["by_state"]["cancelled"] == 3
    assert archive.prune("--kind", "export", "--dry-run")["jobs"] == 0
    assert archive.count() == 16
    assert archive.prune("--dry-run")["jobs"] == 15
    assert archive.prune()["jobs"] == 15


def test_people_are_told_in_words(archive: Archive) -> None:
    archive.finished("acme", 2)
    assert archive.shell("prune", "--dry-run")[1] == (
        "2 jobs would be deleted, with their attempts: 2 completed, 0 discarded, 0 cancelled\n"
    )
    _run(archive, days=100)
    _run(archive, days=99)
    assert archive.shell("prune")[1].splitlines() == [
        "2 jobs deleted, with their attempts: 2 completed, 0 discarded, 0 cancelled",
        "1 run and 0 nodes forgotten; the newest run and the last that ended well stay",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--older-than", "-1d"], "duration such as"),
        (["--older-than", "soon"], "duration such as"),
        (["--older-than", "101000d"], "hundred years"),
        (["--state", "running"], "running"),
        (["--tenant", "nobody"], "no tenant 'nobody'"),
        (["--tenant", ""], "--tenant is empty"),
        (["--kind", ""], "--kind is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(archive: Archive, arguments: list[str], complaint: str) -> None:
    code, out, err = archive.shell("prune", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_kind_that_was_forgotten_does_not_fail_the_prune_of_each_night(archive: Archive) -> None:
    archive.finished("acme", 2)
    archive.finished("acme", 1, kind="export")
    code, out, err = archive.shell("prune", "--kind", "bugg")
    assert (code, out.split(" deleted")[0]) == (0, "0 jobs")
    assert err == "warning: there is no kind 'bugg': see: batchproc kinds list\n"
    assert archive.shell("prune", "--kind", "bugg", "--kind", "ocr")[1].split(" deleted")[0] == "2 jobs"
    assert archive.count() == 1


_RUN = "insert into batchproc.runs (node_id, started_at, finished_at) values (%s, %s, %s)"


def test_old_runs_and_nodes_that_are_gone_are_forgotten(archive: Archive) -> None:
    archive.finished("acme", 1, days=1)
    node = (
        "insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)"
        " values (gen_random_uuid(), clock_timestamp() + make_interval(days => %s), 'h', 1, 1, '{}', '{}', '')"
        " returning node_id"
    )
    (gone,), (lives,) = (archive.connection.execute(node, [days]).fetchall()[0] for days in (-2, 2))
    archive.connection.execute(_RUN, [gone, "2020-01-01", "2020-01-02"])
    archive.connection.execute(_RUN, [gone, "2020-01-01", None])
    archive.connection.execute(_RUN, [lives, "2020-01-01", None])
    archive.connection.execute("update batchproc.processing_jobs set run_id = 1")
    newest = [_run(archive, days=days) for days in (200, 199)][-1]
    assert archive.prune("--state", "completed")["runs"] == 0, "only with all jobs of that age"
    assert (archive.prune("--dry-run")["runs"], archive.count("runs")) == (3, 5)
    done = archive.prune()
    assert (done["jobs"], done["runs"], done["nodes"]) == (0, 3, 1)
    assert (archive.count("runs"), archive.count("nodes"), archive.count()) == (2, 1, 1)
    assert archive.prune("--older-than", "0")["runs"] == 0
    assert archive.connection.execute("select run_id from batchproc.runs order by 1").fetchall() == [(3,), (newest,)]


def _run(archive: Archive, *, days: float, code: int | None = 0, claimed: int = 1, **scope: Any) -> int:
    """A run that ended so many days ago, on a node that is gone; without a word where there is no ``code``."""
    row = archive.connection.execute(
        "insert into batchproc.runs (node_id, scope, started_at, finished_at, exit_code, counts)"
        " select gen_random_uuid(), %(scope)s, at, case when %(code)s::int is not null then at end, %(code)s,"
        " jsonb_build_object('claimed', %(claimed)s::int)"
        " from (select clock_timestamp() - make_interval(secs => %(days)s * 86400)) as f(at) returning run_id",
        {"days": days, "code": code, "claimed": claimed, "scope": json.dumps(scope)},
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_tells_how_the_nights_go_says_the_same_after_a_prune_of_all(archive: Archive) -> None:
    """Of every scope, and whether the last run was a good one, a bad one, or one that never said how it ended."""
    for scope in ({}, {"lanes": [1]}, {"tenant_ids": [1], "kinds": []}, {"single": True}):
        for days, code, claimed in (
            (4, 0, 3),
            (3.9, 1, 7),
            (3.5, 3, 2),
            (3.2, 1, 0),
            (3, 3, 5),
            (2, 3, 0),
            (1, None, 0),
        ):
            _run(archive, days=days, code=code, claimed=claimed, **scope)
    asked = (
        ("report", "--json"),
        *(("status", "--check", "--max-age", age, *more, "--json") for age in ("2d", "40d") for more in ((), LANE)),
        ("metrics",),
    )

    def told() -> list[tuple[int, Any]]:
        return [(code, _timeless(out)) for code, out, _ in (archive.shell(*command) for command in asked)]

    before = told()
    assert [code for code, _ in before] != [2] * len(before)
    assert archive.prune("--older-than", "0")["runs"] == 4 * 7 - archive.count("runs")
    assert archive.count("runs") < 4 * 7
    assert told() == before


LANE = ("--lane", "bulk")


def _timeless(out: str) -> str:
    """Without what goes on while somebody looks."""
    return "\n".join(
        line
        for line in re.sub(r'"(?:now|age_seconds|\w*seconds)": [^,}]*', "", out).splitlines()
        if "uptime" not in line
    )


def test_campaigns_count_on_what_a_prune_has_deleted(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where jobs of one document go one after the other, and where some were pruned before."""
    archive.connection.execute(
        "insert into batchproc.campaigns (command, documents, filled_at) values ('reprocess', 9, now())"
    )
    for number in range(5):
        archive.connection.execute("insert into batchproc.tenants (slug) values ('acme') on conflict do nothing")
        archive.connection.execute(
            "insert into batchproc.documents (tenant_id, root, path, sha256, bytes)"
            " select tenant_id, '/', 'x', sha256(%s::text::bytea), 1 from batchproc.tenants",
            [number],
        )
    for document, state, code, days in (
        (1, "completed", None, 100),
        (2, "discarded", "encrypted", 99),
        (3, "cancelled", None, 98),
        (3, "cancelled", None, 40),
        (4, "cancelled", "superseded", 97),
        (5, "completed", None, 96),
        (5, "cancelled", None, 50),
        (None, "cancelled", None, 95),
        (None, "cancelled", None, 94),
        (None, "discarded", "poison", 1),
    ):
        archive.connection.execute(
            "insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts, finished_at, failure_code,"
            " document_id, campaign_id)"
            " select tenant_id, 'ocr', %s, 5, clock_timestamp() - make_interval(days => %s), %s, %s, 1"
            " from batchproc.tenants",
            [state, days, code, document],
        )

    def listed() -> Any:
        return json.loads(archive.shell("campaigns", "list", "--json")[1])["campaigns"]

    def shown() -> Any:
        return json.loads(archive.shell("campaigns", "show", "1", "--json")[1])

    before, jobs = listed(), shown()["jobs"]
    assert [(row["done"], row["cancelled"], row["failed"]) for row in before] == [(5, 4, 2)]
    monkeypatch.setattr(pruning, "_BATCH", 2)
    for age, left in (("98d12h", 8), ("90d", 3), ("30d", 1), ("0", 0)):
        archive.prune("--older-than", age)
        assert archive.count() == left
        assert (listed(), shown()["jobs"], shown()["jobs_pruned"]) == (before, jobs, 10 - left), age
    text = archive.shell("campaigns", "show", "1")[1]
    assert re.search(r"^jobs +2 completed, 2 discarded, 6 cancelled \(10 of them pruned\)$", text, re.MULTILINE)
    assert "10 of its jobs have been pruned" in archive.shell("report", "--campaign", "1")[1]
    archive.connection.execute(
        "update batchproc.campaigns set pruned_completed = 0, pruned_discarded = 0, pruned_cancelled = 0"
    )
    assert re.search(r"^jobs +all pruned$", archive.shell("campaigns", "show", "1")[1], re.MULTILINE), (
        "by an older release"
    )


@pytest.mark.parametrize(
    ("answer", "arguments", "code", "left"),
    [("n", (), 130, 11), ("y", (), 0, 0), (None, ("--yes",), 0, 0)],
)
def test_a_person_is_asked_before_many_jobs_are_gone_for_good(
    archive: Archive, database_url: str, answer: str | None, arguments: tuple[str, ...], code: int, left: int
) -> None:
    archive.finished("acme", 10)
    archive.finished("acme", 1, state="discarded")
    _run(archive, days=100)
    _run(archive, days=99)
    command = [sys.executable, "-m", "batchproc", "--database", database_url, "prune", *arguments]
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        if answer is not None:
            asked = b""
            while b"[y/N]" not in asked:
                asked += os.read(ours, 1000)
            assert b"11 jobs and 1 run will be deleted for good. Go on?" in asked
            assert archive.count() == 11
            os.write(ours, f"{answer}\n".encode())
        assert process.wait(60) == code
    os.close(ours)
    assert archive.count() == left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_batch_and_the_next_goes_on(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(pruning, "_BATCH", 10)
    archive.finished("acme", 35)
    delete: Callable[..., Pruned] = Pruning._delete

    def signalled(*arguments: Any) -> Pruned:
        done = delete(*arguments)
        signal.raise_signal(number)
        return done

    with monkeypatch.context() as patched:
        patched.setattr(Pruning, "_delete", signalled)
        done = archive.prune(code=130)
    assert (done["jobs"], done["by_state"]["completed"], done["stopped"]) == (10, 10, True)
    assert archive.count() == 25
    assert archive.prune()["jobs"] == 25


def test_a_batch_is_done_when_it_is_told_and_holds_nothing_afterwards(
    archive: Archive, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_BATCH", 10)
    archive.finished("acme", 35)
    with connect(database_url) as connection:
        batches = Pruning("batchproc").batches(connection, timedelta(days=90), Wanted())
        assert next(batches).jobs == {JobState.COMPLETED: 10}
        assert archive.count() == 25
        waits = archive.connection.execute(
            "select count(*) from pg_locks l join pg_class c on c.oid = l.relation where c.relname = 'processing_jobs'"
            " and l.pid <> pg_backend_pid()"
        ).fetchone()
        assert waits == (0,)


def test_it_rests_for_as_long_as_a_batch_took_and_a_stop_ends_the_rest() -> None:
    class Stop(Event):
        rested: list[float] = []  # noqa: RUF012

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            self.rested.append(timeout)
            if len(self.rested) == 2:
                self.set()
            return self.is_set()

    stop = Stop()
    batches = iter([Pruned(left=n) for n in range(5)])
    assert [batch.left for batch in paced(batches, stop, rest=0.0)] == [0, 1]
    assert stop.rested == [0.0, 0.0]
