"""``documents history``, ``diff``, ``restore`` and ``show`` as a person or a script calls them."""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batchproc.core.job import NewJob
from batchproc.database import connect
from batchproc.queue.store import JobStore
from tests.cli.shell import Shell
from tests.documents.revising import FAILED, SPEC, Revising, page
from tests.engine.running import Bench
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text
from tests.ocr import drawn

KEYS = [
    *("revision_id", "state", "current", "source", "engine", "engine_version", "data_hash", "languages", "mode"),
    *("profile", "source_sha256", "page_count", "done_pages", "failed_pages", "words", "characters", "confidence"),
    *("seconds", "node_id", "job_id", "created_at", "completed_at", "verdict", "restored_at", "restored_by"),
    "kept_versions",
]
JOBS = JobStore("batchproc")
WHO = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def document(connection: Conn) -> Revising:
    tenant = add_tenant(connection, "acme")
    return Revising(connection, tenant, add_document(connection, tenant))


@pytest.fixture
def shell(database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(database_url, capfd)


def test_history_tells_of_each_revision(shell: Shell, document: Revising) -> None:
    first, _ = document.read(page("one two", 91.25), FAILED)
    second, _ = document.read(page("one"), page("two"))
    document.abandon()
    opened = document.begin(7)
    found = shell.json("documents", "history", document.document_id)
    assert (found["document_id"], found["next"]) == (document.document_id, None)
    assert [list(row) for row in found["revisions"]] == [KEYS] * 4
    row = found["revisions"][0]
    assert (row["revision_id"], row["current"], row["verdict"], row["failed_pages"]) == (first, False, "first", 1)
    assert (row["mode"], row["confidence"], row["source_sha256"]) == ("skip", 91.25, SPEC.source_sha256.hex())
    assert [row["state"] for row in found["revisions"]] == ["complete", "complete", "abandoned", "open"]

    assert shell.run("documents", "history", document.document_id) == 0
    assert f"revision {first}  complete (first)\n" in shell.out
    assert f"revision {second}  complete, current (newest)\n" in shell.out
    assert f"revision {opened}  open\n" in shell.out
    assert (
        "  tesseract 5.5, eng+deu, data hash, dpi 300, mode skip\n  2 pages, 1 failed, 2 words, confidence 91.2\n"
        in shell.out
    )
    assert "  0 of 7 pages, 0 failed, 0 words\n" in shell.out
    assert max(map(len, shell.out.splitlines())) <= 80

    part = shell.json("documents", "history", document.document_id, "--limit", 1, "--after", first)
    assert ([row["revision_id"] for row in part["revisions"]], part["next"]) == ([second], second)


def test_history_shows_as_much_of_a_hash_as_chooses_documents_by_it(shell: Shell, document: Revising) -> None:
    revision = document.begin(1, replace(SPEC, data_hash="0123456789abcdef" * 4))
    document.write(revision, 1, page("one"))
    document.complete(revision)
    assert shell.run("documents", "history", document.document_id) == 0
    assert "  1 page, 0 failed, 1 word, confidence 90.0\n" in shell.out
    [data] = re.findall(r", data (\w+),", shell.out)
    assert data == "0123456789ab"
    chosen = shell.json("reprocess", "--data-hash", data, "--mode", "force", "--dry-run")
    assert chosen["selected"] == 1


def test_history_tells_of_pages_that_another_engine_had_read(shell: Shell, document: Revising) -> None:
    old, _ = document.read(page("one two", 91.25), FAILED)
    newer = document.begin(2, replace(SPEC, engine_version="6.0"))
    document.store.keep_pages(document.connection, newer, old)
    document.write(newer, 2, page("three"))
    document.complete(newer)
    found = shell.json("documents", "history", document.document_id)
    assert [row["kept_versions"] for row in found["revisions"]] == [None, ["5.5"]]
    shell.run("documents", "history", document.document_id)
    assert shell.out.count("  with pages taken over that tesseract 5.5 had read\n") == 1


def test_history_names_what_a_person_did(shell: Shell, connection: Conn, document: Revising) -> None:
    typed = add_text(connection, add_tenant(connection, "acme"), document.document_id, ["typed"], source="person")
    read, _ = document.read(page("read"))
    assert shell.run("documents", "restore", document.document_id, read) == 0
    assert shell.run("documents", "history", document.document_id) == 0
    assert f"revision {typed}  complete\n  made by a person\n" in shell.out
    assert f"revision {read}  complete, current (restored)\n" in shell.out
    assert f" by {WHO}\n" in shell.out


def test_a_document_that_was_not_read_has_no_history(shell: Shell, document: Revising) -> None:
    assert shell.json("documents", "history", document.document_id)["revisions"] == []
    assert shell.run("documents", "history", document.document_id) == 0
    assert (shell.out, shell.err) == ("", f"document {document.document_id} was not read yet\n")


@pytest.mark.parametrize("command", [["history"], ["diff"], ["restore"], ["show"], ["text"]])
def test_an_unknown_document_is_named(shell: Shell, command: list[str]) -> None:
    more = ["1"] if command == ["restore"] else []
    assert shell.run("documents", *command, 999, *more) == 2
    assert shell.err == "batchproc: there is no document 999: see: batchproc documents list\n"


def test_diff_counts_words_by_page_and_in_sum(shell: Shell, document: Revising) -> None:
    old, _ = document.read(page("alpha bravo bravo"), page("same"), page("delta"))
    new, _ = document.read(page("alpha br4vo"), page("same"), page("delta bravo \x1b[31m"))
    found = shell.json("documents", "diff", document.document_id)
    assert found == {
        "document_id": document.document_id,
        "old": old,
        "new": new,
        "lost": 1,
        "gained": 2,
        "lost_words": {"bravo": 1},
        "gained_words": {"\x1b[31m": 1, "br4vo": 1},
        "pages": [
            {"page": 1, "lost": 2, "gained": 1, "lost_words": {"bravo": 2}, "gained_words": {"br4vo": 1}},
            {"page": 3, "lost": 0, "gained": 2, "lost_words": {}, "gained_words": {"\x1b[31m": 1, "bravo": 1}},
        ],
    }
    assert shell.run("documents", "diff", document.document_id, new, old, "--lines") == 0
    assert shell.out == (
        f"document {document.document_id}, revision {new} to {old}: 2 words lost, 1 gained\n"
        "\n"
        "page  lost  gained\n"
        "   1     1       2\n"
        "   3     2       0\n"
        "\n"
        "lost:\n"
        "  and 2 that look like noise; --all names them\n"
        "\n"
        "gained:\n"
        "  bravo\n"
        "\n"
        "page 1\n"
        "@@ -1 +1 @@\n"
        "-alpha br4vo\n"
        "+alpha bravo bravo\n"
        "\n"
        "page 3\n"
        "@@ -1 +1 @@\n"
        "-delta bravo \\x1b[31m\n"
        "+delta\n"
    )


def test_diff_names_what_a_person_cares_about_first(shell: Shell, document: Revising) -> None:
    document.read(page("~ ~ ~ | a ll 4Rn7l RE-2024/17 1.204,50 1.204,50 Rechnung Betrag Betrag \x1b[31m"))
    document.read(page("nichts"))
    assert shell.run("documents", "diff", document.document_id) == 0
    lost = "\nlost:\n  Betrag (2x)  Rechnung  1.204,50 (2x)  RE-2024/17\n"
    assert f"{lost}  and 8 that look like noise; --all names them\n\ngained:\n  nichts\n" in shell.out
    assert shell.run("documents", "diff", document.document_id, "--all") == 0
    assert f"{lost}  like noise: ~ (3x)  \\x1b[31m  4Rn7l  a  ll  |\n\ngained:\n  nichts\n" in shell.out
    found = shell.json("documents", "diff", document.document_id)
    assert shell.json("documents", "diff", document.document_id, "--all") == found
    assert list(found["lost_words"].items())[:3] == [("~", 3), ("1.204,50", 2), ("Betrag", 2)]
    assert sum(found["lost_words"].values()) == found["lost"] == 14


def test_what_diff_names_is_bounded(shell: Shell, document: Revising) -> None:
    document.read(page(" ".join(f"word{number:03}" for number in range(200)) + " " + "xo" * 2500))
    document.read(page("nothing"))
    found = shell.json("documents", "diff", document.document_id, "--words", 3)
    assert (found["lost"], found["lost_words"]) == (201, {"word000": 1, "word001": 1, "word002": 1})
    assert shell.run("documents", "diff", document.document_id) == 0
    assert "and 151 more" in shell.out
    assert max(map(len, shell.out.splitlines())) <= 80
    assert shell.json("documents", "diff", document.document_id, "--words", 0)["gained_words"] == {}
    everything = shell.json("documents", "diff", document.document_id, "--words", 1000)["lost_words"]
    assert max(map(len, everything)) == 100


def test_equal_revisions_do_not_differ(shell: Shell, document: Revising) -> None:
    old, _ = document.read(page("alpha bravo"))
    new, _ = document.read(page("bravo alpha"))
    assert shell.run("documents", "diff", document.document_id, old) == 0
    assert shell.out == f"document {document.document_id}, revision {old} to {new}: 0 words lost, 0 gained\n"


def test_diff_says_what_is_missing(shell: Shell, document: Revising) -> None:
    assert shell.run("documents", "diff", document.document_id) == 2
    assert f"has no two revisions to compare: see: batchproc documents history {document.document_id}" in shell.err
    document.read(page("one"))
    assert shell.run("documents", "diff", document.document_id, 12345) == 2
    assert f"document {document.document_id} has no revision 12345" in shell.err
    newest, _ = document.read(page("two"))
    assert shell.run("documents", "diff", document.document_id, newest - 1, newest) == 0
    assert shell.run("documents", "diff", document.document_id, 0, newest) == 2
    assert shell.run("documents", "diff", document.document_id, -1, newest) == 2


def test_restore_makes_it_current_and_classifies(shell: Shell, connection: Conn, document: Revising) -> None:
    first, _ = document.read(page("one"))
    second, _ = document.read(page("two"))
    done = shell.json("documents", "restore", document.document_id, first)
    assert done == {
        "document_id": document.document_id,
        "revision": first,
        "before": second,
        "job_id": done["job_id"],
    }
    jobs = "select job_id, kind, document_id, lane, state from batchproc.processing_jobs"
    classify = (done["job_id"], "classify", document.document_id, 0, "available")
    assert connection.execute(jobs).fetchall() == [classify]
    assert shell.json("documents", "text", document.document_id)["pages"] == ["one"]
    assert shell.run("documents", "restore", document.document_id, first) == 0
    assert shell.out == f"revision {first} is the current one already\n"
    assert shell.run("documents", "restore", document.document_id, second) == 0
    assert shell.out.startswith(f"revision {second} is current again, instead of {first}; job {done['job_id']} ")
    assert shell.err == "", "the log tells the same"
    assert connection.execute(jobs).fetchall() == [classify], "the one that waits reads the text that counts then"
    assert shell.run("--verbose", "documents", "restore", document.document_id, first) == 0
    assert f"document {document.document_id} of tenant acme: revision {first} restored by {WHO}" in shell.err


def test_a_text_is_set_by_hand(shell: Shell, connection: Conn, document: Revising, tmp_path: Path) -> None:
    read, _ = document.read(page("Rechmung"), page("two"))
    file = tmp_path / "text"
    assert shell.run("documents", "text", document.document_id) == 0
    file.write_text(shell.out.replace("Rechmung", "Rechnung"), encoding="utf-8")
    done = shell.json("documents", "text", document.document_id, "--set", file)
    assert list(done) == ["document_id", "revision", "before", "job_id"]
    assert shell.err == "", "the log tells the same"
    assert done["before"] == read
    assert shell.json("documents", "text", document.document_id)["pages"] == ["Rechnung", "two\n"]
    assert shell.json("documents", "diff", document.document_id)["gained_words"] == {"Rechnung": 1}
    jobs = connection.execute("select job_id, kind from batchproc.processing_jobs").fetchall()
    assert jobs == [(done["job_id"], "classify")]
    assert shell.run("documents", "history", document.document_id) == 0
    assert f"revision {done['revision']}  complete, current (typed)\n  made by a person\n" in shell.out
    assert f"typed by {WHO}\n" in shell.out
    assert document.read(page("read"), page("again"))[1] == "person"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"one page", "the text has 1 pages, document 1 has 2: pages are separated by form feeds"),
        (b" \n", "the text is empty"),
        (b"one\n\0\x0ctwo", "the text holds a NUL character on line 2, as no text does"),
        (b"caf\xe9\x0ctwo", "the text is not UTF-8: byte 3 cannot be read"),
    ],
)
def test_a_text_that_cannot_be_the_documents_is_refused(
    shell: Shell, document: Revising, tmp_path: Path, text: bytes, message: str
) -> None:
    read, _ = document.read(page("one"), page("two"))
    (tmp_path / "text").write_bytes(text)
    assert shell.run("documents", "text", document.document_id, "--set", tmp_path / "text") == 2
    assert message in shell.err
    assert document.left() == [read]


