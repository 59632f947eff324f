"""``reprocess --pilot`` and ``campaigns revert`` as a person gives them: with real files, workers and Tesseract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.cli.reprocessing.pilot import Pilot, told
from batchproc.core.job import Lane
from batchproc.database import connect
from batchproc.engine.ready import Scope
from batchproc.ops.campaign_result import collected
from batchproc.ops.estimates import Estimate
from batchproc.ops.reprocessing import Reprocessed
from batchproc.queue.campaign_listing import FailedJobs
from tests.cli.shell import ArchiveShell
from tests.documents.revising import Revising
from tests.documents.revising import page as page_record
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text
from tests.ocr import drawn
from tests.ops.test_campaign_result import READ


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def shell(database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str]) -> PilotShell:
    return PilotShell(database_url, connection, capfd)


class PilotShell(ArchiveShell):
    def __init__(self, url: str, connection: Conn, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(url, connection, capture)
        self.tenant = add_tenant(connection)


def scan(folder: Path, *words: str) -> Path:
    file = folder / f"{words[0]}.tif"
    file.write_bytes(drawn.saved(drawn.page([" ".join(words)]), "TIFF", dpi=(300, 300)))
    return file


@pytest.mark.long
def test_a_pilot_tells_what_would_be_gained_and_lost(shell: PilotShell, connection: Conn, tmp_path: Path) -> None:
    better = add_document(connection, shell.tenant, scan(tmp_path, "contract", "about", "houses"))
    before = add_text(connection, shell.tenant, better, ["contract obout lost mushrooms"])
    broken = tmp_path / "broken.tif"
    broken.write_bytes(b"II*\0 nothing more")
    unreadable = add_document(connection, shell.tenant, broken)
    never = add_document(connection, shell.tenant, scan(tmp_path, "letter", "from", "Weimar"))
    documents = "select document_id, status, current_revision, failure_code from batchproc.documents order by 1"
    as_it_was = shell.sql(documents)

    code, out, err = shell.said("reprocess", "--all", "--pilot", "10")
    assert (code, err) == (0, "")
    after = shell.sql(f"select revision_id from batchproc.ocr_revisions where document_id = {better} order by 1")[-1][0]
    lines = out.splitlines()
    assert lines[:4] == [
        "campaign 1: a pilot of 3 documents, of 3 that fit",
        "read          2 documents, 2 pages, as a pilot: none became current",
        "first texts   1 document, 3 words",
        "words         2 gained, 3 lost of 4",
    ]
    assert "not read      unreadable_file 1" in lines
    assert "most words lost:" in lines
    assert lines[-1] == f"look at one: batchproc documents diff {better} {before} {after}"
    assert all(len(line) <= 80 for line in lines)
    assert shell.sql(documents) == as_it_was, "nothing of the documents has changed"
    assert shell.sql("select distinct kind, lane from batchproc.processing_jobs") == [("ocr", int(Lane.INTERACTIVE))]

    again = shell.json("reprocess", "--document", str(better), "--document", str(never), "--pilot", "1")
    assert (again["campaign_id"], again["fits"], again["enqueued"], again["left"]) == (2, 2, 1, 0)
    assert (again["result"]["documents"], again["result"]["pilots"], again["failures"]) == (1, 1, {})
    assert shell.sql(documents) == as_it_was
    assert unreadable not in {row[0] for row in shell.sql("select document_id from batchproc.ocr_revisions")}


def test_a_pilot_that_is_left_to_the_next_run_only_enqueues(shell: PilotShell, connection: Conn) -> None:
    ids = [add_document(connection, shell.tenant, content=bytes([number])) for number in range(4)]
    found = shell.json("reprocess", "--all", "--pilot", "2", "--no-run")
    assert (found["enqueued"], found["pilot"]) == (2, True)
    jobs = shell.sql("select document_id, args, state from batchproc.processing_jobs")
    assert [(args, state) for _, args, state in jobs] == [({"pilot": True}, "available")] * 2
    assert shell.json("reprocess", "--all", "--pilot", "2", "--no-run")["already_queued"] == 2
    assert shell.json("reprocess", "--all")["enqueued"] == len(ids), "a pilot does not do their work"


def test_what_a_job_has_begun_to_read_is_left_out_and_counted(shell: PilotShell, connection: Conn) -> None:
    """Also where nobody reads it any more: its pages are for whoever reads it next."""
    ids = [add_document(connection, shell.tenant, content=bytes([number])) for number in range(5)]
    begun = b"""
        insert into batchproc.ocr_revisions (tenant_id, document_id, engine, engine_version, data_hash, profile,
                                             languages, source_sha256, page_count, state, pilot)
        values (%s, %s, 'e', '1', 'd', '{}', '{eng}', '', 2, %s, %s)
        """
    for place, state, pilot in ((0, "open", False), (1, "open", True), (2, "abandoned", False)):
        connection.execute(begun, [shell.tenant, ids[place], state, pilot])
    found = shell.json("reprocess", "--all", "--pilot", "5", "--dry-run")
    assert (found["enqueued"], found["left_alone"]) == (4, {"begun": 1})
    code, out, _ = shell.said("reprocess", "--all", "--pilot", "5", "--no-run")
    assert code == 0
    assert "1 left alone: it has begun to be read by a job, whose pages a pilot does not take" in out.splitlines()
    assert shell.sql("select document_id from batchproc.processing_jobs order by 1") == [(one,) for one in ids[1:]]
    only = shell.json("reprocess", "--document", str(ids[0]), "--pilot", "5", "--no-run")
    assert (only["enqueued"], only["left_alone"]) == (0, {"begun": 1})
    assert shell.json("reprocess", "--document", str(ids[0]))["enqueued"] == 1, "which goes on with them"


def test_what_is_left_out_is_told_with_the_result() -> None:
    done = Reprocessed(enqueued=2, campaign_id=7, left_alone=Counter(begun=3))
    line = "left out      3 that a job has begun to read, and not ended"
    whole = Estimate(2, 0, None, 1, None)
    assert line in told(Pilot(done, 2, Scope()), collected([READ]), [], 0, whole)
    nothing = Pilot(Reprocessed(left_alone=Counter(begun=3)), 0, Scope())
    assert told(nothing, collected([]), [], 0, whole)[-1] == line


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pilot", "5", "--kind", "classify"),
        ("--pilot", "5", "--limit", "2"),
        ("--pilot", "0"),
        ("--no-run",),
    ],
)
def test_what_does_not_go_together_is_refused(shell: PilotShell, arguments: tuple[str, ...]) -> None:
    code, out, err = shell.said("reprocess", "--all", *arguments)
    assert (code, out) == (2, "")
    assert "--pilot" in err


def test_no_pilot_is_made_while_a_node_of_an_older_release_lives(shell: PilotShell, connection: Conn) -> None:
    add_document(connection, shell.tenant)
    connection.execute(
        """
        insert into batchproc.nodes (node_id, lease_until, host, pid, slots, kinds, languages, code_version)
        values (gen_random_uuid(), clock_timestamp() + interval '1 hour', 'alter', 17, 1, '{ocr}', '{eng}', '0.0.1')
        """
    )
    code, _, err = shell.said("reprocess", "--all", "--pilot", "5")
    assert code == 2
    assert "a node on alter, process 17, is of release 0.0.1" in err
    assert shell.sql("select * from batchproc.processing_jobs") == []


def test_what_is_told_fits_a_screen_and_says_what_is_left() -> None:
    done = Reprocessed(enqueued=200, campaign_id=7)
    result = collected([READ] * 100)
    result.words_gained, result.words_lost = 812, 95
    failed = [FailedJobs("acme", "ocr", "encrypted", 3), FailedJobs("beta", "ocr", "encrypted", 1)]
    whole = Estimate(31_944, 45, 18_540.0, 8, 2317.5, 0.58)
    lines = told(Pilot(done, 12_345, Scope()), result, failed, 96, whole)
    assert lines[0] == "campaign 7: a pilot of 200 documents, of 12,345 that fit"
    assert lines[-6:] == [
        "not read      encrypted 4",
        "still to read 96: batchproc run, then batchproc campaigns show 7",
        "all that fit  about 100,000 words gained, 12,000 lost",
        "              31,944 pages, 5 h 09 min of one worker (0.58 s a page lately)",
        "              45 documents have not been read, and count as others do",
        "              about 39 min with 8 workers and nothing else to do",
    ]
    unread = told(Pilot(done, 12_345, Scope()), collected([]), failed, 96, whole)
    assert unread[-3] == "all that fit  31,944 pages, 5 h 09 min of one worker (0.58 s a page lately)"
    assert all(len(line) <= 80 for line in lines)


def test_where_nothing_is_to_be_read_that_is_told() -> None:
    waiting = Reprocessed(already_queued=2)
    assert told(Pilot(waiting, 2, Scope()), collected([]), [], 0, Estimate(2, 0, None, 1, None)) == [
        "no documents to read as a pilot; 2 wait as another pilot's"
    ]


class TestRevert:
    @pytest.fixture
    def read(self, shell: PilotShell, connection: Conn) -> list[Revising]:
        """21 documents that campaign 1 has read again."""
        connection.execute("insert into batchproc.campaigns (command) values ('reprocess --all')")
        documents = []
        for number in range(21):
            document = Revising(
                connection, shell.tenant, add_document(connection, shell.tenant, content=bytes([number]))
            )
            document.read(page_record("old"))
            document.read(page_record("new"))
            documents.append(document)
        connection.execute("update batchproc.ocr_revisions set campaign_id = 1 where verdict = 'newest'")
        return documents

    def test_it_counts_asks_and_reverts(self, shell: PilotShell, read: list[Revising]) -> None:
        assert shell.json("campaigns", "revert", "1", "--dry-run") == {
            "campaign_id": 1,
            "reverted": 21,
            "stays": {},
            "classify_campaign_id": None,
            "classify_jobs": 0,
            "dry_run": True,
        }
        code, _, err = shell.said("campaigns", "revert", "1")
        assert code == 2
        assert "21 documents would be reverted: look at them with --dry-run, then give --yes" in err
        assert read[0].row()[0] == read[0].left()[1]
        code, out, err = shell.said("campaigns", "revert", "1", "--yes")
        assert (code, err) == (0, ""), "the log tells the same"
        assert out.splitlines() == [
            "campaign 1: 21 documents got the text back that they had before",
            "21 classify jobs follow, as campaign 2: batchproc run",
        ]
        assert [document.row()[0] for document in read] == [document.left()[0] for document in read]
        assert shell.json("campaigns", "revert", "1")["reverted"] == 0

    def test_what_stays_is_told(self, shell: PilotShell, read: list[Revising]) -> None:
        shell.sql("delete from batchproc.processing_jobs returning 1")
        document = read[3].document_id
        assert shell.said("documents", "restore", str(document), str(read[3].left()[0]))[0] == 0
        assert shell.said("documents", "restore", str(document), str(read[3].left()[1]))[0] == 0
        _, out, _ = shell.said("campaigns", "revert", "1", "--yes")
        assert out.splitlines()[:2] == [
            "campaign 1: 20 documents got the text back that they had before",
            "1 keeps a text that a person chose",
        ]

    def test_an_unknown_campaign_is_told(self, shell: PilotShell) -> None:
        code, _, err = shell.said("campaigns", "revert", "99")
        assert code == 2
        assert "there is no campaign 99" in err
