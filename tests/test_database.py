"""SQL files, connections, and that no password is ever shown."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import SqlFolder, Unreachable, _files_by_name, connect, is_lost, redacted

SECRET = "s3cret"


# -- SQL files


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package whose folder ``sql`` holds the file that a test writes."""
    (tmp_path / "sqlpackage" / "sql").mkdir(parents=True)
    (tmp_path / "sqlpackage" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sqlpackage", raising=False)
    _files_by_name.cache_clear()  # each test has a package of this name
    return "sqlpackage"


def statement(tmp_path: Path, package: str, text: str, schema: str = "batchproc") -> str:
    (tmp_path / "sqlpackage" / "sql" / "x.sql").write_text(text, "utf-8")
    return SqlFolder(package, schema)["x"].decode()


def test_the_schema_takes_the_place_of_the_qualifier(tmp_path: Path, package: str) -> None:
    text = "select b.x from batchproc.b as b, mybatchproc.c, batchproc_old.d, batchproc . e"
    assert statement(tmp_path, package, text) == (
        'select b.x from "batchproc".b as b, mybatchproc.c, batchproc_old.d, batchproc . e'
    )


@pytest.mark.parametrize(
    ("schema", "quoted"), [("archive", '"archive"'), ('a"b', '"a""b"'), (r"a\1", r'"a\1"'), ("A b", '"A b"')]
)
def test_any_schema_is_quoted(tmp_path: Path, package: str, schema: str, quoted: str) -> None:
    assert statement(tmp_path, package, "select * from batchproc.b", schema) == f"select * from {quoted}.b"


def test_lines_of_comment_are_left_out(tmp_path: Path, package: str) -> None:
    text = "-- 100 % of what it's worth: batchproc.x\nselect 1\n    -- and %s\nfrom batchproc.b -- kept\n"
    assert statement(tmp_path, package, text) == 'select 1\nfrom "batchproc".b -- kept'


def test_a_name_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        SqlFolder("batchproc.queue")["no_such_statement"]


def test_statements_in_folders_below_are_found_by_their_names(tmp_path: Path, package: str) -> None:
    (tmp_path / "sqlpackage" / "sql" / "claiming").mkdir()
    (tmp_path / "sqlpackage" / "sql" / "claiming" / "y.sql").write_text("select 2")
    assert statement(tmp_path, package, "select 1") == "select 1"
    assert SqlFolder(package)["y"] == b"select 2"


def test_a_name_that_stands_in_two_folders_is_an_error_before_anything_is_asked_for(
    tmp_path: Path, package: str
) -> None:
    for folder in ("claiming", "settling"):
        (tmp_path / "sqlpackage" / "sql" / folder).mkdir()
        (tmp_path / "sqlpackage" / "sql" / folder / "x.sql").write_text("select 1")
    with pytest.raises(ValueError, match=r"two files of one name: .*x\.sql and .*x\.sql$"):
        SqlFolder(package)


# -- passwords

PASSWORDS = ["s3cret", "s3cret@s3cret", "s3cret/s3cret", "s3cret#s3cret", "s3cret?s3cret", "s3cret:s3cret", "@s3cret"]
PASSWORDS += [
    "s3cret@",
    "/s3cret",
    "s3cret%40s3cret",
    "s3cret s3cret",
    "s3cret&s3cret",
    "s3cret=s3cret",
    "s3cret%s3cret",
]
HOSTS = ["host", "host:5432", "[::1]:5432", "h1:1,h2:2", ""]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_never_shows_its_password(scheme: str, host: str, password: str) -> None:
    assert SECRET not in redacted(f"{scheme}://user:{password}@{host}/name")
    assert SECRET not in redacted(f"{scheme}://user:{quote(password, safe='')}@{host}/name")
    assert SECRET not in redacted(f"{scheme}://:{password}@{host}/name")
    assert SECRET not in redacted(f"{scheme}://user@{host}/name?password={password}&sslmode=require")
    assert SECRET not in redacted(f"{scheme}://{host}/name?user=user&pass%77ord={password}")
    assert SECRET not in redacted(f"{scheme}://{host}/name?sslpassword={password}")


@pytest.mark.parametrize(
    "text",
    [
        "password=s3cret host=host",
        "host=host password=s3cret",
        "host=host password = s3cret",
        "host=host password='s3cret and s3cret'",
        r"host=host password='it\'s s3cret'",
        r"host=host password=s3cret\ s3cret",
        "host=host sslpassword=s3cret",
        "host=host password=s3cret s3cret",
        "host=host password='s3cret",
        "password='s3cret",
        "host=host PASSWORD=s3cret",
    ],
)
def test_a_keyword_string_never_shows_its_password(text: str) -> None:
    assert SECRET not in redacted(text)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_a_password_of_any_characters_is_not_shown(password: str) -> None:
    hidden = f"{SECRET}{password}{SECRET}"
    for text in (
        make_conninfo(host="host", password=hidden),
        f"postgresql://user:{quote(hidden, safe='')}@host/name",
        f"postgresql://user:{hidden}@host/name",
    ):
        assert SECRET not in redacted(text)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:s3cret@host:5432/name", "user=user dbname=name host=host port=5432"),
        ("postgres://host/name?sslmode=require", "dbname=name host=host sslmode=require"),
        ("postgresql:///name?host=/run/pg&user=u", "user=u dbname=name host=/run/pg"),
        ("postgresql://[::1]:5433/name", "dbname=name host=::1 port=5433"),
        ("postgresql://h1:1,h2:2/name", "dbname=name host=h1,h2 port=1,2"),
        ("host=h user='a b' password=s3cret", "user='a b' host=h"),
        ("service=archive", "service=archive"),
    ],
)
def test_the_rest_is_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize("url", ["postgresql://u:p@s@host/name", "postgresql://u:p/s@host/name", "x", "host", "\ud800"])
def test_what_cannot_be_read_is_not_shown(url: str) -> None:
    assert redacted(url) == "(a database URL that cannot be read)"


