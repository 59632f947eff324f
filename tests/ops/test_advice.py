"""What is said to do can be done: an action, its commands there, whole, and right for the state of the job."""

from __future__ import annotations

import re
from typing import Any

import pytest

from batchproc.core.brake import ENVIRONMENT_CODES
from batchproc.core.failure_codes import BAD_CONTENT, known_codes
from batchproc.handlers import registry
from batchproc.ops.advice import advice, brake_advice, found_again_advice, tried_advice
from batchproc.settings import Settings
from tests.cli.documentation import problem_with
from tests.cli.test_config import keys_of

KINDS = registry.load()
CODES = sorted(known_codes(handler.spec for handler in KINDS.values()) | BAD_CONTENT | ENVIRONMENT_CODES | {"no_date"})
ACTIONS = (
    "ask bring check convert enqueue give install let look make mend mount raise restore run scan see split try wait"
).replace(" ", "|")
# What the caller is to put in place himself, as the help of the commands has it.
METAVARS = {"PATH", "SLUG"}
SETTINGS = {*keys_of(Settings), "ocr.bounds"}
SECTIONS = "|".join({key.partition(".")[0] for key in SETTINGS if "." in key})


def row(**fields: Any) -> dict[str, Any]:
    return {"tenant": "acme", "job_id": 7, "document_id": 3, "jobs": 1, "state": "discarded"} | fields


def commands(told: str) -> list[str]:
    return re.findall(r"batchproc ([^,;:)]+)", told)


def is_done_as_said(told: str, metavars: set[str]) -> None:
    assert re.match(rf"({ACTIONS})\b", told), "it tells what was instead of what to do"
    assert not set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", told)) - metavars
    assert not re.search(r"[{}]|\bNone\b", told)
    assert [problem for line in commands(told) if (problem := problem_with(line))] == []
    assert set(re.findall(rf"\b(?:{SECTIONS})\.\w+", told)) <= SETTINGS


@pytest.mark.parametrize("code", [*CODES, None])
@pytest.mark.parametrize(
    "fields",
    [{}, {"jobs": 12}, {"state": "completed"}, {"document_id": None}],
    ids=["one", "many", "partial", "no document"],
)
def test_it_is_an_action_whose_commands_are_whole_and_fit_the_job(code: str | None, fields: dict[str, Any]) -> None:
    told = advice(code, row(**fields))
    is_done_as_said(told, {"PATH"})
    for line in commands(told):
        if line.startswith("jobs retry"):
            assert "completed" not in fields.values(), "a job that completed cannot be retried"
            assert line in ("jobs retry 7", f"jobs retry --tenant acme --failure-code {code}")


@pytest.mark.parametrize("tenant", ["acme", None])
@pytest.mark.parametrize("code", CODES)
def test_of_a_file_that_was_only_tried_nothing_is_said_of_jobs(code: str, tenant: str | None) -> None:
    told = tried_advice(code, tenant)
    if told is None:
        return
    is_done_as_said(told, {"PATH"} if tenant else METAVARS)
    assert not re.search(r"this one stays|jobs retry|jobs show|reprocess|--once", told)


@pytest.mark.parametrize("code", [*sorted(ENVIRONMENT_CODES), "no_date"])
def test_what_is_said_of_a_braked_kind_names_only_commands_that_there_are(code: str) -> None:
    told = brake_advice(code)
    assert not set(re.findall(r"\b[A-Z][A-Z_]{2,}\b|[{}]", told)) - METAVARS
    assert [problem for line in commands(told) if (problem := problem_with(line))] == []


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


def test_other_languages_are_for_a_document_alone() -> None:
    told = advice("missing_language", row())
    assert told == "install the language, or read it in others: batchproc reprocess --document 3 --language eng"
    told = advice("missing_language", row(document_id=None))
    assert told == "install the language, then: batchproc jobs retry 7"


def test_a_file_is_mended_where_it_was_tried_with_a_tenant_by_the_tenant_and_else_by_the_settings() -> None:
    tenants, nobodys = tried_advice("missing_language", "acme"), tried_advice("missing_language", None)
    assert tenants is not None
    assert "batchproc tenants set acme --languages eng, then try it again" in tenants
    assert nobodys == "install the language, or set others as ocr.languages, then try it again"
    tenants, nobodys = tried_advice("encrypted", "acme"), tried_advice("encrypted", None)
    assert tenants is not None
    assert nobodys is not None
    assert tenants.endswith("batchproc tenants set acme --password-file PATH, then try it again")
    assert nobodys.endswith("batchproc tenants set SLUG --password-file PATH, then try it with --tenant SLUG")


def test_where_nothing_can_be_said_of_a_tried_file_nothing_is() -> None:
    assert tried_advice("no_date", "acme") is None
    assert tried_advice("no_date", None) is None


@pytest.mark.parametrize("code", CODES)
def test_what_an_import_has_found_again_is_offered_reprocess_where_that_may_help(code: str) -> None:
    told, of_a_run = found_again_advice(code, "acme"), advice(code, row(document_id=None))
    is_done_as_said(told, {"PATH"})
    again = f"batchproc reprocess --tenant acme --failure-code {code}"
    assert (again in told) == ("batchproc jobs retry" in of_a_run), "where the job may be retried, and nowhere else"
    if again not in told:
        assert told == of_a_run or (told.startswith("see: ") and of_a_run.startswith("see: "))
