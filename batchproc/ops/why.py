"""Why a job is not running, what would change that, and about when it will run. Decided from facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from batchproc.core.counted import counted
from batchproc.core.done_again import done_again
from batchproc.core.durations import duration
from batchproc.core.job import JobState, Lane
from batchproc.core.languages import missing, named, remedy
from batchproc.core.rates import shown as shown_rate
from batchproc.engine.alone import LAST_LOSSES
from batchproc.queue.inspection_waiting import MOST_AHEAD, JobFacts, NodeFacts, Waiting

_ADD_HANDLER = "name the module of its handler in handlers: of the settings (BATCHPROC_CONF), found by PYTHONPATH"
_MOMENT = 5.0
"""Seconds within which a node that is well takes up what is due, rescues and releases: some polls."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps the job, with a stable code, and what a person can do; ``remedy`` may be empty.

    ``until``: when it ends by itself, where that is known. ``blocks``: without a change of it, or that time, the job
    cannot run; else it only comes later.
    """

    code: str
    text: str
    remedy: str = ""
    until: datetime | None = None
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """``reasons``, the decisive one first; about when the job will begin, None where nobody can tell."""

    job_id: int
    tenant: str
    kind: str
    lane: str
    state: str
    reasons: tuple[Reason, ...]
    expected_at: datetime | None
    expected_seconds: float | None

    def plain(self) -> dict[str, Any]:
        """Under stable keys."""
        return asdict(self) | {"reasons": [asdict(reason) for reason in self.reasons]}


def why(facts: Waiting, *, needs_languages: bool, max_node_losses: int, known_here: bool = True) -> Answer:
    """The answer for one job.

    Args:
        needs_languages: whether its kind recognises text, so that a node must have the job's languages.
        max_node_losses: of the settings; jobs near it run alone.
        known_here: whether these settings have a handler of its kind, so that a run by them would claim it.
    """
    job = facts.job
    state = JobState(job.state)
    if state is JobState.RUNNING:
        reasons = tuple(_running(job))
    elif job.finished_at is not None:
        reasons = (_ended(job),)
    else:
        waits = [*_of_its_state(job), *_of_others(job), *_of_its_nodes(facts, needs_languages, known_here)]
        blocking = {reason.code for reason in waits if reason.blocks}
        if not blocking:
            waits += _turn(facts, max_node_losses)
        elif blocking == {"no_node"}:
            waits += _before_it(facts)  # the next node will find it so
        reasons = tuple(waits)
    seconds = _expected_seconds(facts, reasons) if state is not JobState.RUNNING else None
    expected = None if seconds is None else job.now + timedelta(seconds=seconds)
    return Answer(job.job_id, job.tenant, job.kind, Lane(job.lane).name.lower(), job.state, reasons, expected, seconds)


# -- jobs that do not wait


def _ended(job: JobFacts) -> Reason:
    code = "" if job.failure_code is None else f" with {job.failure_code}"
    text = f"it is over: {job.state}{code}, {duration(_since(job, job.finished_at))} ago"
    if job.state == JobState.COMPLETED:
        return Reason(job.state, text, done_again(job.job_id, job.kind, job.tenant, job.document_id))
    return Reason(job.state, text, f"batchproc jobs retry {job.job_id}")


def _running(job: JobFacts) -> Iterator[Reason]:
    at = f"node {job.node_pid} on {job.node_host}"
    if not job.node_alive:
        ended = "its lease has ended" if job.node_lease_until is not None else "it is not known any more"
        yield Reason(
            "node_lost",
            f"it ran on {at}, and that node is gone: {ended}",
            "the next node that runs takes it back within a lease and a moment: batchproc run",
        )
        return
    slot = "" if job.slot is None else f", slot {job.slot} (process {job.worker_pid})"
    progress = "" if job.total is None else f", {job.done} of {job.total} done"
    yield Reason(
        "running", f"it has run for {duration(_since(job, job.claimed_at))} on {at}{slot}{progress}", blocks=False
    )
    if job.cancel_requested_at is not None:
        asked = duration(_since(job, job.cancel_requested_at))
        yield Reason("cancel_requested", f"somebody asked for its end {asked} ago", blocks=False)


# -- jobs that wait, and are not due or not allowed to be


def _of_its_state(job: JobFacts) -> Iterator[Reason]:
    if job.state == JobState.HELD:
        yield _held(job)
    elif job.state == JobState.SCHEDULED and job.run_at > job.now:
        yield _not_due(job)


def _held(job: JobFacts) -> Reason:
    if job.campaign_paused:
        text = f"campaign {job.campaign_id} is paused ({job.campaign_command})"
        return Reason("campaign_paused", text, f"batchproc campaigns resume {job.campaign_id}")
    text = f"campaign {job.campaign_id} goes on again, and this job is released with the next look of a node"
    return Reason("release_pending", text, "batchproc run", blocks=False)


def _not_due(job: JobFacts) -> Reason:
    left = duration((job.run_at - job.now).total_seconds())
    at_once = f"now, in spite of that: batchproc run --once {job.job_id}"
    if job.failure_code == "storage_unavailable":
        told = f" ({job.last_detail})" if job.last_detail else ""
        text = f"its storage was not there when it was tried last{told}: the next run tries at once, this one in {left}"
        return Reason("storage_unavailable", text, "check that the archive is mounted, then: batchproc run", job.run_at)
    if job.failure_code is not None:
        text = f"attempt {job.attempt} of {job.max_attempts} failed with {job.failure_code}: the next is due in {left}"
        return Reason("backoff", text, at_once, job.run_at)
    if job.last_outcome == "snoozed":
        return Reason("snoozed", f"its handler asked for later: it is due in {left}", at_once, job.run_at)
    return Reason("not_due", f"it was enqueued for later: it is due in {left}", at_once, job.run_at)


def _of_others(job: JobFacts) -> Iterator[Reason]:
    """What a person, a brake or a limit keeps back."""
    if job.tenant_paused:
        again = f"batchproc tenants set {job.tenant} --resumed"
        yield Reason("tenant_paused", f"tenant {job.tenant} is paused", again)
    if job.kind_paused:
        yield _kind_paused(job)
    if job.tenant_limit is not None and job.tenant_running >= job.tenant_limit:
        raised = f"batchproc tenants set {job.tenant} --max-running N, or --unlimited"
        text = f"tenant {job.tenant} is at its limit: {job.tenant_running} of {job.tenant_limit} jobs run"
        yield Reason("tenant_limit", text, raised, blocks=job.tenant_limit == 0)
    if job.kind_limit is not None and job.kind_running >= job.kind_limit:
        text = f"kind {job.kind} is at its limit: {job.kind_running} of {job.kind_limit} jobs run, over all nodes"
        yield Reason("kind_limit", text, f"batchproc kinds set {job.kind} --limit N", blocks=job.kind_limit == 0)


def _kind_paused(job: JobFacts) -> Reason:
    since = "" if job.kind_paused_at is None else f" for {duration(_since(job, job.kind_paused_at))}"
    told = f": {job.kind_paused_reason}" if job.kind_paused_reason else ""
    again = f"batchproc kinds set {job.kind} --resume"
    if job.kind_paused_code is not None:
        text = f"the brake has paused kind {job.kind}{since} for {job.kind_paused_code}{told}"
        return Reason("kind_braked", text, f"mend that, then: {again}")
    return Reason("kind_paused", f"kind {job.kind} is paused{since}{told}", again)


# -- what the nodes can do


def _of_its_nodes(facts: Waiting, needs_languages: bool, known_here: bool) -> Iterator[Reason]:
    job, nodes = facts.job, [node for node in facts.nodes if not node.is_single]
    if not nodes and not known_here:
        text = f"no node runs, and a run by these settings would pass it over: they have no handler of kind {job.kind}"
        yield Reason("no_handler", text, _ADD_HANDLER)
        return
    if not nodes:
        yield Reason("no_node", "no node runs", "batchproc run, or wait until cron starts one")
        return
    knowing = [node for node in nodes if job.kind in node.kinds]
    if not knowing:
        known = ", ".join(sorted({kind for node in nodes for kind in node.kinds}))
        text = f"no node that runs knows kind {job.kind}; they know {known}"
        yield Reason("kind_unknown", text, _ADD_HANDLER)
        return
    if needs_languages:
        of_tenant = job.tenant_languages or None
        lacking = missing(job.kind, job.languages, of_tenant, [node.able for node in knowing])
        if lacking is not None:
            text = f"no node that runs has {named(lacking)}; soon it is discarded as missing_language"
            yield Reason("language_missing", text, remedy(lacking))
            return
    if not any(node.serves(job) for node in knowing):
        text = f"the {counted(len(knowing), 'node')} that could run it {_serve(knowing)} other jobs only"
        yield Reason("outside_scope", f"{text} (--tenant, --kind or --lane)", "batchproc run")


def _serve(nodes: list[NodeFacts]) -> str:
    return "serves" if len(nodes) == 1 else "serve"


# -- whose turn it is


def _turn(facts: Waiting, max_node_losses: int) -> Iterator[Reason]:
    job, serving = facts.job, _serving(facts)
    if job.state == JobState.SCHEDULED and job.run_at <= job.now:
        yield Reason("promotion_pending", "it is due, and becomes available with the next look of a node", blocks=False)
        return
    if facts.locked:
        text = "somebody holds its row locked in an open transaction: nodes pass over it until that ends"
        yield Reason("locked", text, "see pg_stat_activity for transactions that stay open", blocks=True)
        return
    if job.node_losses >= max(1, max_node_losses - LAST_LOSSES):
        text = (
            f"it was there {job.node_losses} times when a node was lost: it runs alone, once a node's slots are empty"
        )
        yield Reason("alone", text, f"to see what it does: batchproc run --once {job.job_id}", blocks=False)
    yield from _rate(facts)
    yield from _before_it(facts)
    slots, running = sum(node.slots for node in serving), sum(node.running for node in serving)
    if slots and running >= slots:
        text = f"all {counted(slots, 'slot')} of {counted(len(serving), 'node')} are busy"
        yield Reason("slots_busy", text, "more workers: pool.workers, or another node", blocks=False)
    elif facts.ahead is not None and not facts.ahead.jobs:
        yield Reason("next", "nothing keeps it: it is next, with a node's next look", blocks=False)


def _rate(facts: Waiting) -> Iterator[Reason]:
    job = facts.job
    if job.kind_rate is None or (facts.token_seconds is None and not (facts.ahead and facts.ahead.own)):
        return
    text, until = f"kind {job.kind} may begin no faster than {shown_rate(job.kind_rate)}", None
    if facts.token_seconds is not None:
        until = job.now + timedelta(seconds=facts.token_seconds)
        text += f", the next in {duration(facts.token_seconds)}"
    yield Reason("rate", text, f"batchproc kinds set {job.kind} --rate N/s", until, blocks=False)


def _before_it(facts: Waiting) -> Iterator[Reason]:
    job, ahead = facts.job, facts.ahead
    if ahead is None:
        return
    if ahead.interactive:
        text = f"{_many(ahead.interactive)} of the interactive lane wait, which has most of the turns"
        yield Reason("lane", text, "raise dispatch.lanes.bulk in the settings", blocks=False)
    if ahead.own:
        text = f"it is behind {_many(ahead.own)} of {job.tenant}'s in its queue (priority {job.priority})"
        earlier = f"batchproc jobs prioritise {job.job_id}"
        yield Reason("behind", text, earlier, blocks=False)
    if ahead.tenants:
        others, jobs = counted(ahead.tenants, "other tenant"), counted(ahead.of_others, "job")
        turns = "gets its turns" if ahead.tenants == 1 else "get their turns"
        text = f"{others} {turns}, up to {jobs} before it"
        more = f"batchproc tenants set {job.tenant} --weight N"
        yield Reason("other_tenants", text, more, blocks=False)


# -- about when


def _expected_seconds(facts: Waiting, reasons: tuple[Reason, ...]) -> float | None:
    """From now: when it is due, and then its turn by the present rate. None where that would be a guess."""
    job = facts.job
    if job.finished_at is not None or any(reason.blocks and reason.until is None for reason in reasons):
        return None
    due = max([0.0, *((reason.until - job.now).total_seconds() for reason in reasons if reason.until is not None)])
    ahead, own = (0, 0) if facts.ahead is None else (facts.ahead.jobs, facts.ahead.own)
    per_second = _jobs_per_second(facts)
    if per_second is None:
        return due + _MOMENT if not ahead else None
    by_rate = 0.0 if job.kind_rate is None else own / job.kind_rate
    return due + min(_MOMENT, 1 / per_second) + max(ahead / per_second, by_rate)


def _jobs_per_second(facts: Waiting) -> float | None:
    """By what the nodes say of their last minute; of those that have not seen one yet, and of all where in that minute
    nothing ended, by their slots and how long a job of its kind takes."""
    serving = _serving(facts)
    told = sum(node.jobs_per_minute or 0.0 for node in serving) / 60
    slots = sum(node.slots for node in serving if node.jobs_per_minute is None or not told)
    by_slots = slots / facts.seconds if facts.seconds else 0.0
    return told + by_slots or None


def _serving(facts: Waiting) -> list[NodeFacts]:
    return [node for node in facts.nodes if facts.job.kind in node.kinds and node.serves(facts.job)]


def _since(job: JobFacts, then: datetime | None) -> float:
    return 0.0 if then is None else max(0.0, (job.now - then).total_seconds())


def _many(jobs: int) -> str:
    return f"{MOST_AHEAD} jobs or more" if jobs >= MOST_AHEAD else counted(jobs, "job")
