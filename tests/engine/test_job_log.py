"""Every line of a worker says which job it is of, and the node says of every attempt how it ended, in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from batchproc.core.job import NewJob
from batchproc.engine.pool import printed
from batchproc.engine.tenant_names import TenantNames
from tests.engine import log_handlers
from tests.engine.running import Bench
from tests.faults.command import started_run
from tests.waiting import wait_until


def logged(bench: Bench, file: Path, *arguments: str, **logging: Any) -> list[str]:
    wanted = {"file": str(file), "format": "json"} | logging
    with started_run(bench, *arguments, handlers=[log_handlers.MODULE], logging=wanted) as run:
        assert run.wait() == 0
    return file.read_text().splitlines()


def test_every_line_of_a_worker_names_its_job_and_each_attempt_has_one_of_the_node(
    bench: Bench, tmp_path: Path
) -> None:
    tenant = bench.tenant("acme")
    job = bench.enqueue(tenant, "l_talks", max_attempts=2)
    other = bench.enqueue(bench.tenant("beta"), "l_quiet")

    lines = [json.loads(line) for line in logged(bench, tmp_path / "log", "--workers", "1")]

    said = [line for line in lines if "said by" in line["message"] or "exception" in line]
    whose = [
        (line["message"].split(": ")[-1].split("\n")[0], *map(line.get, ("job_id", "tenant", "kind", "attempt")))
        for line in said
    ]
    ways = ("ctx.log", "loguru", "logging", "warnings", "a thread")
    for attempt in (1, 2):
        of_attempt = [message for message, *job_of in whose if job_of == [job, "acme", "l_talks", attempt]]
        for way in ways:
            assert [message for message in of_attempt if f"said by {way}" in message], (way, attempt)
    assert [job_of for message, *job_of in whose if "next job" in message] == [[other, "beta", "l_quiet", 1]]
    [traced] = [line for line in said if "exception" in line]
    assert (traced["job_id"], traced["tenant"], traced["attempt"]) == (job, "acme", 1)
    assert len(whose) == 2 * len(ways) + 2

    ended = [line for line in lines if " after " in line["message"]]
    told = [(line["message"].split(" after ")[0], line["job_id"], line["tenant"], line["attempt"]) for line in ended]
    assert sorted(told) == [
        ("completed", job, "acme", 2),
        ("completed", other, "beta", 1),
        ("failed: internal_error", job, "acme", 1),
    ]


def printed_lines(bench: Bench, *arguments: str, **logging: Any) -> tuple[list[dict[str, Any]], bytes]:
    """What a service told of its handlers' prints, and all that came to its stderr."""
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, kind) for kind in ("l_prints", "l_dies", "l_quiet")]
    with started_run(
        bench, "--workers", "1", *arguments, handlers=[log_handlers.MODULE], logging={"format": "json", **logging}
    ) as run:
        wait_until(lambda: all(bench.job(job)["finished_at"] for job in jobs), 60, "all are over")
        if "--forever" in arguments:
            run.process.terminate()
        run.wait()
        err = run.output()[1]
    where = Path(logging["file"]).read_bytes() if "file" in logging else err.encode()
    return [json.loads(line) for line in where.splitlines()], err.encode()


@pytest.mark.parametrize("arguments", [["--forever"], pytest.param(["--exclusive"], marks=pytest.mark.long)])
def test_what_handlers_print_is_logged_as_lines_of_their_jobs(
    bench: Bench, tmp_path: Path, arguments: list[str]
) -> None:
    """A line that is no JSON fails the test in itself; from cron they go into the file."""
    file = {} if "--forever" in arguments else {"file": str(tmp_path / "log")}
    lines, err = printed_lines(bench, *arguments, **file)
    told = [(line["message"], line.get("job_id"), line.get("tenant")) for line in lines if "printed" in line["message"]]
    of_first = ("printed: printed\x1b[31m by python, with password=***", 1, "acme")
    assert [line for line in told if line[1] == 1] == [
        of_first,
        ("printed: unfinished", 1, "acme"),
        ("printed: printed by a library, in \\xfcmlauts", 1, "acme"),
        ("printed: printed by a program", 1, "acme"),
    ]
    assert [line[0] for line in told if line[1] == 2] == [
        "printed: printed before the end",
        "printed: terminate called: the last words",
    ]
    assert ("printed: printed when it is imported", None, None) in told
    assert not [line for line in told if line[1] == 3]
    assert b"\x1b" not in err
    assert b"hunter2" not in err


def test_a_flood_of_prints_is_cut_and_takes_no_room(tmp_path: Path) -> None:
    file = tmp_path / printed.PRINTED_FILE
    said: list[str] = []
    file.write_bytes(b"x" * (300 << 10))
    heard = logger.add(lambda message: said.append(message.record["message"]), level="INFO", format="{message}")
    try:
        printed.tell(file)
    finally:
        logger.remove(heard)
    assert said[-1] == f"printed: {44 << 10} bytes more, which are not logged"
    assert file.stat().st_size == 0
    os.truncate(file, 65 << 20)
    printed.bound(file)
    assert file.stat().st_size == 0
    printed.tell(file)
    printed.tell(tmp_path / "missing")


def test_a_tenant_whose_name_cannot_be_read_is_called_by_its_id(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    bench.jobs.enqueue(bench.connection, NewJob(tenant, "t_quick"))
    names = TenantNames("batchproc")
    assert names.of(tenant) == f"#{tenant}"


@pytest.mark.parametrize("form", ["human", pytest.param("json", marks=pytest.mark.long)])
def test_a_file_that_turns_itself_over_loses_no_line(bench: Bench, tmp_path: Path, form: str) -> None:
    tenant = bench.tenant("acme")
    bench.jobs.enqueue_many(bench.connection, [NewJob(tenant, "l_quiet") for _ in range(700)])

    logged(bench, tmp_path / "log", "--workers", "2", format=form, rotate=1 << 16, keep=9)

    files = sorted(tmp_path.glob("log*"))
    assert [file.name for file in files][:2] == ["log", "log.1"]
    lines = "".join(file.read_text() for file in files)
    assert lines.count("said by the next job") == 700
    assert lines.count("completed after") == 700
    assert max(file.stat().st_size for file in files) < 1 << 17
