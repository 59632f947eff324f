"""Every line of a worker says which job it is of, and the node says of every attempt how it ended, in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from batchproc.core.job import NewJob
from batchproc.engine.tenant_names import TenantNames
from tests.engine import log_handlers
from tests.engine.running import Bench
from tests.faults.command import started_run


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
