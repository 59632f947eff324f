"""``prune``: what goes, what stays, what it says, and that a signal ends it between two batches."""

from __future__ import annotations

import json
import signal
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
    for days in (120, 110, 100):
        archive.finished("acme", 5, days=days)
        archive.finished("other", 3, days=days, kind="classify")
        archive.finished("other", 1, days=days, state="cancelled")
    assert archive.prune("--tenant", "other", "--kind", "classify")["jobs"] == 9
    assert archive.prune("--state", "cancelled", "--state", "discarded")["by_state"]["cancelled"] == 3
    assert archive.prune("--kind", "nothing", "--dry-run")["jobs"] == 0
    assert archive.count() == 15
    assert archive.prune("--dry-run")["jobs"] == 15
    assert archive.prune()["jobs"] == 15


def test_people_are_told_in_words(archive: Archive) -> None:
    archive.finished("acme", 2)
    assert archive.shell("prune", "--dry-run")[1] == (
        "2 jobs would be deleted: 2 completed, 0 discarded, 0 cancelled\n"
    )
    assert archive.shell("prune")[1].splitlines() == ["2 jobs deleted: 2 completed, 0 discarded, 0 cancelled"]


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
    assert archive.prune("--state", "completed")["runs"] == 0, "only with all jobs of that age"
    assert (archive.prune("--dry-run")["runs"], archive.count("runs")) == (2, 3)
    done = archive.prune()
    assert (done["jobs"], done["runs"], done["nodes"]) == (0, 2, 1)
    assert (archive.count("runs"), archive.count("nodes"), archive.count()) == (1, 1, 1)


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
