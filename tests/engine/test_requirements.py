"""What is said of a job that was asked for and cannot be claimed, and of a window that leaves no time."""

from __future__ import annotations

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import KindSpec
from batchproc.engine.requirements import cannot_be_claimed, require_time
from batchproc.engine.window import Window
from batchproc.queue.campaigns import Campaigns
from tests.engine.running import Bench

SPECS = {"t_quick": KindSpec("t_quick"), "ocr": KindSpec("ocr", needs_languages=True)}


def told(bench: Bench, job_id: int) -> str:
    return str(cannot_be_claimed(bench.connection, "batchproc", job_id, SPECS, ("eng",), ("eng",)))


def test_of_a_job_that_does_not_wait_the_one_cause_and_the_command_that_helps(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    job = bench.enqueue(tenant, "t_quick")

    def becomes(columns: str) -> str:
        bench.connection.execute(f"update batchproc.processing_jobs set {columns}".encode())
        return told(bench, job).removeprefix(f"job {job} does not wait to be run: ")

    assert told(bench, 99) == "there is no job 99: see: batchproc jobs list"
    assert becomes("state = 'completed', finished_at = now()") == (
        f"it is completed: to do it again, enqueue it with the same args (batchproc jobs show {job}):"
        " batchproc enqueue t_quick --tenant acme"
    )
    retry = f"batchproc jobs retry {job}, then: batchproc run --once {job}"
    assert becomes("state = 'discarded', failure_code = 'no_luck'") == f"it was discarded with no_luck: {retry}"
    assert becomes("state = 'cancelled', failure_code = null") == f"it was cancelled: {retry}"
    node = "node_id = gen_random_uuid(), claim_id = gen_random_uuid(), claimed_at = now()"
    assert becomes(f"state = 'running', finished_at = null, {node}") == (
        "it ran on a node that is gone: the next run takes it back: batchproc run"
    )
    bench.connection.execute(
        b"insert into batchproc.nodes (node_id, host, pid, slots, kinds, languages, engine_version, code_version,"
        b" lease_until) select node_id, 'desk', 7, 1, '{}', '{}', '', 4, now() + interval '1 hour'"
        b" from batchproc.processing_jobs"
    )
    assert told(bench, job) == (
        f"job {job} does not wait to be run: it is running, on node 7 on desk: batchproc jobs cancel {job} ends it;"
        f" what it does: batchproc why {job}"
    )


def test_of_a_job_of_a_paused_campaign(bench: Bench) -> None:
    campaign_id = Campaigns("batchproc").begin(bench.connection, "reprocess")
    bench.connection.execute(b"update batchproc.campaigns set paused = true")
    job = bench.enqueue(bench.tenant("acme"), "t_quick", campaign_id=campaign_id)
    assert bench.job(job)["state"] == "held"
    assert told(bench, job).endswith(f"its campaign is paused: batchproc campaigns resume {campaign_id}")
    bench.connection.execute(b"update batchproc.campaigns set paused = false")
    assert told(bench, job).endswith("has not released it yet: the next run does: batchproc run")


def test_of_a_job_that_waits_and_that_nobody_here_can_do(bench: Bench) -> None:
    tenant = bench.tenant("acme")
    unknown, foreign = bench.enqueue(tenant, "t_other"), bench.enqueue(tenant, "ocr")
    bench.connection.execute(b"update batchproc.processing_jobs set languages = '{xyz}' where kind = 'ocr'")
    assert told(bench, unknown).startswith(f"job {unknown} is of kind t_other, and no handler here knows it: name the")
    assert told(bench, foreign) == (
        f"job {foreign} needs the language xyz, and that is not installed here: put xyz.traineddata into a folder that"
        " ocr.tessdata names"
    )
    held = bench.enqueue(tenant, "t_quick")
    assert told(bench, held).startswith(f"somebody else held job {held} just now")


@pytest.mark.parametrize(
    ("length", "grace", "words"),
    [
        (30.0, 30.0, ("in 30 s, and claims end pool.shutdown_grace (30 s) before that: give it longer, or make",)),
        (10.0, 30.0, ("in 10 s, and claims end pool.shutdown_grace (30 s)",)),
        (1.0, 0.0, ("in 1.0 s, and claims end 2.0 s before that: give it longer",)),
    ],
)
def test_a_window_in_which_nothing_could_be_claimed_is_refused(
    length: float, grace: float, words: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as refused:
        require_time(Window(length, lambda: 0.0, length, "then"), grace)
    assert str(refused.value).startswith("--until leaves no time: it is over at then, ")
    assert all(part in str(refused.value) for part in words)


def test_a_window_with_time_for_a_claim_is_not_refused() -> None:
    require_time(None, 30.0)
    require_time(Window(30.5, lambda: 0.0, 30.5, "then"), 30.0)
