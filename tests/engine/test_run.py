"""Whole runs in this process: a real node, pool and database."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec, Lane, NewJob
from batchproc.core.outcome import ErrorClass, Failed
from batchproc.database import connect
from batchproc.engine.ending import declared
from batchproc.engine.node import RunOptions
from batchproc.handlers.errors import Failure
from tests.engine.running import Bench, alive, only
from tests.waiting import wait_until


def test_a_run_drains_every_tenant_and_a_second_one_claims_nothing(bench: Bench) -> None:
    jobs = [bench.enqueue(bench.tenant(slug), "t_quick") for slug in ("a", "b", "c") for _ in range(1)]
    jobs += [bench.enqueue(1, "t_quick") for _ in range(20)]

    report = bench.run()

    assert report.exit_code == 0
    assert report.counts.plain() | {"left": report.left} == {
        "claimed": 23,
        "completed": 23,
        "retried": 0,
        "snoozed": 0,
        "rescued": 0,
        "discarded": 0,
        "cancelled": 0,
        "interrupted": 0,
        "partial": 0,
        "left": 0,
    }
    assert bench.states(jobs) == {"completed": 23}
    assert bench.rows("select count(*) from batchproc.nodes") == [(0,)]
    again = bench.run()
    assert (again.counts.claimed, again.exit_code) == (0, 0)


def test_tenants_take_turns_whatever_the_length_of_their_queues(bench: Bench) -> None:
    big, small, tiny = (bench.tenant(slug) for slug in ("big", "small", "tiny"))
    for _ in range(12):
        bench.enqueue(big, "t_quick")
    for tenant in (small, small, tiny):
        bench.enqueue(tenant, "t_quick")

    bench.run(RunOptions(workers=1))

    order = [row[0] for row in bench.rows("select tenant_id from batchproc.processing_jobs order by claimed_at")]
    assert sorted(order[:3]) == [big, small, tiny]
    assert sorted(order[3:5]) == [big, small]
    assert set(order[5:]) == {big}


def test_a_job_hung_in_native_code_is_settled_in_time_and_hinders_nobody(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    pids = tmp_path / "pids"
    hung = bench.enqueue(tenant, "t_hang_in_c", {"path": str(pids)}, lane=Lane.INTERACTIVE, max_attempts=1)
    quick = [bench.enqueue(tenant, "t_quick") for _ in range(50)]

    report = bench.run()

    job = bench.job(hung)
    attempt = job["attempts"][0]
    assert (job["state"], job["failure_code"], attempt["error_class"]) == ("discarded", "timeout", "timeout")
    assert (attempt["ended_at"] - attempt["started_at"]).total_seconds() < 2.5
    assert bench.states(quick) == {"completed": 50}
    [[before]] = bench.rows(
        "select count(*) from batchproc.job_attempts where job_id <> %s and ended_at < %s", hung, attempt["ended_at"]
    )
    assert before == 50, "the quick jobs complete while the other one hangs"
    assert not [pid for pid in map(int, pids.read_text().split()) if alive(pid)]
    assert report.exit_code == 1


def test_a_failed_attempt_is_tried_again_and_its_message_is_not_stored(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_fail_once")

    report = bench.run()

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"], shown["failure_code"]) == ("completed", 2, None)
    first, second = shown["attempts"]
    assert (first["outcome"], first["error_class"], first["failure_code"]) == ("failed", "transient", "internal_error")
    assert first["error_type"].startswith("ValueError at job_handlers.py:")
    assert first["detail"] is None
    assert (second["number"], second["outcome"]) == (2, "completed")
    assert (report.counts.retried, report.counts.completed, report.exit_code) == (1, 1, 0)


@pytest.mark.parametrize(
    ("kind", "args", "code", "error_class", "attempts"),
    [
        ("t_fail", {}, "internal_error", "transient", 2),
        ("t_declared", {}, "no_luck", "permanent", 1),
        ("t_undeclared", {}, "internal_error", "transient", 1),
        ("t_crash", {}, "poison", "crashed", 2),
        ("t_echo", {"sword": 1}, "invalid_args", "invalid", 1),
        ("t_too_much", {}, "result_too_large", "permanent", 1),
    ],
)
def test_a_job_that_cannot_be_done_is_discarded_with_its_code(
    bench: Bench, kind: str, args: dict[str, object], code: str, error_class: str, attempts: int
) -> None:
    max_attempts = {"t_fail": 2, "t_undeclared": 1}.get(kind, 5)
    job = bench.enqueue(bench.tenant("acme"), kind, args, max_attempts=max_attempts)

    report = bench.run()

    shown = bench.job(job)
    assert (shown["state"], shown["failure_code"], len(shown["attempts"])) == ("discarded", code, attempts)
    assert shown["attempts"][-1]["error_class"] == error_class
    if kind == "t_undeclared":
        assert shown["attempts"][-1]["detail"] == "undeclared failure code"
    assert report.counts.codes == {code: 1}
    assert report.exit_code == 1


@pytest.mark.parametrize("code", ["Dear Mr Smith", "smith"])
def test_an_undeclared_code_may_quote_the_document_and_is_not_stored(code: str) -> None:
    assert declared(KindSpec("work"), Failure(code)).detail == "undeclared failure code"


def test_accepted_codes_do_not_make_the_run_fail(bench: Bench) -> None:
    bench.enqueue(bench.tenant("acme"), "t_declared")

    assert bench.run(run={"accept_codes": ["no_luck"]}).exit_code == 0


def test_results_follow_ups_and_their_unique_keys(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    first = bench.enqueue(tenant, "t_echo", {"word": "one"}, lane=Lane.INTERACTIVE, priority=2)

    bench.run()

    assert bench.job(first)["result"] == {"word": "one", "attempt": 1}
    followed = bench.rows(
        "select lane, priority, state, unique_key from batchproc.processing_jobs where kind = 't_quick'"
    )
    assert followed == [(0, 2, "completed", "after-one")]


def test_an_unstorable_result_is_cleaned(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_dirty")

    bench.run()

    assert bench.job(job)["result"] == {"text": "ab"}


def test_snoozing_uses_no_attempt(bench: Bench, tmp_path: Path) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_snooze", {"path": str(tmp_path / "seen")})

    first = bench.run()
    assert bench.job(job)["state"] == "scheduled", "a snoozed job is not waited for"
    wait_until(lambda: bench.rows("select 1 from batchproc.processing_jobs where run_at <= clock_timestamp()"), 5)
    again = bench.run()
    assert first.counts.snoozed == 1

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"]) == ("completed", 1)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["snoozed", "completed"]
    assert again.exit_code == 0


def test_a_storage_that_is_gone_uses_no_attempt_and_exits_with_3(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_storage_gone")

    report = bench.run()

    shown = bench.job(job)
    assert (shown["state"], shown["attempt"], shown["failure_code"]) == ("scheduled", 0, "storage_unavailable")
    assert (report.counts.snoozed, report.left, report.exit_code) == (1, 1, 3)


def test_a_fenced_transaction_checkpoint_and_published_result(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_write", {"word": "kept"})

    bench.run()

    assert bench.rows("select word from written") == [("kept",)]
    assert bench.job(job)["state"] == "completed"


def test_a_job_hung_in_a_query_is_killed_with_its_backend(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_lingering_lock")

    bench.run()

    attempt = bench.job(job)["attempts"][0]
    assert attempt["failure_code"] == "timeout"
    assert (attempt["ended_at"] - attempt["started_at"]).total_seconds() < 2.5
    assert (
        bench.rows(
            "select pid from pg_stat_activity where query like '%%pg_sleep(600)%%' and pid <> pg_backend_pid()"
            " and datname = current_database()"
        )
        == []
    )


def test_only_what_was_asked_for_is_run(bench: Bench) -> None:
    mine, other = bench.tenant("mine"), bench.tenant("other")
    wanted = bench.enqueue(mine, "t_quick")
    unwanted = bench.enqueue(other, "t_quick")

    report = bench.run(RunOptions(workers=1, scope=only(mine)))

    assert (bench.job(wanted)["state"], bench.job(unwanted)["state"]) == ("completed", "available")
    assert report.left == 0


def test_at_most_so_many_jobs(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    for _ in range(5):
        bench.enqueue(tenant, "t_quick")

    report = bench.run(RunOptions(workers=2, max_jobs=3))

    assert (report.counts.claimed, report.counts.completed, report.left) == (3, 3, 2)


def test_one_job_by_its_id_even_before_it_is_due(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    first, second = bench.enqueue(tenant, "t_quick"), bench.enqueue(tenant, "t_quick")
    bench.rows(
        "update batchproc.processing_jobs set state = 'scheduled', run_at = now() + interval '1 day' "
        "where job_id = %s returning job_id",
        second,
    )

    report = bench.run(RunOptions(workers=1, job_id=second))

    assert (bench.job(first)["state"], bench.job(second)["state"]) == ("available", "completed")
    assert report.counts.claimed == 1
    with pytest.raises(UsageError, match=f"job {second} does not wait"):
        bench.run(RunOptions(workers=1, job_id=second))


def test_paused_tenants_and_full_limits_are_not_waited_for(bench: Bench) -> None:
    paused, full, open_ = (bench.tenant(slug) for slug in ("paused", "full", "open"))
    jobs = [bench.enqueue(tenant, "t_quick") for tenant in (paused, full, open_)]
    bench.jobs.set_tenant(bench.connection, "paused", paused=True)
    bench.jobs.set_tenant(bench.connection, "full", max_running=0)

    report = bench.run()

    assert [bench.job(job)["state"] for job in jobs] == ["available", "available", "completed"]
    assert (report.left, report.exit_code) == (2, 0)


def test_a_limit_is_kept_while_other_tenants_use_the_free_slots(bench: Bench, tmp_path: Path) -> None:
    limited, other = bench.tenant("limited"), bench.tenant("other")
    bench.jobs.set_tenant(bench.connection, "limited", max_running=1)
    jobs = [bench.enqueue(tenant, "t_quick") for tenant in (limited, other) for _ in range(15)]

    bench.run(RunOptions(workers=4))

    assert bench.states(jobs) == {"completed": 30}
    overlaps = bench.rows(
        "select count(*) from batchproc.job_attempts a join batchproc.job_attempts b"
        " on a.tenant_id = b.tenant_id and a.claim_id < b.claim_id"
        " and a.started_at < b.ended_at and b.started_at < a.ended_at where a.tenant_id = %s",
        limited,
    )
    assert overlaps == [(0,)]


def test_reserved_slots_stay_free_for_the_interactive_lane(bench: Bench, tmp_path: Path) -> None:
    tenant = bench.tenant("acme")
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    for _ in range(3):
        bench.enqueue(tenant, "t_until", {"file": str(gate)})
    seen: list[int] = []

    def look() -> None:
        try:
            with connect(bench.url) as other:
                wait_until(lambda: _running(other) == 2, 30, "two bulk jobs running")
                quick = NewJob(tenant, "t_until", {"file": str(tmp_path), "started": str(ran)}, lane=Lane.INTERACTIVE)
                bench.jobs.enqueue(other, quick, KindSpec("t_until"))
                wait_until(ran.exists, 30, "the interactive job to be run while the bulk jobs hold their slots")
                wait_until(lambda: _running(other) == 2, 30, "its end")
                seen.append(_running(other))
        finally:
            gate.touch()

    looker = threading.Thread(target=look)
    looker.start()

    bench.run(RunOptions(workers=3), dispatch={"reserved": 1})

    looker.join()
    assert seen == [2], "two of three slots are for bulk jobs; the third one ran the interactive job"


def test_the_handler_of_a_settled_job_is_told_to_the_observer(bench: Bench) -> None:
    bench.enqueue(bench.tenant("acme"), "t_declared")

    bench.run()

    [(claim, outcome)] = bench.outcomes
    assert claim.kind == "t_declared"
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.detail) == (ErrorClass.PERMANENT, "page 3 of 7")


def test_a_handler_module_that_cannot_be_imported_is_one_clear_error(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"handler module no\.such\.module cannot be imported.*check the setting"):
        bench.run(handlers=["no.such.module"])


def test_a_resource_slot_is_held_by_one_job_at_a_time_and_waiting_for_it_is_no_stall(
    bench: Bench, tmp_path: Path
) -> None:
    gate, started = tmp_path / "gate", tmp_path / "started"
    args = {"file": str(gate), "started": str(started)}
    tenant = bench.tenant("acme")
    jobs = [bench.enqueue(tenant, "t_slot", args) for _ in range(2)]
    holders: list[int] = []

    def open_gate() -> None:
        with connect(bench.url) as other:
            wait_until(lambda: started.exists() and _running(other) == 2, 30, "both jobs running")
        waited_since = time.monotonic()
        wait_until(lambda: time.monotonic() > waited_since + 2 * 0.5, what="twice the stall limit to pass")
        holders.append(len(started.read_text().split()))
        gate.touch()

    opener = threading.Thread(target=open_gate)
    opener.start()

    bench.run(resources={"ai": 1})

    opener.join()
    assert holders == [1]
    assert bench.states(jobs) == {"completed": 2}
    first, second = bench.rows("select started_at, ended_at from batchproc.job_attempts order by ended_at")
    assert second[0] < first[1], "both were running, one of them waiting"


def _running(connection: Connection[TupleRow]) -> int:
    return len(connection.execute("select from batchproc.processing_jobs where state = 'running'").fetchall())


def test_a_resource_without_a_setting_is_named(bench: Bench, tmp_path: Path) -> None:
    args = {"file": str(tmp_path), "started": str(tmp_path / "started")}
    job = bench.enqueue(bench.tenant("acme"), "t_slot", args)

    bench.run()

    attempt = bench.job(job)["attempts"][0]
    assert attempt["detail"] == "the settings have no resource 'ai': add it under resources:"


def test_a_transaction_that_a_handler_leaves_open_costs_the_next_job_nothing(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    bench.enqueue(tenant, "t_leaves_open", lane=Lane.INTERACTIVE)
    job = bench.enqueue(tenant, "t_write", {"word": "kept"})

    bench.run(RunOptions(workers=1))

    assert bench.job(job)["state"] == "completed"
    assert bench.rows("select word from written") == [("kept",)]


def test_one_job_by_its_id_whose_kind_nobody_here_knows(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_unheard_of")

    with pytest.raises(UsageError, match="is of kind t_unheard_of, and no handler here knows it"):
        bench.run(RunOptions(workers=1, job_id=job))

    assert bench.job(job)["state"] == "available"


def test_one_job_is_run_although_the_only_worker_would_be_reserved(bench: Bench) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_quick")

    bench.run(RunOptions(workers=1, max_jobs=1), dispatch={"reserved": 1}, pool={"workers": 2})

    assert bench.job(job)["state"] == "completed"


def test_a_limit_of_the_settings_is_stored_and_kept(bench: Bench) -> None:
    bench.run(kinds={"t_quick": {"limit": 1}})
    assert bench.rows("select declared_limit from batchproc.kinds where kind = 't_quick'") == [(1,)]
    bench.run()
    assert bench.rows("select declared_limit from batchproc.kinds where kind = 't_quick'") == [(1,)]


def test_a_handler_that_snoozes_for_no_time_does_not_keep_others_from_their_turn(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    lazy = bench.enqueue(tenant, "t_lazy", priority=1)
    others = [bench.enqueue(tenant, "t_quick") for _ in range(3)]

    report = bench.run(RunOptions(workers=1))

    assert bench.states(others) == {"completed": 3}
    assert (bench.job(lazy)["state"], report.exit_code) == ("scheduled", 0)
    assert report.counts.snoozed < 5


def test_what_a_handler_changes_on_its_connection_or_folder_is_not_the_next_jobs(bench: Bench) -> None:
    bench.enqueue(bench.tenant("careless"), "t_careless", lane=Lane.INTERACTIVE)
    job = bench.enqueue(bench.tenant("innocent"), "t_write", {"word": "kept"})

    bench.run(RunOptions(workers=1))

    assert bench.job(job)["state"] == "completed"
    assert len(bench.job(job)["attempts"]) == 1


def test_half_a_surrogate_pair_is_stripped_and_a_follow_up_is_bounded(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    odd, big = bench.enqueue(tenant, "t_surrogate"), bench.enqueue(tenant, "t_big_follow_up")

    bench.run()

    assert bench.job(odd)["result"] == {"text": "ab"}
    assert (bench.job(big)["state"], bench.job(big)["failure_code"]) == ("discarded", "result_too_large")


def test_a_child_that_a_handler_forked_does_not_go_on_as_a_worker(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    forks = bench.enqueue(tenant, "t_forks", lane=Lane.INTERACTIVE)
    others = [bench.enqueue(tenant, "t_echo", {"word": str(n)}) for n in range(20)]

    bench.run(RunOptions(workers=1))

    assert bench.states([forks, *others]) == {"completed": 21}
    assert all(len(bench.job(job)["attempts"]) == 1 for job in others)
