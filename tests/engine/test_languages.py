"""Languages in whole runs: who reads what, and what is given up on when nobody can."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane, NewJob
from batchproc.documents.store import DocumentStore, NewDocument
from batchproc.engine.news import NewsBox
from batchproc.engine.node import RunOptions
from batchproc.engine.ready import Scope
from batchproc.engine.unserved import GivingUp
from batchproc.handlers import registry
from batchproc.ocr import detection
from batchproc.ocr.tessdata import default_folder
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.engine.running import Bench, only
from tests.ocr.drawn import ENGLISH, page, saved
from tests.waiting import wait_until

SPEC = registry.load()["ocr"].spec
QUICK = {"lease": 1.0}  # and so the patience


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    file = tmp_path / "archive" / "scan.png"
    file.parent.mkdir()
    file.write_bytes(saved(page(ENGLISH), "PNG"))
    return file


@pytest.fixture
def english_only(tmp_path: Path) -> Path:
    """A folder of language files with English alone."""
    folder = tmp_path / "tessdata"
    folder.mkdir()
    (folder / "eng.traineddata").symlink_to(default_folder() / "eng.traineddata")
    return folder


def speaks(bench: Bench, slug: str, *languages: str) -> None:
    bench.jobs.set_tenant(bench.connection, slug, settings={"languages": list(languages) or None})


def document(bench: Bench, tenant: int, scan: Path, language: str | None = None) -> int:
    """A document of its own, with the job of its import."""
    content = scan.read_bytes()
    copy = scan.with_name(f"{len(list(scan.parent.iterdir()))}.png")
    copy.write_bytes(content + bytes(len(copy.name)) + copy.name.encode())
    digest = hashlib.sha256(copy.read_bytes()).digest()
    store = DocumentStore("batchproc", tenant_id=tenant)
    new = NewDocument(os.fsencode(copy.parent), os.fsencode(copy.name), digest, copy.stat().st_size, None, language)
    return store.register(bench.connection, new).document_id


def read(bench: Bench, tenant: int, scan: Path, language: str | None = None, **args: Any) -> int:
    job = NewJob(tenant, "ocr", args, document_id=document(bench, tenant, scan, language))
    return bench.jobs.enqueue(bench.connection, job, SPEC).job_id


def outcome(bench: Bench, job_id: int) -> tuple[Any, ...]:
    job = bench.job(job_id)
    return job["state"], job["failure_code"], job["attempt"], len(job["attempts"])


GIVEN_UP = ("discarded", "missing_language", 0, 0)


def test_what_nobody_can_read_is_given_up_on_and_the_run_tells(bench: Bench, scan: Path, english_only: Path) -> None:
    acme, other = bench.tenant("acme"), bench.tenant("other")
    speaks(bench, "other", "fra", "eng")
    plain, hinted, asked, of_tenant = (
        read(bench, acme, scan),
        read(bench, acme, scan, "deu"),
        read(bench, acme, scan, languages=["deu", "eng"]),
        read(bench, other, scan),
    )

    report = bench.run(dispatch=QUICK, ocr={"languages": ["eng"], "tessdata": [str(english_only)]})

    assert outcome(bench, plain) == ("completed", None, 1, 1)
    assert [outcome(bench, job_id) for job_id in (hinted, asked, of_tenant)] == [GIVEN_UP] * 3
    assert report.counts.plain()["discarded"] == 3
    assert (report.counts.codes, report.exit_code, report.left) == ({"missing_language": 3}, 1, 0)
    assert report.counts.claimed == 2, "one was read, and classified: for the others no worker was started"
    failed = bench.rows("select failure_code, count(*) from batchproc.documents where status = 'failed' group by 1")
    assert failed == [("missing_language", 3)]
    assert bench.job(of_tenant)["result"] == {"missing_languages": ["fra"]}
    again = bench.run(dispatch=QUICK, ocr={"languages": ["eng"], "tessdata": [str(english_only)]})
    assert (again.counts.claimed, again.exit_code) == (0, 0)


@pytest.mark.long
def test_a_run_gives_up_only_what_is_in_its_scope(bench: Bench, scan: Path) -> None:
    acme, other = bench.tenant("acme"), bench.tenant("other")
    mine, theirs = (read(bench, tenant, scan, "xyz") for tenant in (acme, other))
    report = bench.run(RunOptions(workers=1, scope=only(acme)), dispatch=QUICK)
    assert (report.counts.discarded, report.exit_code) == (1, 1)
    assert outcome(bench, mine) == GIVEN_UP
    assert outcome(bench, theirs) == ("available", None, 0, 0)


def test_a_run_does_not_wait_for_what_it_may_not_give_up(bench: Bench, scan: Path) -> None:
    acme, other, paused = bench.tenant("acme"), bench.tenant("other"), bench.tenant("paused")
    theirs = [read(bench, tenant, scan, "xyz") for tenant in (other, paused)]
    bench.jobs.set_tenant(bench.connection, "paused", paused=True)
    bulk = Scope(frozenset([acme, paused]), lanes=frozenset([1]))
    elsewhere = NewJob(acme, "ocr", document_id=document(bench, acme, scan, "xyz"), lane=Lane.INTERACTIVE)
    theirs.append(bench.jobs.enqueue(bench.connection, elsewhere, SPEC).job_id)
    report = bench.run(RunOptions(workers=1, scope=bulk), dispatch=QUICK | {"drain_wait": 60})
    assert report.seconds < 20, "not until it gives in"
    assert (report.counts.claimed, report.counts.discarded, report.exit_code) == (0, 0, 0)
    assert bench.states(theirs) == {"available": 3}


@pytest.mark.parametrize(
    "scope",
    [{"tenant_ids": frozenset([10**6])}, {"lanes": frozenset([0])}, {"kinds": frozenset(["classify"])}, {}],
)
def test_only_what_can_be_given_up_is_waited_for(bench: Bench, scan: Path, scope: dict[str, frozenset[Any]]) -> None:
    read(bench, bench.tenant("acme"), scan, "xyz")
    specs = {name: entry.spec for name, entry in registry.load().items()}
    store = NodeStore("batchproc", uuid4(), specs, languages=["eng"], default_languages=["eng"])
    facts = NodeFacts(store.node_id, "host", 1, 1, tuple(specs), ("eng",), "", "", ("eng",))
    store.join(bench.connection, facts, 60)
    with closing(NewsBox()) as news:
        giving_up = GivingUp(store, news, Scope(**scope), run_id=1)
        assert giving_up.has_to_wait(bench.connection) is (not scope)
        bench.jobs.set_tenant(bench.connection, "acme", paused=True)
        assert not giving_up.has_to_wait(bench.connection)


def test_the_brake_holds_across_tenants(bench: Bench, scan: Path) -> None:
    for tenant in [bench.tenant(slug) for slug in ("a", "b", "c")]:
        for _ in range(3):
            read(bench, tenant, scan, "xyz")
    specs = {"ocr": SPEC}
    store = NodeStore("batchproc", uuid4(), specs, languages=["eng"], default_languages=["eng", "deu"])
    facts = NodeFacts(store.node_id, "host", 1, 1, ("ocr",), ("eng",), "", "", ("eng", "deu"))
    store.join(bench.connection, facts, 60)
    run_id = store.runs.start(bench.connection, store.node_id, {})
    with closing(NewsBox()) as news:
        giving_up = GivingUp(store, news, Scope(), run_id, patience=0, brake=2, own_lacking=["deu"])
        giving_up.look(bench.connection, Event())
    assert bench.rows("select count(*) from batchproc.processing_jobs where state = 'discarded'") == [(2,)]


def test_who_looks_at_one_job_gives_up_no_other(bench: Bench, scan: Path) -> None:
    waiting = read(bench, bench.tenant("acme"), scan, "xyz")
    report = bench.run(RunOptions(workers=1, max_jobs=1, once=True), dispatch=QUICK)
    assert (report.counts.claimed, report.exit_code) == (0, 0)
    assert outcome(bench, waiting) == ("available", None, 0, 0)


def test_where_the_node_lacks_its_own_languages_the_brake_stops_giving_up(
    bench: Bench, scan: Path, tmp_path: Path
) -> None:
    tenant = bench.tenant("acme")
    jobs = [read(bench, tenant, scan) for _ in range(12)]
    empty = tmp_path / "not-mounted"
    empty.mkdir()

    report = bench.run(dispatch=QUICK | {"brake": 3}, ocr={"tessdata": [str(empty)]})

    assert [braked.code for braked in report.braked] == ["missing_language"]
    assert report.exit_code == 3
    given_up = bench.states(jobs).get("discarded", 0)
    assert 3 <= given_up <= 9, "what was begun before the pause was known, not all twelve"
    assert bench.states(jobs)["available"] == 12 - given_up


@pytest.mark.skipif(detection.is_installed(), reason="languages can be detected here")
def test_settings_that_ask_for_detection_where_there_is_none_are_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"pip install lingua-language-detector"):
        bench.run(ocr={"languages": ["auto", "eng", "deu"]})


# -- two nodes


@contextmanager
def another_node(bench: Bench, tmp_path: Path, ocr: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node of another machine, so to speak, that has joined and goes on until it is stopped."""
    conf = tmp_path / "another.yaml"
    conf.write_text(f"dispatch: {{poll_interval: 0.2, lease: 20}}\npool: {{workers: 1}}\nocr: {ocr}\n")
    command = [sys.executable, "-m", "batchproc", "--conf", str(conf), "run", "--forever"]
    started = subprocess.Popen(
        command, env={**os.environ, "BATCHPROC_DATABASE_URL": bench.url}, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: bench.rows("select count(*) from batchproc.nodes") == [(1,)], 30, "the node joins")
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(30)


