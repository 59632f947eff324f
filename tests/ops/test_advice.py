"""What a summary says to do can be done: its commands are there, whole, and right for the state of the job."""

from __future__ import annotations

import re
from typing import Any

import pytest

from batchproc.ops.advice import _ADVICE, _TRIED, advice, tried_advice
from tests.cli.documentation import problem_with


def row(**fields: Any) -> dict[str, Any]:
    return {"tenant": "acme", "job_id": 7, "document_id": 3, "jobs": 1, "state": "discarded"} | fields


@pytest.mark.parametrize("code", [*sorted(_ADVICE), "no_date"])
@pytest.mark.parametrize("fields", [{}, {"jobs": 12}, {"state": "completed"}], ids=["one", "many", "partial"])
def test_its_commands_are_whole_and_fit_the_job(code: str, fields: dict[str, Any]) -> None:
    told = advice(code, row(**fields))
    assert "retry it" not in told
    assert not re.search(r"\b(RETRY|LOOK|JOB_ID|DOCUMENT_ID|SLUG)\b", told)
    called = re.findall(r"batchproc ([^,;:)]+)", told)
    assert [problem for line in called if (problem := problem_with(line))] == []
    for line in called:
        if line.startswith("jobs retry"):
            assert "state" not in fields, "a job that completed cannot be retried"
            assert line in ("jobs retry 7", f"jobs retry --tenant acme --failure-code {code}")


@pytest.mark.parametrize("code", ["unreadable_file", "empty_file", "unsupported_type"])
def test_of_what_stays_failed_it_says_so(code: str) -> None:
    told = advice(code, row())
    assert "as a new document; this one stays as it is" in told
    assert "run.accept_codes" in told


def test_all_of_a_group_are_retried_by_one_command() -> None:
    assert advice("encrypted", row()).endswith("then: batchproc jobs retry 7")
    many = advice("encrypted", row(jobs=12))
    assert many.endswith("then: batchproc jobs retry --tenant acme --failure-code encrypted")
    partial = advice("encrypted", row(state="completed"))
    assert partial.endswith("then: batchproc reprocess --tenant acme --status partial")


@pytest.mark.parametrize("tenant", ["acme", None])
@pytest.mark.parametrize("code", sorted(_ADVICE))
def test_of_a_file_that_was_only_tried_nothing_is_said_of_jobs(code: str, tenant: str | None) -> None:
    told = tried_advice(code, tenant)
    assert told
    assert not re.search(r"\b(RETRY|LOOK|JOB_ID|DOCUMENT_ID|AGAIN)\b|this one stays|jobs retry|--once \d", told)
    if tenant is not None:
        assert "SLUG" not in told
    called = [line.replace("SLUG", "acme") for line in re.findall(r"batchproc ([^,;:)]+)", told)]
    assert [problem for line in called if (problem := problem_with(line))] == []


def test_what_is_said_of_a_tried_file_is_known() -> None:
    assert set(_TRIED) <= set(_ADVICE)
    assert tried_advice("no_date", "acme") is None