# -- connecting


@pytest.mark.parametrize("password", PASSWORDS)
def test_no_error_of_connecting_shows_a_password(password: str) -> None:
    for url in (
        f"postgresql://user:{password}@127.0.0.1:1/name",
        f"postgresql://user:{quote(password, safe='')}@127.0.0.1:1/name",
        f"host=127.0.0.1 port=1 user=user password={password}",
    ):
        with pytest.raises((UsageError, EnvironmentFault)) as caught:
            connect(url, connect_timeout=2)
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__


def test_a_server_that_cannot_be_reached_is_named_on_one_line() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"cannot connect to the database .*host=127\.0\.0\.1 port=1.*: check"
    ) as caught:
        connect("postgresql://user:s3cret@127.0.0.1:1/name", connect_timeout=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "postgresql://h:port/x/y@z", "mysql://host/name", "host=h colour=red"])
def test_a_url_that_cannot_be_read_is_a_usage_error(url: str) -> None:
    with pytest.raises(
        UsageError, match="the database URL cannot be read: give it as postgresql://USER@HOST:PORT/NAME"
    ):
        connect(url, connect_timeout=2)


def test_a_connection_is_in_autocommit_mode_and_named(database_url: str) -> None:
    with connect(database_url, application_name="batchproc test", settings={"lock_timeout": "7s"}) as own:
        assert own.autocommit
        shown = own.execute("select current_setting('application_name'), current_setting('lock_timeout')").fetchone()
        assert shown == ("batchproc test", "7s")
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert not own.pooled


def with_options(url: str, options: str) -> str:
    return make_conninfo(url, options=options)


def settings_of(url: str, **settings: str) -> tuple[str, str]:
    with connect(url, settings=settings) as own:
        row = own.execute("select current_setting('lock_timeout'), current_setting('work_mem')").fetchone()
    assert row is not None
    return row[0], row[1]


def test_settings_are_added_to_those_of_the_url_and_the_environment(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = "-c work_mem=5MB -c lock_timeout=3s"
    assert settings_of(with_options(database_url, theirs)) == ("3s", "5MB")
    assert settings_of(with_options(database_url, theirs), lock_timeout="7s") == ("7s", "5MB")
    monkeypatch.setenv("PGOPTIONS", theirs)
    assert settings_of(database_url, lock_timeout="7s") == ("7s", "5MB")


def test_a_server_that_does_not_answer_is_waited_for_with_patience(database_url: str) -> None:
    with connect(database_url, patience=0.3) as own:
        assert own.execute("select 1 from pg_sleep(0.05)").fetchone() == (1,)
        begun = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match=r"did not answer for 0\.3 s"):
            own.execute("select pg_sleep(60)")
        assert time.monotonic() - begun < 2
        assert own.closed


def test_a_pipeline_whose_answer_does_not_come_is_given_up(database_url: str) -> None:
    own = connect(database_url, patience=0.3)

    def two() -> None:
        with own.pipeline():
            own.execute("select pg_sleep(60)")
            own.execute("select 1")

    with pytest.raises(psycopg.OperationalError):
        two()
    assert own.closed


def test_an_attempt_to_connect_that_is_given_up_leaves_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/n?sslmode=disable&gssencmode=disable"
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - of this moment
        gc.disable()
        try:
            with pytest.raises(Unreachable):
                connect(url, connect_timeout=2)
            assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (psycopg.OperationalError("the connection is lost"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.TooManyConnections(), True),
        (psycopg.errors.ReadOnlySqlTransaction(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (Unreachable("cannot connect"), True),
        (EnvironmentFault("the disk is gone"), False),
        (psycopg.errors.LockNotAvailable(), False),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.DiskFull(), False),
        (psycopg.errors.UniqueViolation(), False),
        (ValueError(), False),
    ],
)
def test_what_says_that_the_database_is_lost(error: Exception, lost: bool) -> None:
    assert is_lost(error) == lost


# -- the tests' own servers


def test_several_test_runs_may_remove_what_a_killed_one_has_left() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    homes = [Path(tempfile.mkdtemp(prefix=f"batchproc-test-{gone.pid}-", dir="/tmp")) for _ in range(20)]
    remove = [sys.executable, "-c", "from tests.database import remove_leftovers; remove_leftovers()"]

    at_once = [subprocess.Popen(remove) for _ in range(3)]

    assert [process.wait(60) for process in at_once] == [0, 0, 0]
    assert not any(home.exists() for home in homes)
