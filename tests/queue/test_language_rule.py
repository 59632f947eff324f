"""The SQL that says which jobs a node is able to do says what ``core.languages`` says, for all small cases."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import KindSpec, NewJob
from batchproc.core.languages import Able, missing
from batchproc.queue.inspection_run import RunInspection
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.queue.helpers import STORE, Conn, add_tenant, claim, queue_of

READ = {"work": KindSpec("work", needs_languages=True)}
ASKED = [None, ["auto"], ["eng"], ["auto", "eng"], ["fra"], ["eng", "fra"]]
OF_TENANT = [None, ["auto"], ["eng"], ["auto", "eng"], ["fra"]]
OWN = [("eng",), ("auto", "eng"), ("eng", "fra")]
HAVE = [have for count in range(4) for have in combinations(("auto", "eng", "fra"), count)]
NODES = list(product(HAVE, OWN))
EVERYTHING: dict[str, Any] = {"tenant_ids": [], "kinds": [], "lanes": []}

Jobs = dict[int, tuple[list[str] | None, list[str] | None]]
"""What each job asks for, and its tenant."""


@pytest.fixture
def jobs(connection: Conn) -> Jobs:
    made: Jobs = {}
    for place, of_tenant in enumerate(OF_TENANT):
        tenant = add_tenant(connection, f"t{place}")
        STORE.set_tenant(connection, f"t{place}", settings={"languages": of_tenant})
        for asked in ASKED:
            new = NewJob(tenant, "work", {"languages": asked} if asked else {})
            made[STORE.enqueue(connection, new, READ["work"]).job_id] = asked, of_tenant
    return made


def joined(connection: Conn, have: tuple[str, ...], own: tuple[str, ...]) -> NodeStore:
    store = NodeStore("batchproc", uuid4(), READ, languages=have, default_languages=own)
    store.join(connection, NodeFacts(store.node_id, "host", 1, 2, ("work",), have, "", "", own), 3600)
    return store


def able(have: tuple[str, ...], own: tuple[str, ...]) -> Able:
    return Able(frozenset(["work"]), frozenset(have), own)


def claims(connection: Conn, store: NodeStore, jobs: Jobs, *, limited: bool) -> set[int]:
    tenants = [row[0] for row in connection.execute("select tenant_id from batchproc.tenants").fetchall()]
    turns = [Turn(queue_of(tenant), len(jobs)) for tenant in tenants]
    return {found.job_id for found in claim(connection, store, *turns, limited=limited)}


def one_by_one(connection: Conn, store: NodeStore, jobs: Jobs, *, within_limits: bool) -> set[int]:
    return {job for job in jobs if store.claim_one(connection, job, None, within_limits=within_limits) is not None}


def retries(connection: Conn, store: NodeStore, jobs: Jobs) -> set[int]:
    """Those that count as retries which the run waits for, each looked at alone."""
    run_id, found = store.runs.start(connection, store.node_id, {}), set()
    for job in jobs:
        with connection.transaction(force_rollback=True):
            connection.execute(
                "update batchproc.processing_jobs set state = 'scheduled', run_id = %s, failure_code = 'own_code'"
                " where job_id = %s",
                [run_id, job],
            )
            shown = RunInspection("batchproc", able=store.able).retries(connection, run_id, 600)
            waits = store.undrained(connection, run_id, 600)[0] == 1
            assert (shown.jobs, shown.next_seconds is not None) == (1, waits), (
                "the display names what the run waits for"
            )
            if waits:
                found.add(job)
    return found


@pytest.mark.parametrize("statement", ["claim", "claim_limited", "claim_one", "claim_one_within_limits", "undrained"])
def test_a_node_is_able_to_do_what_the_rule_says(connection: Conn, jobs: Jobs, statement: str) -> None:
    looks = {
        "claim": lambda store: claims(connection, store, jobs, limited=False),
        "claim_limited": lambda store: claims(connection, store, jobs, limited=True),
        "claim_one": lambda store: one_by_one(connection, store, jobs, within_limits=False),
        "claim_one_within_limits": lambda store: one_by_one(connection, store, jobs, within_limits=True),
        "undrained": lambda store: retries(connection, store, jobs),
    }
    for have, own in NODES:
        expected = {job for job, (asked, of_tenant) in jobs.items() if not able(have, own).lacks(asked, of_tenant)}
        with connection.transaction(force_rollback=True):
            assert looks[statement](joined(connection, have, own)) == expected, (have, own)


def test_what_is_given_up_is_what_no_single_node_can_do(connection: Conn, jobs: Jobs) -> None:
    for first, second in combinations(NODES[::2], 2):
        nodes = [able(*first), able(*second)]
        expected = {job for job, levels in jobs.items() if missing("work", *levels, nodes)}
        with connection.transaction(force_rollback=True):
            store, _ = joined(connection, *first), joined(connection, *second)
            gaps = store.gaps(connection, EVERYTHING)
            run_id = store.runs.start(connection, store.node_id, {})
            taken = [store.give_up_unserved(connection, gap, run_id=run_id, limit=100) for gap in gaps]
        assert {job.job_id for found in taken for job in found} == expected, (first, second)
        assert all(taken), "each gap can be taken"
