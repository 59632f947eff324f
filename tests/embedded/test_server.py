"""The embedded server: made, started, stopped, killed and found again."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from tests.embedded.conftest import OrdinaryUser

START = """
import sys
from pathlib import Path
from batchproc.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
print(server.status().pid, server.url)
"""
QUERY = "import psycopg, sys; print(psycopg.connect(sys.argv[1]).execute('select current_user').fetchone()[0])"


def wait_until(happened: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def value_of(server: EmbeddedServer, statement: bytes) -> object:
    with connect(server.url) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def pid_of(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def starting(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, str(home)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_started_server_is_private_durable_and_nobodys_child(shared_server: EmbeddedServer) -> None:
    before = stat.S_IMODE(shared_server.place.home.stat().st_mode)
    shared_server.start()
    process = psutil.Process(pid_of(shared_server))
    assert os.getsid(process.pid) == process.pid
    assert os.getpid() not in [parent.pid for parent in process.parents()]
    assert not process.net_connections("inet")
    assert stat.S_IMODE(shared_server.place.sockets.stat().st_mode) == 0o700
    assert stat.S_IMODE(shared_server.place.home.stat().st_mode) == before
    for setting, value in {
        b"fsync": "on",
        b"synchronous_commit": "on",
        b"listen_addresses": "",
        b"server_encoding": "UTF8",
        b"unix_socket_directories": str(shared_server.place.sockets),
    }.items():
        assert value_of(shared_server, b"show " + setting) == value
    locale = b"select datlocprovider::text || ' ' || datlocale from pg_database where datname = current_database()"
    assert value_of(shared_server, locale) == "b C.UTF-8"


def test_start_and_stop_may_be_repeated(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    pid = pid_of(shared_server)
    shared_server.start()
    assert pid_of(shared_server) == pid
    assert shared_server.stop() is True
    assert shared_server.stop() is False
    wait_until(lambda: not psutil.pid_exists(pid))
    status = shared_server.status()
    assert (status.running, status.state, status.pid, status.version) == (False, "stopped", None, "18")
    shared_server.start()
    assert shared_server.status().state == "ready"


def test_two_starts_of_a_new_home_share_one_server(home: Path) -> None:
    both = [starting(home), starting(home)]
    # Also shows that the server has no hold of its starter's pipes: else this would wait for it.
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len({output for output, _ in outputs}) == 1
    assert value_of(EmbeddedServer(home), b"select current_user") == "batchproc"


def test_a_start_killed_while_it_makes_the_database_leaves_nothing_in_the_way(home: Path) -> None:
    server = EmbeddedServer(home)
    killed = starting(home)
    wait_until((server.place.base / "data.making" / "PG_VERSION").exists)
    killed.kill()
    killed.communicate()
    assert not server.place.data.exists()
    server.start()
    assert value_of(server, b"select 1") == 1
    assert not (server.place.base / "data.making").exists()


def test_a_killed_server_recovers_what_was_committed(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    with connect(shared_server.url) as connection:
        connection.execute("create table kept as select generate_series(1, 1000) as number")
        os.kill(pid_of(shared_server), signal.SIGKILL)
    wait_until(lambda: not shared_server.status().running)
    shared_server.start()
    assert value_of(shared_server, b"select count(*) from kept") == 1000
    with connect(shared_server.url) as connection:
        connection.execute("drop table kept")
    assert "automatic recovery in progress" in shared_server.place.log.read_text()


def test_a_pid_file_whose_pid_is_somebody_elses_is_not_believed(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    pid_file = shared_server.place.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    owner = pid_file.stat()
    os.kill(pid_of(shared_server), signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(int(lines[0])))
    # Of the server's own user, for only then PostgreSQL itself would refuse to start.
    change = owner.st_uid != os.geteuid()
    with subprocess.Popen(["sleep", "100"], user=owner.st_uid if change else None) as stranger:
        try:
            pid_file.write_text("\n".join([str(stranger.pid), *lines[1:], ""]))
            socket_lock = shared_server.place.sockets / ".s.PGSQL.5432.lock"
            socket_lock.write_text(pid_file.read_text())
            assert shared_server.status().running is False
            assert shared_server.stop() is False
            shared_server.start()
            assert pid_of(shared_server) != stranger.pid
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_server_that_does_not_come_up_is_reported_with_its_log(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    shared_server.stop()
    settings = shared_server.place.data / "postgresql.conf"
    good = settings.read_text()
    try:
        settings.write_text(good + "\nshared_buffers = 'plenty'\n")
        with pytest.raises(EnvironmentFault, match=r'(?s)ended while it started.*invalid value .*"plenty"'):
            shared_server.start()
    finally:
        settings.write_text(good)
    shared_server.start()


def test_data_of_another_release_are_refused(shared_server: EmbeddedServer) -> None:
    shared_server.stop()
    version = shared_server.place.data / "PG_VERSION"
    if not version.exists():
        shared_server.start()
        shared_server.stop()
    try:
        version.write_text("17\n")
        with pytest.raises(EnvironmentFault, match="made by PostgreSQL 17"):
            shared_server.start()
    finally:
        version.write_text("18\n")


def test_a_long_log_is_cut_and_kept_once(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    with shared_server.place.log.open("ab") as log:
        log.write(b"x" * 10_000_000)
    shared_server.start()
    old = shared_server.place.log.with_suffix(".log.1")
    assert old.stat().st_size >= 10_000_000
    with pytest.raises(psycopg.errors.DivisionByZero):
        value_of(shared_server, b"select 1/0")
    # The server goes on writing to it.
    wait_until(lambda: "division by zero" in shared_server.place.log.read_text())
    assert shared_server.place.log.stat().st_size < 100_000


def test_an_ordinary_user_has_a_server_in_the_home_folder(ordinary_user: OrdinaryUser, free_home: Path) -> None:
    started = ordinary_user.run([ordinary_user.python, "-c", START, str(free_home)])
    assert started.returncode == 0, started.stderr
    pid, url = started.stdout.split()
    process = psutil.Process(int(pid))
    assert process.uids().real == ordinary_user.uid
    assert str(free_home / "postgres") in url
    queried = ordinary_user.run([ordinary_user.python, "-c", QUERY, url])
    assert queried.stdout == "batchproc\n", queried.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_nobody_else_reaches_the_server(ordinary_user: OrdinaryUser, shared_server: EmbeddedServer) -> None:
    shared_server.start()
    refused = ordinary_user.run([ordinary_user.python, "-c", QUERY, shared_server.url])
    assert refused.returncode != 0
    assert "Permission denied" in refused.stderr
    # Nor by the server's own rules, if the folder were open.
    shared_server.place.sockets.chmod(0o755)
    (shared_server.place.sockets / ".s.PGSQL.5432").chmod(0o777)
    refused = ordinary_user.run([ordinary_user.python, "-c", QUERY, shared_server.url])
    assert "Peer authentication failed" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, and setpriv")
def test_root_of_a_container_recognises_the_server(shared_server: EmbeddedServer) -> None:
    shared_server.start()
    pid = pid_of(shared_server)
    unprivileged = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
    command = [*unprivileged, sys.executable, "-c", START, str(shared_server.place.home)]
    started = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert started.stdout.split()[:1] == [str(pid)], started.stderr
