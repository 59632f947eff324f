"""Passwords and the text of documents are nowhere that others, or other tenants' people, can look."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from batchproc.cli import main
from batchproc.cli.line import argv
from batchproc.core.limits import DETAIL_CHARACTERS
from batchproc.core.shown_text import redact
from batchproc.database import connect
from batchproc.embedded import EmbeddedServer
from tests.database import new_home, remove_server
from tests.engine.running import Bench
from tests.faults import security_handlers
from tests.faults.command import environment_of, started_run
from tests.faults.security_handlers import WAYS
from tests.faults.stored import tables_with
from tests.ocr import drawn
from tests.waiting import wait_until

PASSWORD = "hunter2-Quetzal"
TEXT = "the-patient-is-called-Quetzalcoatl"
HANDLERS = ["tests.engine.job_handlers", security_handlers.MODULE]
UNREACHABLE = f"postgresql://archive:{PASSWORD}@127.0.0.1:1/archive"


@pytest.fixture(scope="module")
def home() -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(new_home())
    server.start()
    yield server
    remove_server(server)


# -- what other users of the machine see


def test_no_process_of_a_run_shows_the_password(bench: Bench) -> None:
    """Neither its command line nor what it inherits: guardian, node, forkserver, resource tracker, workers."""
    job = bench.enqueue(bench.tenant("acme"), "sec_place")
    url = _with_password(bench.url)
    with started_run(Bench(url, bench.connection), "--workers", "1", "--forever", handlers=HANDLERS) as run:
        wait_until(lambda: bench.job(job)["state"] == "completed", 60, "the job is done")
        everything = run.everything()
        assert len(everything) >= 4
        for process in everything:
            assert PASSWORD not in _shown(process.pid, "cmdline")
            assert PASSWORD not in _shown(process.pid, "environ")
        assert "--database" in _shown(run.guardian_pid, "cmdline")
        assert PASSWORD not in "".join(run.output())
        run.stop()
    seen = bench.job(job)["result"]
    assert PASSWORD not in str(seen)
    assert tables_with(bench.connection, PASSWORD) == []


def test_the_folders_of_a_run_are_its_users_alone(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "sec_place")
    before = os.umask(0)
    try:
        bench.run(handlers=HANDLERS)
    finally:
        os.umask(before)
    folders = bench.job(job)["result"]["folders"]
    own = {path: mode for path, mode in folders.items() if "batchproc-" in path or "bpf-" in path}
    assert any("batchproc-node-" in path for path in own)
    assert set(own.values()) == {0o700}


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        (b"--database\0postgresql://u:p@h/d\0run\0", b"--database\0postgresql://u:*@h/d\0run\0"),
        (b"--database=postgresql://u:a:b@c@h/d\0", b"--database=postgresql://u:*****@h/d\0"),
        (b"postgresql:///d?user=u&password=secret&x=1\0", b"postgresql:///d?user=u&password=******&x=1\0"),
        (b"x\0postgresql://u@h:5432/d\0mail@example.org\0", b"x\0postgresql://u@h:5432/d\0mail@example.org\0"),
        (b"postgresql://u:p\0@h\0", b"postgresql://u:p\0@h\0"),
        (b"", b""),
    ],
)
def test_masking_a_command_line(line: bytes, masked: bytes) -> None:
    assert argv.masked_line(line) == masked
    assert len(masked) == len(line)


def test_arguments_are_as_they_were_for_the_program_itself() -> None:
    script = (
        "import sys, pathlib; from batchproc.cli.line import argv; argv.mask_passwords();"
        "print(sys.argv[1:], pathlib.Path('/proc/self/cmdline').read_bytes())"
    )
    done = _python("-c", script, UNREACHABLE, "ünïcode", "")
    assert f"['{UNREACHABLE}', 'ünïcode', '']" in done.stdout
    assert "archive:***************@127" in done.stdout


# -- what is printed and logged


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "doctor --json",
        "run",
        "run --json",
        "run --once 1",
        "migrate",
        "tenants list --json",
        "jobs list -v",
        "import /etc/hostname --tenant acme",
        "enqueue ocr --tenant acme",
        "documents text 1",
        "db status",
    ],
)
@pytest.mark.parametrize("url", [UNREACHABLE, f"postgresql://archive:{PASSWORD}@[bad", f"{PASSWORD}://x:y"])
def test_no_command_prints_the_password(capfd: pytest.CaptureFixture[str], command: str, url: str) -> None:
    arguments = command.split()
    verbose = ["-v"] if "-v" in arguments else []
    code = main.run([*verbose, "--database", url, *(word for word in arguments if word != "-v")])
    printed = capfd.readouterr()
    assert code in (2, 3)
    assert PASSWORD not in printed.out + printed.err
    assert "Traceback" not in printed.err


def test_a_module_that_cannot_be_imported_is_told_without_its_password(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever a handler module says when it fails, such as that its own database is not there."""
    (tmp_path / "broken_handlers.py").write_text(f"raise RuntimeError('cannot use {UNREACHABLE}')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("BATCHPROC_HANDLERS", "[broken_handlers]")
    assert main.run(["--database", database_url, "import", str(tmp_path), "--tenant", "acme"]) == 2
    printed = capfd.readouterr().err
    assert "broken_handlers cannot be imported" in printed
    assert "archive:***@" in printed
    assert PASSWORD not in printed


def test_a_crash_shows_no_password() -> None:
    """Neither of the main thread nor of another."""
    script = (
        "import sys, threading; from batchproc.cli.line import crash; crash.hide_passwords_in_tracebacks()\n"
        "def fail():\n raise RuntimeError('cannot use ' + sys.argv[1])\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "try: fail()\nexcept RuntimeError as error: raise KeyError(sys.argv[1]) from error\n"
    )
    done = _python("-c", script, UNREACHABLE, code=1)
    assert PASSWORD not in done.stderr
    assert done.stderr.count("archive:***@127.0.0.1") == 3
    assert "KeyError" in done.stderr


@pytest.mark.parametrize("layout", ["human", "json"])
def test_the_log_of_a_worker_shows_no_value_of_a_variable(bench: Bench, tmp_path: Path, layout: str) -> None:
    """``class`` has no text of its own in its message; its secret is only in a local variable."""
    file = tmp_path / "log"
    args = {"how": "database", "text": f"password={PASSWORD}"}
    bench.enqueue(bench.tenant("acme"), "sec_fail", args, max_attempts=1)
    before = os.umask(0)
    try:
        bench.run(handlers=HANDLERS, logging={"file": str(file), "format": layout, "level": "debug"})
    finally:
        os.umask(before)
    text = file.read_text()
    assert "CheckViolation" in text
    assert PASSWORD not in text.lower().replace(PASSWORD.lower(), PASSWORD)
    assert "text_of_the_document =" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{PASSWORD}@h/d",
        f"postgresql://u:{'x' * 3000}{PASSWORD}@h/d",
        f"host=h password={PASSWORD} user=u",
        f"PGPASSWORD={PASSWORD}",
        f"Server=h;Uid=u;Pwd={PASSWORD};",
        f'{{"passphrase": "{PASSWORD}", "a": 1}}',
        f"client_secret={PASSWORD}&x=1",
        f"api-key: {PASSWORD}",
        f"Authorization: Bearer {PASSWORD}",
        f"{{'Authorization': 'Basic {PASSWORD}'}}",
        f"access_token={PASSWORD}",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    assert PASSWORD not in redact(text)


# -- what is stored of errors


@pytest.mark.parametrize("keep", [False, True])
def test_error_rows_hold_no_text_of_documents(bench: Bench, keep: bool) -> None:
    """But where the operator has asked for messages, and there no password and no more than fits."""
    tenant = bench.tenant("acme")
    text = f"{TEXT} password={PASSWORD} {'x' * 5000}"
    jobs = {way: bench.enqueue(tenant, "sec_fail", {"how": way, "text": text}, max_attempts=1) for way in WAYS}

    bench.run(handlers=HANDLERS, errors={"keep_messages": keep})

    bench.connection.execute(b"update batchproc.processing_jobs set args = '{}'")  # where the text came from
    states = {way: bench.job(job) for way, job in jobs.items()}
    assert {way: job["state"] for way, job in states.items()} == dict.fromkeys(WAYS, "discarded")
    assert {job["failure_code"] for job in states.values()} == {"internal_error", "declared"}
    details = {way: job["attempts"][0]["detail"] for way, job in states.items()}
    assert tables_with(bench.connection, PASSWORD) == []
    assert details["declared"] == "no such page"
    if keep:
        assert TEXT in details["message"]
        assert max(len(detail) for detail in details.values() if detail) <= DETAIL_CHARACTERS
    else:
        assert tables_with(bench.connection, TEXT) == []
        assert {way for way, detail in details.items() if detail} == {"declared"}


def test_the_text_of_an_original_is_only_where_texts_are(bench: Bench, tmp_path: Path) -> None:
    bench.tenant("acme")
    (tmp_path / "letter.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("A line\nof a letter to " + TEXT))))
    assert main.run(["--database", bench.url, "import", str(tmp_path), "--tenant", "acme"]) == 0

    assert bench.run(ocr={"languages": ["eng"]}).counts.discarded == 0

    assert set(tables_with(bench.connection, TEXT)) <= {"ocr_pages", "documents", "processing_jobs"}
    assert bench.rows("select 1 from batchproc.job_attempts a where a::text like %s", f"%{TEXT}%") == []


# -- the embedded server and what it keeps


def test_the_embedded_server_listens_on_no_network(home: EmbeddedServer) -> None:
    with connect(home.url) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
        rules = connection.execute("select type, auth_method from pg_hba_file_rules").fetchall()
    assert rules == [("local", "peer")]
    status = home.status()
    assert status.pid is not None
    assert [at for process in _and_children(status.pid) for at in _sockets(process)] == []


def test_nobody_else_gets_into_the_embedded_server(home: EmbeddedServer) -> None:
    """Neither to its socket nor, had he one, past its identification of users."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    nobody = 65534
    url = conninfo_to_dict(home.url)
    assert _as_user(nobody, url) == "no socket"
    sockets = Path(str(url["host"]))
    closed = [sockets, *sockets.glob(".s.PGSQL.*"), *(folder for folder in sockets.parents if _is_closed(folder))]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in closed}
    try:
        for path, mode in modes.items():
            path.chmod(mode | 0o077 if path.is_socket() else mode | 0o011)
        for user in ("postgres", "root", str(url["user"]), "batchproc", "nobody"):
            assert _as_user(nobody, {**url, "user": user}) == "refused", user
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def test_data_sockets_and_dumps_are_their_owners_alone(home: EmbeddedServer, tmp_path: Path) -> None:
    place = home.place
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (place.data, place.sockets)} == {0o700}
    assert stat.S_IMODE(place.log.stat().st_mode) == 0o600
    assert not [path for path in place.data.rglob("*") if path.stat().st_mode & 0o077]
    before = os.umask(0)
    try:
        home.dump(tmp_path / "dump")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "dump").stat().st_mode) == 0o600


def _as_user(uid: int, url: dict[str, Any]) -> str:
    """What becomes of a connection of another user of the machine."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(writing, _connected(url).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o001


def _connected(url: dict[str, Any]) -> str:
    try:
        psycopg.connect(make_conninfo("", **url), connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return "refused" if re.search("[Pp]eer authentication failed|no pg_hba.conf entry", str(error)) else "no socket"
    return "connected"


def _and_children(pid: int) -> list[psutil.Process]:
    postmaster = psutil.Process(pid)
    return [postmaster, *postmaster.children(recursive=True)]


def _sockets(process: psutil.Process) -> list[Any]:
    """Of the network; none of one of the server's processes that has ended meanwhile."""
    try:
        return list(process.net_connections("inet"))
    except psutil.NoSuchProcess:
        return []


def _with_password(url: str) -> str:
    """The same database with a password that is not asked for."""
    scheme, _, rest = url.partition("://")
    address, at, place = rest.rpartition("@")
    user = address.partition(":")[0] or conninfo_to_dict(url).get("user") or "postgres"
    return f"{scheme}://{user}:{PASSWORD}@{place if at else rest}"


def _shown(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace").replace("\0", " ")


def _python(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment_of()
    )
    assert done.returncode == code, done.stderr
    return done