def test_restore_refuses_what_was_not_completed(shell: Shell, connection: Conn, document: Revising) -> None:
    done, _ = document.read(page("text"))
    abandoned = document.abandon()
    opened = document.begin(1)
    for revision_id, reason in ((abandoned, "was never completed"), (opened, "is still being read")):
        assert shell.run("documents", "restore", document.document_id, revision_id) == 2
        assert f"revision {revision_id} {reason}" in shell.err
    assert document.row()[0] == done
    assert connection.execute("select count(*) from batchproc.processing_jobs").fetchone() == (0,)


def test_show_names_failed_pages_and_how_pages_were_read(shell: Shell, document: Revising) -> None:
    document.read(page("one"), FAILED)
    shown = shell.json("documents", "show", document.document_id)
    assert (shown["failed_page_count"], shown["failed_pages"]) == (1, [{"page": 2, "code": "stalled"}])
    assert shown["pages"][0]["dpi"] == 300
    assert shown["pages"][0].keys() >= {"skew", "dpi_estimated", "languages", "engine_calls", "kept_from"}
    assert shell.run("documents", "show", document.document_id) == 0
    assert "\nfailed_pages       2 stalled\n" in shell.out


def test_times_of_pages_and_revisions_are_readable(shell: Shell, connection: Conn, document: Revising) -> None:
    document.read(page("one"), page("two"))
    connection.execute("update batchproc.ocr_pages set seconds = case page when 1 then 0.001823 else 150.4 end")
    assert [row["seconds"] for row in shell.json("documents", "show", document.document_id)["pages"]] == [
        pytest.approx(0.001823),
        pytest.approx(150.4),
    ]
    assert shell.run("documents", "show", document.document_id) == 0
    header, first, second = shell.out.splitlines()[-3:]
    assert "took" in header.split()
    assert "  2 ms  " in first
    assert "  2 min 30 s  " in second
    connection.execute("update batchproc.ocr_revisions set seconds = 150.4")
    assert shell.run("documents", "history", document.document_id) == 0
    assert ", 2 min 30 s" in shell.out