@pytest.mark.long
def test_of_two_nodes_the_one_that_has_the_language_reads(
    bench: Bench, scan: Path, english_only: Path, tmp_path: Path
) -> None:
    tenant = bench.tenant("acme")
    english = {"languages": ["eng"], "tessdata": [str(english_only)]}
    with another_node(bench, tmp_path, f"{{languages: [eng], tessdata: [{english_only}]}}"):
        [[unable]] = bench.rows("select node_id from batchproc.nodes")
        bench.jobs.set_tenant(bench.connection, "acme", paused=True)
        german = [read(bench, tenant, scan, "deu+eng") for _ in range(3)]
        bench.jobs.set_tenant(bench.connection, "acme", paused=False)
        report = bench.run(RunOptions(workers=1), dispatch=QUICK)
        # The other one may have begun to count its patience before this one joined, but not to its end.
        assert report.counts.discarded == 0
        assert bench.states(german) == {"completed": 3}
        readers = "select distinct node_id from batchproc.job_attempts where job_id = any(%s)"
        assert (unable,) not in bench.rows(readers, german)
    # The other way round: the run that lacks it leaves the job to the node that has it, and does not wait for it.
    with another_node(bench, tmp_path, "{languages: [eng]}"):
        bench.jobs.set_tenant(bench.connection, "acme", paused=True)
        theirs = read(bench, tenant, scan, "deu")
        report = bench.run(RunOptions(workers=1), dispatch=QUICK, ocr=english)
        assert (report.counts.claimed, report.counts.discarded) == (0, 0)
        bench.jobs.set_tenant(bench.connection, "acme", paused=False)
        wait_until(lambda: bench.job(theirs)["state"] == "completed", 30, "the node that has it reads it")


def test_a_run_ends_although_jobs_wait_for_another_nodes_languages(
    bench: Bench, scan: Path, english_only: Path, tmp_path: Path
) -> None:
    tenant = bench.tenant("acme")
    waiting = read(bench, tenant, scan, "deu")
    # It lives, has German, and does other things.
    bench.connection.execute(
        "insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)"
        " values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'h', 1, 1, '{ocr}', '{deu,eng}', '1')"
    )
    own = read(bench, tenant, scan)
    report = bench.run(dispatch=QUICK, ocr={"languages": ["eng"], "tessdata": [str(english_only)]})
    assert (report.counts.discarded, report.exit_code, report.left) == (0, 0, 1)
    assert outcome(bench, own)[0] == "completed"
    assert outcome(bench, waiting) == ("available", None, 0, 0)
    bench.connection.execute("delete from batchproc.nodes")
