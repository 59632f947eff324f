"""``reprocess`` as a person or cron calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli.shared.terminal import StatusLine
from batchproc.database import connect
from tests.cli.shell import ArchiveShell, Shell
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def shell(
    database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> ReprocessShell:
    monkeypatch.setenv("BATCHPROC_POOL__WORKERS", "2")
    return ReprocessShell(database_url, connection, capfd)


class ReprocessShell(ArchiveShell):
    """Two tenants with three documents: 1 is partial, 2 failed as encrypted, 3 is beta's and pending."""

    def __init__(self, url: str, connection: Conn, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(url, connection, capture, ["reprocess"])
        acme, beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
        for number, tenant in enumerate((acme, acme, beta)):
            add_document(connection, tenant, content=bytes([number]))
        add_text(connection, acme, 1, ["text"])
        self.sql("update batchproc.documents set status = 'partial' where document_id = 1")
        self.sql("update batchproc.documents set status = 'failed', failure_code = 'encrypted' where document_id = 2")

    def jobs(self) -> list[tuple[int, str, dict[str, Any]]]:
        return self.sql("select document_id, kind, args from batchproc.processing_jobs order by job_id")


def test_it_says_what_was_selected_enqueued_and_left_alone(shell: ReprocessShell) -> None:
    expected = {
        "selected": 3,
        "enqueued": 2,
        "already_queued": 0,
        "queued_otherwise": 0,
        "differs_in": {},
        "left_alone": {"encrypted": 1},
        "pages": 2,
        "pages_unknown": 1,
        "worker_seconds": None,
        "workers": 2,
        "seconds": None,
        "seconds_per_page": None,
        "campaign_id": None,
        "pilot": False,
        "dry_run": True,
    }
    assert shell.json("--all", "--dry-run") == expected
    assert shell.jobs() == []
    assert shell.json("--all") == expected | {"campaign_id": 1, "dry_run": False}
    code, out, err = shell.said("--all")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "3 documents selected: 0 enqueued, 2 queued already",
        "1 left alone: it failed as encrypted",
    ]


def test_partial_documents_get_their_failed_pages_read(shell: ReprocessShell) -> None:
    assert shell.json("--status", "partial")["enqueued"] == 1
    assert shell.jobs() == [(1, "ocr", {"pages": "failed"})]


@pytest.mark.parametrize(
    ("flags", "args"),
    [
        (["--mode", "redo"], {"mode": "redo"}),
        (["--mode", "force"], {"mode": "force"}),
        (["--mode", "skip"], {"mode": "skip", "pages": "failed"}),
        (["--language", "deu,eng"], {"languages": ["deu", "eng"], "pages": "failed"}),
    ],
    ids=str,
)
def test_redo_and_force_mean_every_page(shell: ReprocessShell, flags: list[str], args: dict[str, Any]) -> None:
    shell.json("--status", "partial", *flags)
    assert shell.jobs() == [(1, "ocr", args)]


def test_another_filter_reads_all_pages_of_a_partial_document(shell: ReprocessShell) -> None:
    shell.json("--document", "1")
    assert shell.jobs() == [(1, "ocr", {})]


@pytest.mark.parametrize("flags", [["--status", "failed"], ["--document", "2"]], ids=str)
def test_known_bad_documents_are_taken_when_asked_for(shell: ReprocessShell, flags: list[str]) -> None:
    assert shell.json(*flags)["enqueued"] == 1
    assert shell.jobs() == [(2, "ocr", {})]