def test_a_tenant_says_which_revision_counts(shell: Shell, document: Revising) -> None:
    assert shell.json("tenants", "set", "acme", "--keep", "best")["settings"] == {"keep": "best"}
    assert shell.run("tenants", "set", "acme", "--keep", "worst") == 2
    assert shell.json("tenants", "set", "acme", "--keep", "")["settings"] == {}


def test_the_restored_revision(shell: Shell, database_url: str, connection: Conn, tmp_path: Path) -> None:
    """A German document is read again with English alone: its umlauts are lost, and come back with its title."""
    file = tmp_path / "scan.tif"
    file.write_bytes(drawn.saved(drawn.page(drawn.GERMAN), "TIFF", dpi=(300, 300)))
    bench = Bench(database_url, connection)
    shell.run("tenants", "add", "acme")
    shell.run("tenants", "set", "acme", "--languages", "deu")
    [imported] = shell.json("import", str(file), "--tenant", "acme")["documents"]
    number = imported["document_id"]
    _drain(bench)
    good = shell.json("documents", "show", number)
    assert good["title"] == "Die Bäume müssen über Nacht"

    again = json.dumps({"document_id": number, "languages": ["eng"]})
    assert shell.run("enqueue", "ocr", "--tenant", "acme", "--args", again) == 0
    _drain(bench)
    worse = shell.json("documents", "show", number)
    assert "Bäume" not in worse["title"]
    lost = shell.json("documents", "diff", number)["lost_words"]
    assert {"Bäume", "müssen", "über", "größer", "Förster", "Straße"} <= lost.keys()

    assert shell.run("documents", "restore", number, good["revision"]) == 0
    _drain(bench)
    back = shell.json("documents", "show", number)
    assert (back["title"], back["revision"], back["pages"]) == (good["title"], good["revision"], good["pages"])
    revisions = shell.json("documents", "history", number)["revisions"]
    assert [(row["current"], row["verdict"], row["languages"]) for row in revisions] == [
        (True, "restored", ["deu"]),
        (False, "newest", ["eng"]),
    ]
    assert all(row["node_id"] and row["seconds"] > 0 for row in revisions)


