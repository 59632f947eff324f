"""``storage``, ``import`` and the doctor with roots that are mounted, that are not, and that are others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli.main import run
from batchproc.cli.shared.tables import laid_out
from batchproc.database import connect
from batchproc.documents.storage_roots import StorageRoots
from batchproc.ops.doctor.examination import CHECKS
from tests.cli.shell import Shell
from tests.handlers.running_job import Conn, add_tenant
from tests.mounts import Mounts


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        add_tenant(opened, "acme")
        yield opened


class Archive(Shell):
    def states(self) -> dict[str, str]:
        found = self.json("storage", "list")
        assert list(found) == ["roots", "next"]
        return {root["root"]: root["state"] for root in found["roots"]}

    def imports(self, *paths: Path) -> int:
        return self.run("import", *map(str, paths), "--tenant", "acme")


@pytest.fixture
def shell(database_url: str, connection: Conn, capfd: pytest.CaptureFixture[str]) -> Archive:
    return Archive(database_url, capfd)


@pytest.fixture
def root(tmp_path: Path, shell: Archive) -> Path:
    """A root from which a file was imported."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(b"%PDF")
    assert shell.imports(folder) == 0
    return folder


def swapped(root: Path) -> Path:
    """Another, empty folder in its place, as the mount point below a disk; where the disk is now."""
    away = root.with_name("unmounted")
    root.rename(away)
    root.mkdir()
    return away


def test_an_import_makes_its_root_known(shell: Archive, root: Path) -> None:
    assert shell.states() == {str(root): "known"}
    assert shell.run("storage", "list") == 0
    header, row = shell.out.splitlines()
    assert header.split() == ["state", "known_at", "marker", "root"]
    assert (row.split()[0], row.split()[-1]) == ("known", str(root))


def test_the_list_of_roots_fits_a_terminal_and_says_in_full_what_is_wrong(shell: Archive, root: Path) -> None:
    (root / ".batchproc-root").write_text("m" * 64)
    assert shell.run("storage", "accept", str(root)) == 0
    swapped(root)
    assert shell.run("storage", "list") == 0
    table, _, told = shell.out.partition("\n\n")
    assert " ".join(told.split()) == f"{root}: it has no marker instead of {'m' * 64}"
    [header, row] = table.splitlines()
    names = header.split()
    lines = laid_out(names, [[*row.split()[:1], " ".join(row.split()[1:3]), *row.split()[3:]]], [False] * 4, 80)
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith(root.name)


