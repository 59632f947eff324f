"""The sandbox: a job in it is a job, and what becomes of it is what becomes of it in a run."""

from __future__ import annotations

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.outcome import Completed, Snoozed
from batchproc.database import connect
from batchproc.testing import Sandbox
from batchproc.testing import sandbox as sandbox
from batchproc.testing.databases import Databases
from tests.testing import letter_date as handlers
from tests.testing.letter_date import LetterDateArgs, counts_up, divides, letter_date


@pytest.fixture(scope="session")
def sandbox_databases(template_databases: Databases) -> Databases:
    """On the server that these tests have already."""
    return template_databases


def test_a_handler_completes_and_what_it_wrote_and_asked_for_is_there(sandbox: Sandbox) -> None:
    document = sandbox.document("Winchester, 4 April 2020", "Yours sincerely")

    attempt = sandbox.run(letter_date, document=document)

    assert (attempt.state, attempt.result) == ("completed", {"date": "4 April 2020"})
    assert isinstance(attempt.outcome, Completed)
    assert sandbox.load(document).fields == {"letter_date": "4 April 2020"}
    assert sandbox.text(document) == ["Winchester, 4 April 2020", "Yours sincerely"]
    assert [item.kind for item in attempt.follow_ups] == ["letter_date_noted"]
    assert [job["state"] for job in sandbox.jobs("letter_date_noted")] == ["available"]


def test_a_declared_failure_is_told_with_its_detail(sandbox: Sandbox) -> None:
    attempt = sandbox.run(letter_date, LetterDateArgs(document_id=sandbox.document("No date")))
    assert (attempt.state, attempt.failure_code, attempt.detail) == ("discarded", "no_date", "no page has one")
    assert (attempt.result, attempt.follow_ups, sandbox.jobs("letter_date_noted")) == (None, (), [])


def test_an_exception_that_nobody_declared_is_raised_when_it_is_settled(sandbox: Sandbox) -> None:
    with pytest.raises(ZeroDivisionError):
        sandbox.run(divides)
    assert [job["state"] for job in sandbox.jobs("divides")] == ["scheduled"]
    attempt = sandbox.run(divides, raises=False)
    assert (attempt.state, attempt.failure_code) == ("scheduled", "internal_error")


def test_a_handler_is_asked_to_stop_and_goes_on_where_it_was(sandbox: Sandbox) -> None:
    document = sandbox.document("A page")
    stopped = sandbox.run(counts_up, document=document, stop_after=1)
    assert isinstance(stopped.outcome, Snoozed)
    assert (stopped.progress, stopped.checkpoints) == (((1, 3),), 1)
    ended = sandbox.attempt(stopped.job_id)
    assert (ended.state, ended.progress) == ("completed", ((2, 3), (3, 3)))


@pytest.mark.parametrize(("kill_after", "kept"), [(1, 0), (2, 1), (3, 1), (4, 2), (6, 3)])
def test_a_handler_that_is_killed_anywhere_loses_its_open_transaction_and_ends_the_same(
    sandbox: Sandbox, kill_after: int, kept: int
) -> None:
    document = sandbox.document("A page")
    killed = sandbox.run(counts_up, document=document, kill_after=kill_after)
    assert (killed.state, killed.failure_code) == ("scheduled", "poison")
    assert sandbox.load(document).fields.get("steps", 0) == kept
    assert sandbox.attempt(killed.job_id).state == "completed"
    assert sandbox.load(document).fields == {"steps": 3}


def test_tenants_are_apart_and_have_settings(sandbox: Sandbox) -> None:
    document = sandbox.document("4 April 2020", tenant="museum")
    assert sandbox.tenant("museum", languages=["deu"]).settings == {"languages": ["deu"]}
    with pytest.raises(LookupError):
        sandbox.load(document)
    with pytest.raises(UsageError, match="document"):
        sandbox.run(letter_date, document=document)


def test_args_that_do_not_fit_and_functions_that_are_no_handlers_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="pgae: Extra inputs are not permitted"):
        sandbox.run(letter_date, {"document_id": 1, "pgae": 2})
    with pytest.raises(UsageError, match="is not a handler"):
        sandbox.run(test_tenants_are_apart_and_have_settings)
    with pytest.raises(UsageError, match="no handler declares kind 'nobodys'"):
        sandbox.run("nobodys")


def test_built_in_kinds_run_by_name_with_the_settings(sandbox: Sandbox) -> None:
    document = sandbox.document("Invoice No. 1835\nfor your order")
    sandbox.configure(retry={"max_attempts": 7})
    attempt = sandbox.run("classify", document=document)
    assert attempt.state == "completed"
    assert {tag.tag for tag in sandbox.tags(document)} >= {"invoice"}
    assert [job["max_attempts"] for job in sandbox.jobs("classify")] == [7]


def test_it_all_runs_in_worker_processes_too(sandbox: Sandbox) -> None:
    job = sandbox.enqueue(letter_date, document=sandbox.document("4 April 2020"))
    report = sandbox.drain()
    assert (report.exit_code, report.counts.completed) == (0, 2)
    assert [entry["state"] for entry in sandbox.jobs() if entry["job_id"] == job] == ["completed"]
    assert handlers.__name__ == "tests.testing.letter_date"


def test_every_test_has_a_database_of_its_own(sandbox: Sandbox, sandbox_databases: Databases) -> None:
    assert sandbox.jobs() == []
    assert sandbox.tenant().tenant_id == 1
    with sandbox_databases.new() as url, connect(url) as other:
        assert other.info.dbname != sandbox.connection.info.dbname
