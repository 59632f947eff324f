"""A PostgreSQL of the tests' own that may be restarted, killed and refused, and the runs that go on meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from psycopg import sql

from batchproc.core.job import NewJob
from batchproc.core.outcome import Completed, Interrupted
from batchproc.database import Session, connect
from batchproc.embedded import EmbeddedServer
from batchproc.engine.node import Node, RunOptions, RunReport
from batchproc.queue import migrate
from tests.database import database_on
from tests.engine.running import Bench, settings
from tests.faults.proxy import Proxy
from tests.waiting import wait_until

HANDLERS = "tests.faults.database_handlers"
_NEVER_BEGAN = {"the jobs before it took longer than was thought", "no worker was free for it any more"}
_TEMPLATE = "faults_template"
_numbers = count(1)


class FaultyServer:
    """An embedded server, with ways to break it."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self.embedded = embedded
        self._postmasters: set[int] = set()

    def start(self) -> None:
        self.embedded.start()
        self._postmasters.add(self.pid)

    @property
    def pid(self) -> int:
        pid = self.embedded.status().pid
        assert pid is not None
        return pid

    def restart(self, mode: str) -> None:
        self.embedded.stop(mode)  # type: ignore[arg-type]  # one of its three words
        self.start()

    def kill(self) -> None:
        """Kills the postmaster; its children notice by themselves."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.embedded.status().running)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """The server stands still, as when its disk does: nobody's connection breaks."""
        postmaster = psutil.Process(self.pid)
        stopped = [postmaster, *postmaster.children(recursive=True)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops it, and buries what was orphaned to this process."""
        self.embedded.stop("immediate")
        for child in psutil.Process().children():
            if child.name() == "postgres":
                child.wait(10)

    def admin(self) -> Session:
        """A connection to another database than the tests'."""
        return connect(database_on(self.embedded.url, "postgres"), application_name="test admin")

    def connection_to(self, database: str) -> Session:
        return connect(database_on(self.embedded.url, database), application_name="test")

    def new_database(self) -> str:
        """The name of a migrated, empty database."""
        name = f"faults_{next(_numbers)}"
        with self.admin() as admin:
            admin.execute(
                sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(_TEMPLATE))
            )
        return name

    def make_template(self) -> None:
        with self.admin() as admin:
            admin.execute("alter system set fsync = off")  # a killed server recovers all the same
            admin.execute("select pg_reload_conf()")
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(_TEMPLATE)))
        with connect(database_on(self.embedded.url, _TEMPLATE)) as connection:
            migrate.apply(connection)
            connection.execute("create table written (job_id bigint, page integer, primary key (job_id, page))")


