"""SQL files, connections, and that no password is ever shown."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.database import SqlFolder, connect, redacted

SECRET = "s3cret"


# -- SQL files


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package whose folder ``sql`` holds the file that a test writes."""
    (tmp_path / "sqlpackage" / "sql").mkdir(parents=True)
    (tmp_path / "sqlpackage" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sqlpackage", raising=False)
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
    with connect(database_url, application_name="batchproc test", options={"options": "-c lock_timeout=7s"}) as own:
        assert own.autocommit
        shown = own.execute("select current_setting('application_name'), current_setting('lock_timeout')").fetchone()
        assert shown == ("batchproc test", "7s")
        assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