def test_what_the_settings_accept_is_left_alone_too(shell: ReprocessShell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.sql("update batchproc.documents set failure_code = 'missing_language' where document_id = 2")
    assert shell.json("--tenant", "acme", "--dry-run")["left_alone"] == {}
    monkeypatch.setenv("BATCHPROC_RUN__ACCEPT_CODES", '["missing_language"]')
    assert shell.json("--tenant", "acme", "--dry-run")["left_alone"] == {"missing_language": 1}
    assert shell.json("--failure-code", "missing_language")["enqueued"] == 1


def test_documents_are_chosen_by_their_failure_code(shell: ReprocessShell) -> None:
    shell.sql("update batchproc.documents set failure_code = 'permission_denied' where document_id = 1")
    assert shell.json("--failure-code", "encrypted", "--dry-run")["enqueued"] == 1
    found = shell.json("--failure-code", "permission_denied", "--failure-code", "encrypted")
    assert (found["selected"], found["enqueued"]) == (2, 2), "one kept its text, the other failed for its content"
    assert [document for document, _, _ in shell.jobs()] == [1, 2]


def test_a_failure_code_that_nobody_declares_is_told_when_nothing_is_found(shell: ReprocessShell) -> None:
    code, out, err = shell.said("--failure-code", "encryptd")
    assert (code, out.splitlines()[0]) == (0, "0 documents selected: 0 enqueued, 0 queued already")
    assert err == "warning: no kind declares the failure code encryptd: encrypted is the nearest\n"
    assert shell.said("--failure-code", "too_large")[2] == ""


def test_a_queued_job_that_asks_for_something_else_is_told_of(shell: ReprocessShell) -> None:
    shell.json("--document", "1", "--mode", "force", "--language", "deu")
    shell.json("--document", "3")
    same = shell.json("--document", "3")
    assert (same["already_queued"], same["queued_otherwise"], same["differs_in"]) == (1, 0, {})
    code, out, _ = shell.said("--tenant", "acme", "--status", "partial", "--mode", "redo")
    assert code == 0
    assert out.splitlines() == [
        "1 document selected: 0 enqueued, 1 queued already",
        "1 of those queued asks for other languages, another mode: run it first (batchproc run), then give this command"
        " again",
    ]
    _, out, _ = shell.said("--document", "1", "--document", "3", "--mode", "redo")
    assert "2 of those queued ask for other languages (1), another mode (2): run them first" in out
    _, out, _ = shell.said("--document", "3", "--mode", "redo")
    assert "1 of those queued asks for another mode: run it first" in out
    assert len(shell.jobs()) == 2


def test_what_is_told_meanwhile_holds_for_every_kind(shell: ReprocessShell, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(StatusLine, "show", lambda _, text: told.append(text))
    shell.json("--tenant", "acme", "--kind", "classify", "--dry-run")
    assert told[-1] == "2 documents selected, 1 to be enqueued"


def test_filters_kind_lane_and_limit_go_together(shell: ReprocessShell) -> None:
    found = shell.json("--tenant", "acme", "--kind", "classify", "--lane", "interactive", "--priority", "1")
    assert (found["enqueued"], found["left_alone"]) == (1, {"no_text": 1})
    assert shell.sql("select kind, lane, priority from batchproc.processing_jobs") == [("classify", 0, 1)]
    assert shell.json("--engine-before", "2", "--below-confidence", "50")["selected"] == 0
    assert shell.json("--all", "--limit", "1")["enqueued"] == 1


def test_the_campaign_tells_what_was_asked_for(shell: ReprocessShell) -> None:
    shell.json("--tenant", "acme", "--status", "partial", "--status", "failed", "--limit", "5", "--mode", "redo")
    [[command]] = shell.sql("select command from batchproc.campaigns")
    assert command == "reprocess --tenant acme --status partial --status failed --limit 5 --mode redo"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "nothing says which documents"),
        (["--dry-run", "--mode", "redo"], "nothing says which documents"),
        (["--all", "--tenant", "acme"], "--all does not go with a filter"),
        (["--tenant", "nobody"], "there is no tenant"),
        (["--document", "99"], "there is no document 99"),
        (["--document", "3", "--tenant", "acme"], "there is no document 3 of that tenant"),
        (["--engine-before", "newest"], "no version"),
        (["--all", "--language", "no/../such"], "--language"),
        (["--all", "--kind", "classify", "--mode", "redo"], "--kind ocr"),
        (["--all", "--below-confidence", "101"], "--below-confidence"),
        (["--below-confidence", "nan"], "--below-confidence"),
        (["--below-confidence", "-1"], "--below-confidence"),
        (["--below-confidence", "inf"], "--below-confidence"),
        (["--below-confidence", "-inf"], "--below-confidence"),
        (["--engine-before", "5.5\n"], "no version"),
        (["--engine-before", "5.5\x1b[2J"], "no version"),
        (["--failure-code", "En crypted"], "no failure code"),
        (["--all", "--failure-code", "encrypted"], "--all does not go with a filter"),
        (["--all", "--kind", "workflow"], "--kind"),
        (["--all", "--limit", "0"], "--limit"),
        (["--all", "--tag", "x"], "--all does not go with a filter"),
        (["--tag", ""], "--tag is empty"),
        (["--path", ""], "--path is empty"),
        (["--path", r"/srv/\x00/*"], "no path holds a NUL character"),
        (["--path", r"/srv/\x00"], "no path holds a NUL character"),
        (["--path", "scans/*.tif"], "--path 'scans/*.tif' is relative: with a * in it, begin it with / or *"),
        (["--read-in", "deu+eng"], "--read-in 'deu+eng' is no language"),
        (["--data-hash", "abc"], "too short for a hash"),
        (["--older-than", "long"], "--older-than"),
        (["--imported-after", "yesterday"], "no day or time such as 2026-11-30"),
        (["--min-size", "huge"], "--min-size"),
        (["--all", "--pilot", "5", "--limit", "5"], "--pilot goes neither with"),
        (["--all", "--no-run"], "--no-run is for --pilot"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_nothing_enqueued(
    shell: ReprocessShell, flags: list[str], told: str
) -> None:
    code, out, err = shell.said(*flags)
    assert (code, out) == (2, "")
    assert told in err
    assert shell.jobs() == []


def test_documents_are_chosen_by_tag_path_size_time_and_rules_together(shell: ReprocessShell) -> None:
    shell.sql(
        "insert into batchproc.document_tags (tenant_id, document_id, tag, source)"
        " select tenant_id, document_id, 'invoice', 'rule' from batchproc.documents"
    )
    shell.sql("update batchproc.document_paths set root = '/srv/scans', path = document_id::text::bytea")
    shell.sql("update batchproc.documents set bytes = 1500 * document_id")
    shell.sql("update batchproc.ocr_revisions set completed_at = clock_timestamp() - interval '100 days'")

    def chosen(*flags: str) -> int:
        return int(shell.json(*flags, "--dry-run")["selected"])

    assert chosen("--tag", "invoice") == chosen("--path", "/srv/scans") == 3
    assert chosen("--path", "/srv/scans/2") == chosen("--path", "*/3") == 1
    assert chosen("--path", "/srv/scans/2", "--path", "/srv/scans/\\x33") == 2, "as JSON writes a path"
    assert chosen("--min-size", "3kB") == 2
    assert chosen("--min-size", "1kB", "--max-size", "2999") == 1
    assert chosen("--older-than", "90d", "--read-in", "eng", "--max-pages", "1") == 1
    assert chosen("--older-than", "101d") == chosen("--read-in", "deu") == chosen("--tag", "contract") == 0
    assert chosen("--imported-after", "2020-01-01", "--imported-before", "2020-01-02T12:00") == 0
    assert chosen("--imported-after", "2020-01-01") == 3
    assert chosen("--stale-rules", "--tenant", "acme") == 2
    assert chosen("--engine-version", "1") == 1
    assert chosen("--engine-version", "1", "--engine-before", "1") == 0
    shell.sql("update batchproc.ocr_revisions set data_hash = 'abcdef0123'")
    assert chosen("--data-hash", "abcdef") == chosen("--stale-data", "--data-hash", "abcdef01") == 1
    assert chosen("--tag", "invoice", "--path", "/srv/scans", "--status", "partial", "--min-pages", "1") == 1


def test_a_path_is_taken_as_it_is_given_where_that_is_there(shell: ReprocessShell, tmp_path: Path) -> None:
    r"""Of 1 and 2 the names differ only in whether ``\x41`` stands for itself; 3 has a star in its name."""
    names = {1: r"a\x41.pdf", 2: "aA.pdf", 3: "a*.pdf"}
    for document_id, name in names.items():
        shell.connection.execute(
            "update batchproc.document_paths set root = %s, path = %s where document_id = %s",
            [bytes(tmp_path), name.encode(), document_id],
        )

    def chosen(text: str) -> set[int]:
        shell.sql("delete from batchproc.processing_jobs")
        shell.json("--path", f"{tmp_path}/{text}", "--status", "pending", "--status", "partial", "--status", "failed")
        return {job[0] for job in shell.jobs()}

    # Nothing of that is on this machine: as --json shows paths.
    assert chosen(r"a\x41.pdf") == {2}
    assert chosen(r"a\x5cx41.pdf") == {1}
    assert chosen(r"a\x2a.pdf") == {3}, "no pattern"
    assert chosen("a*.pdf") == {1, 2, 3}
    assert chosen(r"a\x5c*") == {1}
    (tmp_path / names[1]).touch()
    assert chosen(r"a\x41.pdf") == {1}, "it is there"
    assert chosen(r"a\x5cx41.pdf") == {1}
    assert chosen("aA.pdf") == {2}
    (tmp_path / names[1]).unlink()
    (tmp_path / names[1]).mkdir()
    shell.sql("update batchproc.document_paths set path = path || convert_to('/of-it.tif', 'UTF8')")
    assert chosen(r"a\x41.pdf/*.tif") == chosen(r"a\x41.pdf") == {1}
    assert chosen(r"a\x41*") == {2}, "a part of a name can not be looked for"


def test_a_dry_run_tells_pages_and_time(shell: ReprocessShell) -> None:
    shell.sql(
        "insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_ocr, pages_text,"
        " pages_timed, seconds_ocr)"
        " values (1, (clock_timestamp() at time zone 'UTC')::date, 'ocr', 120, 80, 60, 100, 58, 116)"
    )
    shell.sql("update batchproc.documents set page_count = 40 where document_id = 1")
    code, out, _ = shell.said("--all", "--dry-run")
    assert code == 0
    assert out.splitlines() == [
        "3 documents selected: 2 would be enqueued, 0 queued already",
        "1 left alone: it failed as encrypted",
        "42 pages, 32 s of one worker (0.75 s a page lately)",
        "1 document has not been read, and counts as others do",
        "about 16 s with 2 workers and nothing else to do",
    ]
    forced = shell.json("--document", "1", "--mode", "force", "--dry-run")
    assert (forced["pages"], forced["worker_seconds"]) == (40, 80.0), "text layers take no time, and are read too"
    assert forced["seconds"] == 80.0, "one document is one job, whatever the workers"
    assert shell.json("--status", "partial", "--dry-run")["pages"] == 0, "no page of it had failed"
    assert shell.jobs() == []


def test_without_a_past_there_is_no_estimate(shell: ReprocessShell) -> None:
    _, out, _ = shell.said("--document", "1", "--dry-run")
    assert out.splitlines()[1:] == [
        "1 page, time unknown: nothing like it in 30 days",
        "to find out, read a few: reprocess them with --pilot 20",
    ]


def test_text_layers_do_not_tell_how_long_forced_pages_take(shell: ReprocessShell) -> None:
    shell.sql(
        "insert into batchproc.usage_daily (tenant_id, day, kind, worker_seconds, completed, pages_text)"
        " values (1, (clock_timestamp() at time zone 'UTC')::date, 'ocr', 350, 100, 10000)"
    )
    assert shell.json("--document", "1", "--dry-run")["worker_seconds"] == 0.035
    forced = shell.json("--document", "1", "--mode", "force", "--dry-run")
    assert (forced["worker_seconds"], forced["seconds"], forced["seconds_per_page"]) == (None, None, None)


def test_documents_show_names_the_failed_pages(shell: ReprocessShell, capfd: pytest.CaptureFixture[str]) -> None:
    shell.sql("update batchproc.ocr_pages set state = 'failed', failure_code = 'stalled', text = ''")
    documents = Shell(shell.url, capfd, before=["documents"])
    [page] = documents.json("show", 1)["pages"]
    assert (page["page"], page["state"], page["failure_code"]) == (1, "failed", "stalled")
    lines = [line.split() for line in documents.lines("show", 1) if "stalled" in line]
    assert ["1", "failed"] in [line[:2] for line in lines]


def test_the_help_has_examples(shell: ReprocessShell) -> None:
    code, out, _ = shell.said("--help")
    assert code == 0
    assert "batchproc reprocess --status partial" in out


def test_a_document_that_keeps_its_text_is_taken_up_whatever_its_last_reading_met(shell: ReprocessShell) -> None:
    shell.sql("update batchproc.documents set status = 'completed' where document_id = 2")
    found = shell.json("--tenant", "acme", "--status", "completed", "--dry-run")
    assert (found["selected"], found["enqueued"]) == (1, 1)


@pytest.mark.parametrize("flag", ["--tenant", "--engine-before"])
def test_an_empty_filter_is_refused_and_not_left_out(shell: ReprocessShell, flag: str) -> None:
    code, _, err = shell.said("--status", "pending", flag, "")
    assert code == 2
    assert f"{flag} is empty" in err
    assert shell.jobs() == []


def test_languages_that_nobody_has_are_warned_of(shell: ReprocessShell) -> None:
    code, _, err = shell.said("--document", "1", "--language", "xyz", "--dry-run")
    assert code == 0
    assert "warning: " in err
    assert "xyz" in err