class FaultyBench(Bench):
    """A bench on a faulty server."""

    server: FaultyServer
    name: str

    def reconnect(self) -> None:
        """A fresh connection for the test, after what it did to the old one."""
        self.connection.close()
        self.connection = connect(database_on(self.server.embedded.url, self.name))

    def terminate_all(self) -> None:
        """Ends every connection of the nodes and workers."""
        with self.server.admin() as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = %s and application_name like 'batchproc %%'",
                [self.name],
            )

    def allow_connections(self, allowed: bool) -> None:
        with self.server.admin() as admin:
            statement = sql.SQL("alter database {} connection limit {}")
            admin.execute(statement.format(sql.Identifier(self.name), sql.Literal(-1 if allowed else 0)))
            # Superusers are above that limit.
            statement = sql.SQL("alter database {} allow_connections {}")
            admin.execute(statement.format(sql.Identifier(self.name), sql.Literal(allowed)))

    def enqueue_apart(self, tenant_id: int, kind: str, jobs: int) -> list[int]:
        """Adds jobs on a connection of its own: the test's is in a transaction."""
        with self.server.connection_to(self.name) as other:
            return [self.jobs.enqueue(other, NewJob(tenant_id, kind)).job_id for _ in range(jobs)]

    def value(self, statement: str, *values: Any) -> Any:
        [[found]] = self.rows(statement, *values)
        return found

    def state(self, job_id: int) -> str:
        return str(self.value("select state from batchproc.processing_jobs where job_id = %s", job_id))

    def done(self, job_ids: list[int]) -> bool:
        """Whether all are completed."""
        counted = "select count(*) from batchproc.processing_jobs where job_id = any(%s) and state = 'completed'"
        return bool(self.value(counted, job_ids) == len(job_ids))

    def endings(self, job_id: int) -> list[tuple[str, str | None]]:
        """(outcome, error class) of each attempt."""
        statement = "select outcome, error_class from batchproc.job_attempts where job_id = %s order by ended_at"
        return [(outcome, error_class) for outcome, error_class in self.rows(statement, job_id)]

    def all_completed_once(self) -> bool:
        """Whether each attempt of this process's node completed, and no job twice: by what its workers reported, and by
        what was written. False where there was no job at all.

        Those that waited behind others in a worker may have gone back before they began.
        """
        others = [outcome for _, outcome in self.outcomes if not isinstance(outcome, Completed)]
        completed = [claim.job_id for claim, outcome in self.outcomes if isinstance(outcome, Completed)]
        never_began = all(isinstance(other, Interrupted) and other.reason in _NEVER_BEGAN for other in others)
        reported_once = never_began and len(completed) == len(set(completed))
        return bool(completed) and reported_once and self._written_once(set(completed))

    def _written_once(self, reported: set[int]) -> bool:
        """Whether each job that completed, or was reported to have, has one attempt that did, and none of any job ended
        otherwise than interrupted. What followed them may wait still."""
        written = self.rows(
            "select j.job_id, j.state, count(a) filter (where a.outcome = 'completed'),"
            " count(a) filter (where a.outcome not in ('completed', 'interrupted'))"
            " from batchproc.processing_jobs j left join batchproc.job_attempts a using (job_id)"
            " group by j.job_id, j.state"
        )
        return reported <= {job_id for job_id, *_ in written} and all(
            completions == (state == "completed" or job_id in reported) and not others
            for job_id, state, completions, others in written
        )

    def all_endings(self) -> set[tuple[str, str | None]]:
        statement = "select distinct outcome, error_class from batchproc.job_attempts"
        return {(outcome, error_class) for outcome, error_class in self.rows(statement)}

    def run_during(
        self,
        faults: Callable[[], None],
        *,
        workers: int = 4,
        url: str | None = None,
        direct_url: str | None = None,
        **sections: Any,
    ) -> RunReport:
        """Runs a node in this thread, without end, while another causes the faults; then the node is stopped."""
        sections.setdefault("handlers", [HANDLERS])
        used = url or self.url
        node = Node(
            settings(**sections), used, direct_url or used, lambda claim, outcome, _: self._note(claim, outcome)
        )

        def cause() -> None:
            wait_until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, 20, "the node runs")
            try:
                faults()
            finally:
                if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                    os.kill(os.getpid(), signal.SIGTERM)

        with ThreadPoolExecutor(1) as threads:
            causing = threads.submit(cause)
            try:
                return node.run(RunOptions(workers=workers, forever=True))
            finally:
                causing.result()


class Nodes:
    """Runs as processes of their own, through the command line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, url: str | None, *arguments: str, **settings: Any) -> subprocess.Popen[str]:
        """Starts one on that database, or on the embedded one of ``$BATCHPROC_HOME``."""
        conf = self._folder / f"conf-{len(self._started)}.yaml"
        conf.write_text(json.dumps({"handlers": [HANDLERS], **settings}))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "batchproc", "--conf", str(conf)),
                *(("--database", url) if url is not None else ()),
                *("run", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Stops them all, as a person would."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        for process in self._started:
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate(timeout=10)


def through(proxy: Proxy, bench: FaultyBench) -> str:
    """The bench's database, through the proxy."""
    return f"postgresql://batchproc@127.0.0.1:{proxy.port}/{bench.name}?sslmode=disable&gssencmode=disable"


@contextlib.contextmanager
def released(go: Path) -> Iterator[None]:
    """Makes the file ``go`` in the end, so that no handler waits for a test that failed."""
    try:
        yield
    finally:
        go.touch()