def _drain(bench: Bench) -> None:
    report = bench.run()
    assert report.counts.discarded == 0


def test_show_names_the_ranges_that_are_not_read(shell: Shell, connection: Conn, document: Revising) -> None:
    revision = document.begin(6)
    document.write(revision, 1, page("one"))
    connection.execute("update batchproc.ocr_revisions set ranges_left = 2")
    jobs = []
    for range_ in ([1, 3], [4, 6]):
        job = NewJob(_tenant_of(connection), "ocr", {"range": range_}, document_id=document.document_id)
        jobs.append(JOBS.enqueue(connection, job).job_id)
    connection.execute("update batchproc.processing_jobs set range_of = %s", [revision])
    ranges = [
        {"job_id": jobs[0], "state": "available", "pages": "1-3", "done": 1},
        {"job_id": jobs[1], "state": "available", "pages": "4-6", "done": 0},
    ]
    assert shell.json("documents", "show", document.document_id)["ranges"] == ranges
    assert shell.run("documents", "show", document.document_id) == 0
    assert f"1-3 available (job {jobs[0]}, 1 done)" in shell.out
    shown = shell.json("jobs", "show", jobs[1])
    assert (shown["range_of"], shown["args"]) == (revision, {"range": [4, 6]})

    JOBS.cancel(connection, jobs[:1])
    end = "update batchproc.processing_jobs set state = %s, finished_at = now() where job_id = %s"
    connection.execute(end, ["discarded", jobs[1]])
    assert shell.run("documents", "show", document.document_id) == 0
    assert f"1-3 cancelled (job {jobs[0]}, 1 done)" in shell.out
    assert f"4-6 discarded (job {jobs[1]}, 0 done)" in shell.out

    connection.execute(end, ["completed", jobs[1]])
    assert [part["job_id"] for part in shell.json("documents", "show", document.document_id)["ranges"]] == jobs[:1]
    connection.execute("update batchproc.ocr_revisions set state = 'abandoned'")
    assert shell.json("documents", "show", document.document_id)["ranges"] == []


def _tenant_of(connection: Conn) -> int:
    [[tenant]] = connection.execute("select tenant_id from batchproc.tenants").fetchall()
    return int(tenant)
