"""The log: complete lines on stderr only, nothing secret in them, nothing forged."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger

from batchproc import log
from batchproc.cli import main
from batchproc.cli.run import run as run_command
from batchproc.core.errors import EnvironmentFault
from batchproc.core.shown_text import one_line, redact

PASSWORD = "kQ7-geheim"


@pytest.fixture(autouse=True)
def _restored_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level
    logger.remove()
    logger.configure(extra={}, patcher=lambda record: None)


def fail(message: str) -> None:
    raise ValueError(message)


def log_failure(message: str) -> None:
    try:
        fail(message)
    except ValueError:
        logger.exception("job failed")


def test_a_run_shows_its_log_only_where_the_pages_say_so(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(log, "setup", lambda *_, stderr, **__: told.append(stderr))
    monkeypatch.setattr(run_command, "_run_node", lambda *_: 0)
    lines = ["run", "run -q", "run -v", "-v run", "run --once", "run --forever", "status"]
    assert [main.run(["--database", database_url, *line.split()]) for line in lines] == [0] * len(lines)
    assert dict(zip(lines, told, strict=True)) == {
        "run": False,
        "run -q": False,
        "run -v": True,
        "-v run": True,
        "run --once": True,
        "run --forever": True,
        "status": True,
    }


def test_human_line_has_time_level_message_and_what_is_bound(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup(context={"slot": 2})
    logger.bind(kind="ocr", tenant="acme", job_id=42).info("page {} of {} {{x}}", 3, 7)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"\d\d:\d\d:\d\d info    page 3 of 7 \{x\} \[job_id=42 tenant=acme kind=ocr slot=2\]\n", err)


@pytest.mark.parametrize("lines", ["human", "json"])
def test_whoever_logs_an_exception_at_a_shown_level_sees_where_it_came_about(
    lines: Literal["human", "json"], capfd: pytest.CaptureFixture[str]
) -> None:
    log.setup("info", lines)
    try:
        fail("as expected")
    except ValueError:
        logger.opt(exception=True).info("tried another way")
        logger.opt(exception=True).debug("not shown")
    told = capfd.readouterr().err
    assert "tried another way" in told
    assert told.count("Traceback") == 1
    assert "raise ValueError(message)" in told


def test_json_line_is_one_object(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup(format="json", context={"slot": 2})
    logger.bind(job_id=42, path=Path("/a/b")).warning("two\nlines")
    log_failure("no\nway")
    out, err = capfd.readouterr()
    assert out == ""
    first, second = (json.loads(line) for line in err.splitlines())
    assert first["message"] == "two\nlines"
    assert (first["level"], first["job_id"], first["slot"], first["path"]) == ("warning", 42, 2, "/a/b")
    assert first["logger"] == __name__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d", first["time"])
    assert "exception" not in first
    assert second["exception"].startswith("Traceback")
    assert "ValueError: no\nway" in second["exception"]


def test_level_is_a_floor_and_set_up_replaces(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup("warning")
    logger.info("unheard")
    log.setup("debug")
    logger.debug("heard")
    err = capfd.readouterr().err
    assert "unheard" not in err
    assert err.count("heard") == 1


@pytest.mark.parametrize("layout", ["human", "json"])
def test_no_password_in_any_part_of_a_line(layout: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    log.setup("debug", "json" if layout == "json" else "human", path)
    url = f"postgresql://archive:{PASSWORD}@db.example.org/archive"
    logger.info("connecting to {}", url)
    logger.bind(dsn=url, db_password=PASSWORD).info("connecting")
    logging.getLogger("psycopg.pool").error("bad conninfo: host=h password='%s' user=u", PASSWORD)
    log_failure(f"could not use {url} or password={PASSWORD}")
    err = capfd.readouterr().err
    for text in (err, path.read_text()):
        assert PASSWORD not in text
        assert text.count("archive:***@db.example.org/archive") == 3
        assert "user=u" in text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgresql://u:p@h/d?x=1", "postgresql://u:***@h/d?x=1"),
        ("postgresql://u:p@ss:w/rd@h/d next", "postgresql://u:***@h/d next"),
        ("postgresql://u:it's@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql:///d?password=p&user=u", "postgresql:///d?password=***&user=u"),
        ("host=h password='a b\\'c' user=u", "host=h password=*** user=u"),
        ("PGPASSWORD=x y", "PGPASSWORD=*** y"),
        ("{'password': 'x y', 'a': 1}", "{'password': ***, 'a': 1}"),
        ('{"sslpassword": "x"}', '{"sslpassword": ***}'),
        ("password authentication failed for user u", "password authentication failed for user u"),
        ("password='never closed", "password=*** closed"),
        ("12:30 mail@example.org", "12:30 mail@example.org"),
    ],
)
def test_redact(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize("part", ["x", "a-", "://a:", "password", "password='", "u:p@"])
def test_redacting_a_long_text_takes_no_time(part: str) -> None:
    text = part * (200_000 // len(part))
    start = time.process_time()
    redact(text)
    assert time.process_time() - start < 1


def test_file_name_cannot_forge_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup()
    forged = "a.pdf\n23:59:59 error   disk full\r\x1b[2J\u2028\udcff"
    logger.bind(path=forged).info("imported {}", forged)
    log_failure(forged)
    err = capfd.readouterr().err
    rows = err.splitlines()
    assert [row for row in rows if re.match(r"\d\d:\d\d:\d\d (?!info    imported|error   job failed)", row)] == []
    assert all(row.startswith("  | ") for row in rows[2:])
    assert rows[0].count(r"a.pdf\n23:59:59 error   disk full\r\x1b[2J\u2028\udcff") == 2
    assert "".join(rows).isprintable()


@given(st.text(st.characters(exclude_categories=[])))
def test_one_line_is_printable_and_leaves_printable_text_alone(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    shown.encode()
    if text.isprintable():
        assert shown == text
    assert len(one_line(text, limit=5)) <= 5


def test_standard_logging_and_warnings_arrive_from_warning_on(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup("debug")
    logging.getLogger("PIL.Image").info("unheard")
    logging.getLogger("PIL.Image").warning("odd %s", "file")
    logging.getLogger("psycopg").warning("%d", "not a number")
    logging.getLogger("x").log(35, "between")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("large picture", UserWarning, stacklevel=1)
    out, err = capfd.readouterr()
    rows = [row[9:] for row in err.splitlines()]
    assert out == ""
    assert rows[0] == "warning odd file [logger=PIL.Image]"
    assert rows[1] == "warning %d [logger=psycopg]"
    assert "between" in rows[2]
    assert "UserWarning: large picture" in rows[3]
    assert len(rows) == 4


def test_file_is_appended_to_with_dates_and_may_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "batchproc.log"
    path.write_text("before\n")
    log.setup(file=str(path), stderr=False)
    logger.info("first")
    path.rename(tmp_path / "batchproc.log.1")
    logger.info("second")
    assert re.fullmatch(
        r"before\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info    first\n", (tmp_path / "batchproc.log.1").read_text()
    )
    assert path.read_text().endswith("info    second\n")


def test_file_that_cannot_be_written_is_an_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot write the log file .*: Is a directory: make it writable"):
        log.setup(file=tmp_path)


WRITER = """
import sys
from loguru import logger
from batchproc import log
log.setup(file=sys.argv[1], context={"slot": sys.argv[2]}, stderr=False)
for number in range(300):
    logger.info("{} {}", number, "x" * 3000)
"""


def test_lines_of_several_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(slot)], cwd=Path(__file__).parents[2])
        for slot in range(3)
    ]
    try:
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    rows = path.read_text().splitlines()
    assert len(rows) == 900
    assert all(re.fullmatch(r"[\d-]+ [\d:]+ info    \d+ x{3000} \[slot=\d\]", row) for row in rows)
