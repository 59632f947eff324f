"""``import`` and ``documents`` as a person or a script calls them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.database import connect
from batchproc.documents.store import DocumentStore, Tag
from batchproc.ops.advice import advice
from tests.cli.shell import Shell
from tests.handlers.running_job import Conn, add_tenant, add_text


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        add_tenant(opened, "acme")
        yield opened


@pytest.fixture
def shell(database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(database_url, capfd, codes=(0, 1))


@pytest.fixture
def odd_file(tmp_path: Path) -> Path:
    file = tmp_path / os.fsdecode(b"a\xff\nb")
    file.write_bytes(b"odd")
    return file


def test_import_says_what_became_of_each_path(shell: Shell, odd_file: Path, tmp_path: Path) -> None:
    found = shell.json("import", str(odd_file), str(tmp_path / "none"), "--tenant", "acme")
    shown = f"{tmp_path}/a\\xff\nb"
    assert [list(document) for document in found["documents"]] == [
        ["document_id", "job_id", "path", "sha256", "duplicate", "failure_code", "enqueued"]
    ]
    assert (found["documents"][0]["path"], found["documents"][0]["duplicate"]) == (shown, False)
    assert found["rejected"] == [{"path": str(tmp_path / "none"), "failure_code": "source_missing"}]
    assert shell.run("import", str(odd_file), "--tenant", "acme") == 0
    assert f"{tmp_path}/a\\xff\\x0ab" in shell.out
    assert shell.run("import", str(tmp_path / "none"), "--tenant", "acme") == 1
    assert "source_missing" in shell.err


def test_names_that_begin_with_a_dash_come_after_two(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "--json").write_bytes(b"dash")
    monkeypatch.chdir(tmp_path)
    assert shell.run("import", "--tenant", "acme", "--", "--json") == 0
    assert shell.json("documents", "list")["documents"][0]["path"] == str(tmp_path / "--json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tenant", "nobody", "."], "there is no tenant 'nobody': add it with: batchproc tenants add nobody"),
        (["--tenant", "acme"], "nothing to import"),
        (["--tenant", "acme", "--language", "../x", "."], "is no language"),
        (["--tenant", "acme", "--manifest", "none.ndjson"], "none.ndjson cannot be read: No such file"),
        (["."], "Missing option '--tenant'"),
    ],
)
def test_wrong_usage_is_one_line_and_imports_nothing(
    shell: Shell,
    connection: Conn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert shell.run("import", *arguments) == 2
    assert message in shell.err
    assert shell.err.count("\n") == 1
    assert connection.execute("select count(*) from batchproc.documents").fetchone() == (0,)


def test_options_of_import_reach_the_documents_and_jobs(shell: Shell, connection: Conn, odd_file: Path) -> None:
    options = ["--tenant", "acme", "--language", "deu,eng", "--lane", "interactive", "--priority", "1"]
    assert shell.run("import", str(odd_file), *options) == 0
    jobs = connection.execute("select kind, lane, priority, max_attempts from batchproc.processing_jobs").fetchall()
    assert jobs == [("ocr", 0, 1, 5)]
    assert shell.json("documents", "list")["documents"][0]["language"] == "deu+eng"


def test_a_listing_is_paged(shell: Shell, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    shell.run("import", str(tmp_path), "--tenant", "acme", "--no-jobs")
    first = shell.json("documents", "list", "--limit", "2", "--status", "pending")
    assert (len(first["documents"]), first["next"]) == (2, first["documents"][1]["document_id"])
    last = shell.json("documents", "list", "--after", str(first["next"]), "--tenant", "acme")
    assert (len(last["documents"]), last["next"]) == (1, None)
    assert shell.run("documents", "list", "--tenant", "nobody") == 2


def test_a_document_is_shown_with_its_pages_and_text(shell: Shell, connection: Conn, odd_file: Path) -> None:
    imported = shell.json("import", str(odd_file), "--tenant", "acme")["documents"][0]
    document_id = str(imported["document_id"])
    assert shell.run("documents", "text", document_id) == 1
    assert "has no text (pending)" in shell.err
    tenant_id = add_tenant(connection, "acme")
    revision = add_text(connection, tenant_id, imported["document_id"], ["one\n", "", "drei ä\n"])
    DocumentStore("batchproc", tenant_id=tenant_id).add_tag(connection, imported["document_id"], Tag("t"), "person")

    shown = shell.json("documents", "show", document_id)
    assert (shown["tenant"], shown["status"], shown["tags"], shown["revision"]) == (
        "acme",
        "completed",
        ["t"],
        revision,
    )
    assert [list(page) for page in shown["pages"]] == [
        [
            "page",
            "state",
            "confidence",
            "words",
            "rotation",
            "seconds",
            "failure_code",
            "skew",
            "dpi",
            "dpi_estimated",
            "languages",
            "engine_calls",
            "kept_from",
        ]
    ] * 3
    assert [page["words"] for page in shown["pages"]] == [1, 0, 2]
    assert shell.run("documents", "text", document_id) == 0
    assert shell.out == "one\n\f\fdrei ä\n"
    assert shell.json("documents", "text", document_id)["pages"] == ["one\n", "", "drei ä\n"]
    assert shell.run("documents", "show", "999") == 2
    assert shell.err == "batchproc: there is no document 999: see: batchproc documents list\n"


def failed(shell: Shell, connection: Conn, file: Path, code: str) -> int:
    """A document whose only job was given up on with that code."""
    document_id = int(shell.json("import", str(file), "--tenant", "acme")["documents"][0]["document_id"])
    connection.execute(
        "update batchproc.processing_jobs set state = 'discarded', failure_code = %s, finished_at = now()"
        " where document_id = %s",
        [code, document_id],
    )
    connection.execute(
        "update batchproc.documents set status = 'failed', failure_code = %s where document_id = %s",
        [code, document_id],
    )
    return document_id


def test_a_file_that_moved_is_read_again_where_it_is_now(shell: Shell, connection: Conn, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.pdf").write_bytes(b"content")
    document_id = failed(shell, connection, tmp_path / "old" / "a.pdf", "source_missing")
    (tmp_path / "old").rename(tmp_path / "new")

    assert shell.run("import", str(tmp_path / "new"), "--tenant", "acme") == 0
    assert shell.err == "1 had failed (source_missing 1) and gets a new job\n"
    jobs = connection.execute("select job_id, state from batchproc.processing_jobs order by job_id").fetchall()
    assert jobs == [(1, "discarded"), (2, "available")]
    assert DocumentStore("batchproc", tenant_id=None).paths(connection, document_id)[1] == (
        bytes(tmp_path / "new"),
        b"a.pdf",
    )
    shown = shell.json("documents", "show", str(document_id))
    assert (shown["path"], shown["other_paths"]) == (f"{tmp_path}/old/a.pdf", [f"{tmp_path}/new/a.pdf"])
    assert shell.run("documents", "show", str(document_id)) == 0
    assert f"{tmp_path}/new/a.pdf" in shell.out
    assert shell.run("import", str(tmp_path / "new"), "--tenant", "acme") == 0
    assert (shell.err, len(connection.execute("select from batchproc.processing_jobs").fetchall())) == ("", 2)


def test_what_an_import_does_not_mend_is_told_with_the_command_that_takes_it_up(
    shell: Shell, connection: Conn, tmp_path: Path
) -> None:
    for number, code in enumerate(["encrypted", "missing_language", "encrypted"]):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
        failed(shell, connection, tmp_path / f"{number}", code)
    found = shell.json("import", str(tmp_path), "--tenant", "acme")
    assert [(one["failure_code"], one["enqueued"], one["job_id"]) for one in found["documents"]] == [
        ("encrypted", False, 1),
        ("missing_language", False, 2),
        ("encrypted", False, 3),
    ]
    assert shell.err == (
        "2 had failed as encrypted and get no job: give its tenant a password file: batchproc tenants set acme"
        " --password-file PATH, then: batchproc reprocess --tenant acme --failure-code encrypted\n"
        "1 had failed as missing_language and gets no job: install the language, then:"
        " batchproc reprocess --tenant acme --failure-code missing_language\n"
    )
    assert shell.json("reprocess", "--failure-code", "encrypted")["enqueued"] == 2
    shell.json("import", str(tmp_path), "--tenant", "acme")
    assert shell.err == (
        "1 had failed as missing_language and gets no job: install the language, then:"
        " batchproc reprocess --tenant acme --failure-code missing_language\n"
    ), "a job of the others waits"


def test_an_import_tells_of_a_bad_scan_what_the_summary_of_a_run_tells(
    shell: Shell, connection: Conn, tmp_path: Path
) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"broken")
    failed(shell, connection, tmp_path / "broken.pdf", "unreadable_file")
    job = {"tenant": "acme", "job_id": 1, "document_id": 1, "jobs": 1, "state": "discarded"}
    shell.json("import", str(tmp_path), "--tenant", "acme")
    assert shell.err == f"1 had failed as unreadable_file and gets no job: {advice('unreadable_file', job)}\n"
    (tmp_path / "conf.yaml").write_text("run: {accept_codes: [unreadable_file]}\n")
    shell.json("--conf", str(tmp_path / "conf.yaml"), "import", str(tmp_path / "broken.pdf"), "--tenant", "acme")
    assert shell.err == "", "nobody wants to hear of it"


def test_each_rejected_file_is_a_line_with_its_path_once_and_there_is_a_total(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("import", str(tmp_path / "gone"), "--tenant", "acme") == 1
    assert shell.err == f"rejected {tmp_path}/gone: source_missing: No such file or directory\n"

    scans, elsewhere, archive = tmp_path / "scans", tmp_path / "elsewhere", tmp_path / "archive"
    for folder in (scans, elsewhere, archive):
        folder.mkdir()
    for name in ("a", "b", "c"):
        (scans / name).write_bytes(name.encode())
    (elsewhere / "d").write_bytes(b"d")
    (scans / "d").symlink_to(elsewhere / "d")
    (scans / "e").symlink_to("nothing")
    rejected = [
        *(f"rejected {scans}/{name}: outside_roots" for name in ("a", "b", "c")),
        f"rejected {scans}/d: outside_roots: it leads to {elsewhere}/d",
        f"rejected {scans}/e: source_missing: No such file or directory",
        "5 paths rejected: outside_roots 4, source_missing 1",
    ]
    (tmp_path / "conf.yaml").write_text(f"storage: {{roots: [{archive}]}}\n")
    assert shell.run("--conf", str(tmp_path / "conf.yaml"), "import", str(scans), "--tenant", "acme") == 1
    *told, remedy, of_links = shell.err.splitlines()
    assert told == rejected
    assert remedy == (
        f"outside_roots: a file has to lie below storage.roots ({archive}): import it from there, or add its root to"
        " the settings"
    )
    assert of_links.startswith(
        "outside_roots: a link may lead neither out of the folder that it was found in nor out of"
    )

    assert shell.run("import", str(scans), "--tenant", "acme") == 1
    link, missing, total, remedy = shell.err.splitlines()
    assert [link, missing] == [rejected[3], rejected[4]]
    assert total == "2 paths rejected: outside_roots 1, source_missing 1"
    assert remedy.startswith("outside_roots: a link may not lead out of the folder that is imported")


def test_folders_that_an_import_leaves_out_are_counted_once(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = tmp_path / "scans"
    for folder in ("2024/05", "2025", ".trash"):
        (scans / folder).mkdir(parents=True)
    (scans / "link").symlink_to(tmp_path)
    (scans / "a.pdf").write_bytes(b"a")
    (scans / "2024" / "b.pdf").write_bytes(b"b")
    assert shell.run("import", str(scans), "--tenant", "acme") == 0
    assert shell.err == "", "cron would mail it each night"
    with monkeypatch.context() as terminal:
        terminal.setattr("batchproc.cli.importing.output.sys.stderr.isatty", lambda: True, raising=False)
        assert shell.run("import", str(scans), "--tenant", "acme") == 0
        assert "2 folders left out; with -r all files below them are taken, too\n" in shell.err
        assert shell.run("import", str(scans / "2025"), str(scans / "2024"), "--tenant", "acme") == 0
        assert "1 folder left out; with -r all files below it are taken, too\n" in shell.err
        assert shell.run("import", "-q", str(scans), "--tenant", "acme") == 0
        assert "left out" not in shell.err, "no warning"
    assert shell.run("import", "-q", str(scans), "--tenant", "acme") == 0
    assert shell.err == "", "no warning"
    assert shell.run("import", "-r", str(scans), "--tenant", "acme") == 0
    assert shell.err == "", "none is"
    (scans / "2024" / "b.pdf").unlink()
    assert shell.run("import", str(scans / "2024"), "--tenant", "acme") == 0
    assert shell.err == (
        "nothing to import: the folders hold no files\n1 folder left out; with -r all files below it are taken, too\n"
    ), "that may be why"
    assert shell.run("import", str(scans / "2024" / "05"), "--tenant", "acme") == 0
    assert shell.err == "nothing to import: the folders hold no files\n"


def test_the_confidence_is_listed_and_documents_are_chosen_by_their_code(
    shell: Shell, connection: Conn, tmp_path: Path
) -> None:
    for number in range(3):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    shell.run("import", str(tmp_path), "--tenant", "acme", "--no-jobs")
    tenant_id = add_tenant(connection, "acme")
    add_text(connection, tenant_id, 1, ["one two", "three"])
    connection.execute("update batchproc.ocr_pages set confidence = case page when 1 then 90 else 60.2 end")
    add_text(connection, tenant_id, 2, ["one"])
    connection.execute("update batchproc.ocr_revisions set confidence = 87.25, failed_pages = 0 where document_id = 2")
    connection.execute("update batchproc.documents set failure_code = 'stalled' where document_id = 2")

    found = shell.json("documents", "list")["documents"]
    assert [document["confidence"] for document in found] == [80.1, 87.2, None], "of words; of before there were sums"
    assert shell.run("documents", "list") == 0
    assert "conf" in shell.out.splitlines()[0].split()
    chosen = shell.json("documents", "list", "--failure-code", "stalled")["documents"]
    assert [document["document_id"] for document in chosen] == [2]
    assert shell.run("documents", "list", "--failure-code", "staled") == 0
    assert shell.err == "warning: no kind declares the failure code staled: stalled is the nearest\n"


def test_the_language_that_auto_chose_is_shown(shell: Shell, connection: Conn, odd_file: Path) -> None:
    shell.run("import", str(odd_file), "--tenant", "acme", "--no-jobs")
    add_text(connection, add_tenant(connection, "acme"), 1, ["one", "zwei", ""])
    connection.execute(
        "update batchproc.ocr_pages set languages ="
        " case page when 1 then '{eng,deu}'::text[] when 2 then '{deu,eng}' end"
    )
    assert shell.run("documents", "show", "1") == 0
    assert "language" not in shell.out.splitlines()[-4].split(), "none was to be detected"
    connection.execute("""update batchproc.ocr_revisions set profile = '{"detect": "lingua 2"}'""")
    assert shell.run("documents", "show", "1") == 0
    header, *pages = (line.split() for line in shell.out.splitlines()[-4:])
    assert (header[-1], [page[-1] for page in pages]) == ("language", ["eng", "deu", "-"])