def test_each_state_is_told(shell: Archive, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    conf = tmp_path / "conf.yaml"
    conf.write_text(json.dumps({"storage": {"roots": [str(tmp_path / "new")]}}))
    monkeypatch.setenv("BATCHPROC_CONF", str(conf))
    assert shell.states() == {str(root): "known", str(tmp_path / "new"): "new"}
    away = swapped(root)
    assert shell.states()[str(root)] == "other"
    root.rmdir()
    assert shell.states()[str(root)] == "gone"
    away.rename(root)
    (root / ".batchproc-root").write_text("no id!")
    assert shell.states()[str(root)] == "known"
    shell.run("storage", "list")
    assert ".batchproc-root is no plain file with an id" in " ".join(shell.out.split())


def test_an_import_from_a_root_that_is_gone_is_a_fault_of_the_environment(shell: Archive, root: Path) -> None:
    swapped(root)
    for given in (root, root / "scan.pdf"):
        assert shell.imports(given) == 3
        assert f"the storage root {root} is not the one it was" in shell.err
        assert "batchproc storage list" in shell.err
    root.rmdir()
    assert shell.imports(root) == 3
    assert f"the storage root {root} cannot be opened" in shell.err


def test_an_import_believes_what_is_missing_from_a_root_that_is_there(shell: Archive, root: Path) -> None:
    (root / "empty").mkdir()
    assert shell.imports(root / "empty") == 0
    assert shell.imports(root / "none.pdf") == 1
    assert "source_missing" in shell.err


def test_new_files_of_another_disk_are_imported_and_do_not_make_it_the_one_it_was(shell: Archive, root: Path) -> None:
    swapped(root)
    (root / "new.pdf").write_bytes(b"%PDF new")
    assert shell.imports(root) == 0
    assert shell.states() == {str(root): "other"}


def test_a_root_that_was_really_replaced_is_accepted(shell: Archive, root: Path) -> None:
    swapped(root)
    assert shell.run("storage", "accept", str(root)) == 0
    assert shell.states() == {str(root): "known"}
    assert shell.imports(root / "scan.pdf") == 1, "now it is believed to be missing"


def test_what_cannot_be_accepted(shell: Archive, root: Path, tmp_path: Path) -> None:
    assert shell.run("storage", "accept", str(tmp_path)) == 2
    assert f"known: {root}" in shell.err
    swapped(root)
    root.rmdir()
    assert shell.run("storage", "accept", str(root)) == 3
    assert f"batchproc storage forget {root}" in shell.err
    assert shell.run("storage", "forget", str(root)) == 0
    assert shell.states() == {}
    assert shell.run("storage", "forget", str(root)) == 2


def test_a_relative_path_is_taken_from_the_working_folder(
    shell: Archive, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    assert shell.run("storage", "accept", ".", "--json") == 0
    assert json.loads(shell.out)["root"] == str(root)


def test_a_mount_below_a_root_that_will_never_come_back_is_forgotten(
    shell: Archive, root: Path, mounts: Mounts, connection: Conn
) -> None:
    mounts.memory(root / "2022")
    (root / "2022" / "scan.pdf").write_bytes(b"%PDF 2022")
    assert shell.run("import", "-r", str(root), "--tenant", "acme") == 0
    assert shell.states() == {str(root): "known", str(root / "2022"): "known"}
    mounts.unmount(root / "2022")
    assert shell.imports(root / "2022" / "scan.pdf") == 3
    assert shell.run("storage", "forget", str(root / "2022")) == 0
    assert shell.imports(root / "2022" / "scan.pdf") == 1
    assert [known.root for known in StorageRoots("batchproc").all(connection)] == [bytes(root)]


def test_a_mount_over_a_folder_of_an_archive_is_listed_and_can_be_accepted(
    shell: Archive, root: Path, mounts: Mounts, connection: Conn
) -> None:
    mounts.memory(root / "2022")
    assert shell.states() == {str(root): "known", str(root / "2022"): "new"}
    assert shell.run("storage", "forget", str(root / "2022")) == 2, "nothing is known of it"
    assert shell.imports(root / "2022" / "none.pdf") == 1, "what was never imported from there may be missing"
    assert shell.run("storage", "accept", str(root / "2022")) == 0
    assert shell.states() == {str(root): "known", str(root / "2022"): "known"}
    assert StorageRoots("batchproc").doubt(connection, bytes(root / "2022" / "scan.pdf")) is None


def test_the_doctor_tells_of_each_root(shell: Archive, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CHECKS, "pool")  # the only one that takes long

    def storage() -> dict[str, Any]:
        shell.run("doctor", "--json")
        return next(check for check in json.loads(shell.out)["checks"] if check["check"] == "storage")

    assert storage()["ok"]
    away = swapped(root)
    found = storage()
    assert not found["ok"]
    assert f"{root} is not the storage root it was" in found["detail"]
    assert f"batchproc storage accept {root}" in found["advice"]
    root.rmdir()
    assert "mount it" in storage()["advice"]
    away.rename(root)
    (root / ".batchproc-root").write_text("")
    found = storage()
    assert (found["ok"], "correct the marker" in found["advice"]) == (True, True)


def test_the_doctor_looks_at_no_root_before_the_schema_is_there(
    empty_database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["--database", empty_database_url, "doctor", "--json"])
    checks = {check["check"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert checks["storage"]["ok"]
    assert "not looked at before the migrations are applied" in checks["storage"]["detail"]


@pytest.mark.parametrize("command", ["accept", "forget"])
def test_an_empty_root_is_not_the_working_folder(shell: Archive, command: str) -> None:
    assert shell.run("storage", command, "") == 2
    assert "the storage root is empty" in shell.err
