"""What is offered to who completes a word: few, the newest or by the alphabet, and found soon."""

from __future__ import annotations

import pytest

from batchproc.database import SqlFolder
from batchproc.queue import offering
from batchproc.queue.offering import Offering
from tests.queue.helpers import Conn, add_tenant, enqueue

LOOK = Offering("batchproc")


def test_no_more_are_offered_than_can_be_looked_through(connection: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offering, "_MOST", 2)
    for slug in ("bolt", "acid", "acme", "acre"):
        add_tenant(connection, slug)
    connection.execute("insert into batchproc.kinds (kind) values ('ocr'), ('own_kind'), ('other')")
    # With a number of one digit more among them, which the alphabet has first.
    connection.execute("alter sequence batchproc.campaigns_campaign_id_seq restart with 1")
    connection.execute("alter sequence batchproc.runs_run_id_seq restart with 1")
    connection.execute("insert into batchproc.campaigns (command) select 'import' from generate_series(1, 12)")
    connection.execute("insert into batchproc.runs (node_id) select gen_random_uuid() from generate_series(1, 12)")

    assert LOOK.tenants(connection, "a") == ["acid", "acme"]
    assert LOOK.tenants(connection, "%") == []
    assert LOOK.kinds(connection, "o") == ["ocr", "other"]
    assert LOOK.campaigns(connection, "1") == ["12", "11"]
    assert LOOK.campaigns(connection, "") == ["12", "11"], "the newest, not the last of the alphabet"
    assert LOOK.runs(connection, "") == ["12", "11"]


def test_codes_are_those_of_jobs_that_runs_gave_up_on_or_will_try_again(connection: Conn) -> None:
    tenant = add_tenant(connection)
    connection.execute("insert into batchproc.runs (node_id) select gen_random_uuid() from generate_series(1, 2)")
    for state, code, run in (
        ("discarded", "torn", 1),
        ("discarded", "torn", 2),
        ("scheduled", "too_dark", 2),
        ("scheduled", None, 2),
        ("available", "too_new", None),
    ):
        connection.execute(
            "update batchproc.processing_jobs set state = %s, failure_code = %s, run_id = %s,"
            " finished_at = case when %s = 'discarded' then now() end where job_id = %s",
            [state, code, run, state, enqueue(connection, tenant)],
        )
    assert LOOK.codes(connection, "") == ["too_dark", "torn"]
    assert LOOK.codes(connection, "tor") == ["torn"]


def test_codes_are_found_by_an_index(connection: Conn) -> None:
    """One that has them in the order that is wanted, however many jobs there are."""
    statement = SqlFolder("batchproc.queue", "batchproc")["offer_codes"]
    with connection.transaction():
        connection.execute("set local enable_seqscan = off")
        connection.execute("set local enable_sort = off")
        plan = connection.execute(b"explain " + statement, {"prefix": "", "limit": 2}).fetchall()
    assert any("Index Scan Backward using processing_jobs_run" in line for (line,) in plan), plan
