"""What runs and campaigns have done, counted from their attempts."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.job import Claim, JobState, KindSpec, Lane
from batchproc.core.outcome import Completed, ErrorClass, Failed, Outcome
from batchproc.core.transition import completed
from batchproc.engine.counts import Counts
from batchproc.queue.changing import Changing
from batchproc.queue.node_store import NodeStore
from batchproc.queue.run_history import RunHistory
from batchproc.queue.usage import Usage
from tests.queue.helpers import (
    CAMPAIGNS,
    Conn,
    add_document,
    add_tenant,
    claim_job,
    ended,
    enqueue,
    failed,
    join,
    one,
)

HISTORY = RunHistory("batchproc")
OCR = KindSpec("ocr", fails_document=True)
START = datetime(2026, 11, 28, 22, 0, tzinfo=UTC)


class Night:
    """A node and a run of it; ``do`` has it work on a job."""

    def __init__(self, connection: Conn) -> None:
        self.connection = connection
        joined = join(connection)
        self.node = NodeStore("batchproc", joined.node_id, {"ocr": OCR, "work": KindSpec("work")})
        self.run_id = self.node.runs.start(connection, self.node.node_id, {})

    def do(
        self,
        tenant: int,
        kind: str = "work",
        outcome: Outcome | None = None,
        *,
        run_id: int | None = None,
        at: tuple[float, float] | None = None,
        due: float | None = None,
        **more: Any,
    ) -> Claim:
        """``at``: seconds after the start when the attempt begins and ends; ``due``: when its job was due."""
        job_id = enqueue(self.connection, tenant, kind, **more)
        claimed = claim_job(self.connection, self.node, job_id, self.run_id if run_id is None else run_id)
        spec = OCR if kind == "ocr" else KindSpec("work")
        self.node.settle(self.connection, [ended(claimed, outcome, spec)])
        if at is not None:
            begin, end = (START + timedelta(seconds=moment) for moment in at)
            self.connection.execute(
                "update batchproc.job_attempts set started_at = %s, ended_at = %s, seconds = %s where job_id = %s",
                [begin, end, at[1] - at[0], job_id],
            )
            self.connection.execute(
                "update batchproc.processing_jobs set created_at = %(due)s, run_at = %(due)s where job_id = %(job_id)s",
                {"due": START + timedelta(seconds=due or 0), "job_id": job_id},
            )
        return claimed

    def attempts(self, **chosen: Any) -> Any:
        return HISTORY.attempts(
            self.connection, **({"run_id": self.run_id} | chosen), since=START, until=START + timedelta(hours=1)
        )


@pytest.fixture
def night(connection: Conn) -> Night:
    return Night(connection)


def test_a_run_remembers_its_slots_and_whether_it_goes_on(night: Night) -> None:
    run = HISTORY.run(night.connection)
    assert run is not None
    assert (run["run_id"], run["slots"], run["alive"], run["finished_at"]) == (night.run_id, 2, True, None)
    night.node.runs.finish(night.connection, night.run_id, 1, {"claimed": 3})
    night.node.leave(night.connection)
    run = HISTORY.run(night.connection, night.run_id)
    assert run is not None
    assert (run["exit_code"], run["counts"], run["alive"]) == (1, {"claimed": 3}, False)
    assert HISTORY.run(night.connection, night.run_id + 1) is None


def test_the_newest_run_is_the_newest_that_claimed_something(night: Night) -> None:
    night.node.runs.finish(night.connection, night.run_id, 0, {"claimed": 1})
    idle = night.node.runs.start(night.connection, night.node.node_id, {})
    night.node.runs.finish(night.connection, idle, 0, {"claimed": 0})
    newest = HISTORY.run(night.connection)
    assert newest is not None
    assert newest["run_id"] == night.run_id
    going_on = night.node.runs.start(night.connection, night.node.node_id, {})
    newest = HISTORY.run(night.connection)
    assert newest is not None
    assert newest["run_id"] == going_on


def test_attempts_are_those_of_the_run_in_its_time(night: Night) -> None:
    tenant = add_tenant(night.connection)
    night.do(tenant, at=(0, 2))
    night.do(tenant, outcome=failed(ErrorClass.PERMANENT), at=(1, 4))
    night.do(tenant, outcome=failed(), at=(2, 7))
    other = night.node.runs.start(night.connection, night.node.node_id, {})
    night.do(tenant, run_id=other, at=(0, 60))
    night.do(tenant, at=(7200, 7201))

    with night.attempts() as attempts:
        [kind] = attempts.kinds()
        retries = attempts.retries(10)

    assert (kind["attempts"], kind["jobs"], kind["completed"], kind["discarded"], kind["seconds"]) == (3, 3, 1, 1, 10)
    assert retries == [{"kind": "work", "failure_code": "own_code", "attempts": 1, "seconds": 5}]
    assert night.connection.isolation_level is None
    with night.attempts() as attempts:
        assert one(night.connection, "show transaction_isolation") == "repeatable read"
        assert attempts.kinds() == [kind]
    assert one(night.connection, "show transaction_isolation") == "read committed"


def test_pages_are_those_that_results_tell_and_of_ranges_each_once(night: Night) -> None:
    tenant = add_tenant(night.connection)
    document = add_document(night.connection, tenant)
    night.do(tenant, "ocr", Completed('{"pages": 7, "failed_page_count": 2}'), at=(0, 7), document_id=document)
    night.do(tenant, "ocr", Completed('{"pages": 900, "ranges": 3}'), at=(7, 8), document_id=document)
    joined = night.do(tenant, "ocr", Completed('{"pages": 900, "failed_page_count": 0}'), at=(8, 9))
    night.connection.execute(
        """update batchproc.processing_jobs set range_of = 1, args = '{"range": "join"}' where job_id = %s""",
        [joined.job_id],
    )
    night.do(tenant, "work", Completed('{"pages": 5}'), at=(0, 1))

    with night.attempts() as attempts:
        pages = {kind["kind"]: (kind["pages"], kind["failed_pages"]) for kind in attempts.kinds()}
        slowest = attempts.slowest(10)

    assert pages == {"ocr": (7, 2), "work": (0, 0)}
    assert [(row["document_id"], row["seconds"], row["attempts"], row["pages"]) for row in slowest] == [
        (document, 8, 2, 7)
    ]


def test_the_sums_of_a_run_are_those_of_its_report_and_copy_nothing(night: Night) -> None:
    tenant = add_tenant(night.connection)
    document = add_document(night.connection, tenant)
    night.do(tenant, "ocr", Completed('{"pages": 7, "failed_page_count": 2}'), at=(0, 7), document_id=document)
    night.do(tenant, "ocr", Completed('{"pages": 900, "ranges": 3}'), at=(7, 8), document_id=document)
    joined = night.do(tenant, "ocr", Completed('{"pages": 900, "failed_page_count": 0}'), at=(8, 9))
    night.connection.execute(
        """update batchproc.processing_jobs set range_of = 1, args = '{"range": "join"}' where job_id = %s""",
        [joined.job_id],
    )
    night.do(tenant, "work", Completed('{"pages": 5}'), at=(0, 1))
    night.do(tenant, "ocr", failed(), at=(1, 5))
    other = night.node.runs.start(night.connection, night.node.node_id, {})
    night.do(tenant, "ocr", Completed('{"pages": 3}'), run_id=other, at=(0, 60))

    with night.connection.transaction():
        night.connection.execute("set transaction read only")
        found = HISTORY.totals(night.connection, night.run_id, since=START, until=START + timedelta(hours=1))
    with night.attempts() as attempts:
        kinds = attempts.kinds()

    assert found == {"seconds": 14, "pages": 7, "failed_pages": 2}
    assert found == {key: sum(kind[key] for kind in kinds) for key in found}
    nothing = HISTORY.totals(night.connection, 10**6, since=START, until=START + timedelta(hours=1))
    assert nothing == {"seconds": 0, "pages": 0, "failed_pages": 0}


def test_waits_count_from_when_a_job_was_due_but_not_before_the_start(night: Night) -> None:
    patient, quick = add_tenant(night.connection, "patient"), add_tenant(night.connection, "quick")
    night.do(patient, at=(40, 41), due=-3600)
    night.do(patient, at=(60, 61), due=50)
    night.do(quick, at=(5, 6), due=5, lane=Lane.INTERACTIVE)

    with night.attempts() as attempts:
        first, last = attempts.tenants()

    assert (first["tenant"], first["lane"], first["jobs"], first["longest_wait"]) == ("patient", 1, 2, 40)
    assert first["waits"] == [25, 38.5]
    assert (last["tenant"], last["lane"], last["waits"], last["longest_wait"]) == ("quick", 0, [0, 0], 0)


def test_stretches_share_an_attempts_time_and_count_its_end_once(night: Night) -> None:
    tenant = add_tenant(night.connection)
    night.do(tenant, at=(4, 23))
    night.do(tenant, at=(10, 20))
    night.do(tenant, outcome=failed(ErrorClass.PERMANENT), at=(21, 22))

    with night.attempts() as attempts:
        found = attempts.buckets(10.0)

    assert [(row["bucket"], row["completed"], row["discarded"], row["busy"]) for row in found] == [
        (0, 0, 0, 6),
        (1, 0, 0, 20),
        (2, 2, 1, 4),
    ]


def test_a_campaign_counts_its_jobs_in_all_runs(night: Night) -> None:
    tenant = add_tenant(night.connection)
    campaign = CAMPAIGNS.begin(night.connection, "reprocess --all")
    other = night.node.runs.start(night.connection, night.node.node_id, {})
    night.do(tenant, at=(0, 1), campaign_id=campaign)
    night.do(tenant, at=(2, 4), campaign_id=campaign, run_id=other)
    night.do(tenant, at=(0, 8))
    enqueue(night.connection, tenant, "work", campaign_id=campaign)

    found = HISTORY.campaign(night.connection, campaign)
    assert found is not None
    assert (found["jobs"], found["left"], found["completed"], found["finished_at"]) == (3, 1, 2, None)
    with night.attempts(run_id=None, campaign_id=campaign) as attempts:
        [kind] = attempts.kinds()
    assert (kind["attempts"], kind["seconds"]) == (2, 3)
    assert HISTORY.campaign(night.connection, campaign + 1) is None


def test_failures_stand_together_by_tenant_and_code_worst_first(night: Night) -> None:
    few, many = add_tenant(night.connection, "few"), add_tenant(night.connection, "many")
    partial = add_document(night.connection, few)
    broken = failed(ErrorClass.PERMANENT, "broken")
    night.do(few, outcome=broken)
    jobs = [night.do(many, outcome=broken).job_id for _ in range(3)]
    night.do(many, outcome=failed(ErrorClass.PERMANENT, "odd"))
    night.do(many, outcome=failed(ErrorClass.PERMANENT, "known"))
    result = Completed('{"pages": 9, "failed_page_count": 4, "failed_pages": [{"page": 2, "code": "timeout"}]}')
    night.do(few, "ocr", result, document_id=partial)

    found = HISTORY.failures(
        night.connection, run_id=night.run_id, partial=True, accepted=["known"], groups=3, examples=2
    )

    keys = ("tenant", "state", "failure_code", "jobs", "failed_pages")
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("many", "discarded", "broken", 3, 0),
        ("many", "discarded", "broken", 3, 0),
        ("few", "discarded", "broken", 1, 0),
        ("many", "discarded", "odd", 1, 0),
    ], "the worst of each tenant, then the next"
    assert [row["job_id"] for row in found[:2]] == jobs[:2]
    assert {(row["groups"], row["tenants"]) for row in found} == {(4, 2)}
    all_of_them = HISTORY.failures(night.connection, run_id=night.run_id, partial=True, groups=9, examples=1)
    [last] = [row for row in all_of_them if row["state"] == "completed"]
    assert tuple(last[key] for key in keys) == ("few", "completed", "timeout", 1, 4)
    assert (last["document_id"], last["path"], last["detail"]) == (partial, b"file", None)
    assert found[0]["detail"] == "a safe detail"
    without = HISTORY.failures(night.connection, run_id=night.run_id, partial=False, groups=9, examples=1)
    assert {row["state"] for row in without} == {"discarded"}
    assert HISTORY.failures(night.connection, run_id=night.run_id + 1, partial=True, groups=9, examples=1) == []


def test_what_no_handler_has_named_is_told_by_where_it_happened(night: Night) -> None:
    tenant = add_tenant(night.connection)
    causes = {
        "internal_error": Failed(ErrorClass.PERMANENT, "internal_error", "ValueError at scan.py:12"),
        "undeclared": Failed(ErrorClass.PERMANENT, "internal_error", "Failure at a.py:3", "an undeclared code"),
        "poison": Failed(ErrorClass.CRASHED, "poison", "killed by signal 11"),
        "lost": Failed(ErrorClass.LEASE_EXPIRED, "lease_expired"),
        "encrypted": Failed(ErrorClass.PERMANENT, "encrypted", "Failure at ocr.py:99"),
    }
    jobs = {name: night.do(tenant, outcome=outcome).job_id for name, outcome in causes.items()}
    night.connection.execute("update batchproc.processing_jobs set state = 'discarded', finished_at = now()")
    for code, names in {"internal_error": ("internal_error", "undeclared"), "poison": ("poison", "lost")}.items():
        night.connection.execute(
            "update batchproc.processing_jobs set failure_code = %s where job_id = any(%s)",
            [code, [jobs[name] for name in names]],
        )

    rows = HISTORY.failures(night.connection, run_id=night.run_id, partial=False, groups=9, examples=9)

    assert {name: row["detail"] for row in rows for name, job_id in jobs.items() if job_id == row["job_id"]} == {
        "internal_error": "ValueError at scan.py:12",
        "undeclared": "an undeclared code, Failure at a.py:3",
        "poison": "killed by signal 11",
        "lost": "its node was lost",
        "encrypted": None,
    }


def test_partial_documents_are_those_that_the_run_counted_whatever_became_of_them(night: Night) -> None:
    tenant = add_tenant(night.connection)
    clean, repaired, kept, piloted = (
        add_document(night.connection, tenant, status) for status in ("partial", "completed", "completed", "partial")
    )
    counts = Counts()

    def read(document: int, *codes: str, **more: Any) -> None:
        pages = [{"page": number, "code": code} for number, code in enumerate(codes, 1)]
        is_partial = bool(codes) and not more
        result = {"pages": 9, "failed_page_count": len(codes), "failed_pages": pages, "partial": is_partial}
        outcome = Completed(json.dumps(result), partial=is_partial)
        claimed = night.do(tenant, "ocr", outcome, document_id=document, **more)
        counts.add(completed(claimed, outcome), JobState.COMPLETED)

    read(clean)
    read(repaired, "timeout", "poison")
    read(kept, "stalled")
    read(piloted, "stalled", args={"pilot": True})

    def told(*accepted: str) -> Counter[str]:
        found = HISTORY.failures(
            night.connection, run_id=night.run_id, partial=True, accepted=accepted, groups=9, examples=1
        )
        return Counter({row["failure_code"]: row["jobs"] for row in found})

    assert told() == counts.partial_codes == {"timeout": 1, "stalled": 1}
    assert counts.partial == 2
    for accepted in ((), ("poison",), ("stalled",), ("timeout", "stalled"), ("timeout", "stalled", "stalled")):
        assert bool(told(*accepted)) == (counts.exit_code(accepted) == 1), accepted


def test_a_partial_result_that_names_no_page_is_never_accepted() -> None:
    counts = Counts()
    for number, result in enumerate(
        (None, "{}", '{"failed_pages": []}', '{"failed_pages": [{"code": "No Code"}]}', "7")
    ):
        claim = Claim(number, uuid4(), 1, "work", Lane.BULK, 5, 1, 5, 0, 0, 0)
        counts.add(completed(claim, Completed(result, partial=True)), JobState.COMPLETED)
    assert (counts.partial, counts.partial_codes, counts.exit_code(["No Code", "internal_error"])) == (5, {}, 1)


def test_what_a_run_gave_up_on_stays_so_when_it_is_retried(night: Night) -> None:
    tenant = add_tenant(night.connection)
    connection, poison = night.connection, ErrorClass.PERMANENT
    taken_back, again, untouched = (night.do(tenant, outcome=failed(poison), at=(1, 2)).job_id for _ in range(3))
    night.do(tenant, outcome=failed(), at=(1, 2))

    def counted() -> tuple[int, int, int, list[int]]:
        with night.attempts() as attempts:
            [kind] = attempts.kinds()
            return (
                kind["attempts"],
                kind["discarded"],
                kind["retried"],
                [row["attempts"] for row in attempts.retries(9)],
            )

    assert counted() == (4, 3, 0, [1])
    Changing("batchproc").retry(connection, [taken_back, again])
    assert counted() == (4, 3, 2, [1])
    other = night.node.runs.start(connection, night.node.node_id, {})
    night.node.settle(connection, [ended(claim_job(connection, night.node, taken_back, other), Completed("{}"))])
    night.node.settle(connection, [ended(claim_job(connection, night.node, again, other), failed(poison))])
    assert counted() == (4, 3, 2, [1])
    # Of attempts that a node of an older release wrote nobody knows more than what became of the job.
    connection.execute("update batchproc.job_attempts set gave_up = null")
    assert counted() == (4, 1, 0, [3])
    assert one(connection, "select state from batchproc.processing_jobs where job_id = %s", [untouched]) == "discarded"


def test_finding_a_nights_attempts_reads_no_other_nights(connection: Conn) -> None:
    """By an index that has an entry for some blocks of the table, and not for each row."""
    connection.execute(
        """
        insert into batchproc.tenants (slug) values ('acme')
        """
    )
    with connection.transaction(force_rollback=True):
        connection.execute(
            """
            with job as (
                insert into batchproc.processing_jobs (tenant_id, kind, state, max_attempts)
                select tenant_id, 'work', 'available', 1 from batchproc.tenants
                returning job_id, tenant_id)
            insert into batchproc.job_attempts
                (claim_id, job_id, tenant_id, number, node_id, run_id, started_at, ended_at, seconds, outcome)
            select gen_random_uuid(), job_id, tenant_id, 1, gen_random_uuid(), n / 1000, moment, moment, 0, 'completed'
            from job, generate_series(1, 50000) as n,
                 lateral (select '2026-11-01'::timestamptz + make_interval(secs => n)) as m(moment)
            """
        )
        connection.execute("select brin_summarize_new_values('batchproc.job_attempts_ended'::regclass)")
        connection.execute("analyze batchproc.job_attempts")
        # The planner takes the index by itself once the table is larger than what a test should wait for.
        connection.execute("set local enable_seqscan = off")
        plan = connection.execute(
            "explain (analyze, format json) select count(*) from batchproc.job_attempts where run_id = 30"
            " and ended_at between '2026-11-01 08:19:00+00' and '2026-11-01 08:37:00+00'"
        ).fetchone()
    assert plan is not None
    scan = plan[0][0]["Plan"]["Plans"][0]
    assert (scan["Node Type"], scan["Plans"][0]["Index Name"]) == ("Bitmap Heap Scan", "job_attempts_ended")
    assert scan["Rows Removed by Filter"] + scan.get("Rows Removed by Index Recheck", 0) < 10_000


def test_usage_is_summed_by_what_is_asked_for(connection: Conn) -> None:
    acme, beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
    insert = """
        insert into batchproc.usage_daily (tenant_id, day, kind, attempts, completed, discarded, worker_seconds,
                                           pages_ocr, pages_text, pages_blank, pages_failed)
        values (%s, %s, %s, 4, 2, 1, 2.5, 5, 1, 1, 1)
    """
    for tenant, day, kind in ((acme, 1, "ocr"), (acme, 2, "ocr"), (acme, 2, "work"), (beta, 2, "ocr")):
        connection.execute(insert, [tenant, date(2026, 11, day), kind])
    usage = Usage("batchproc")

    def asked(*columns: str, **chosen: Any) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in columns) for row in usage.rows(connection, **chosen)]

    assert asked("day", "tenant", "kind", "attempts") == [
        (date(2026, 11, 2), "acme", "ocr", 4),
        (date(2026, 11, 2), "acme", "work", 4),
        (date(2026, 11, 2), "beta", "ocr", 4),
        (date(2026, 11, 1), "acme", "ocr", 4),
    ]
    assert asked("tenant", "day", "completed", "pages_ocr", "worker_seconds", by=["tenant"]) == [
        ("acme", None, 6, 15, 7.5),
        ("beta", None, 2, 5, 2.5),
    ]
    assert asked("attempts", by=[], since=date(2026, 11, 2), until=date(2026, 11, 2)) == [(12,)]
    assert asked("kind", "attempts", by=["kind"], tenant_id=acme, kinds=["work"]) == [("work", 4)]
    assert asked("tenant", "kind", after=1, limit=2) == [("acme", "work"), ("beta", "ocr")]
