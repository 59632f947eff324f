"""A root is known again, and only while it is the one it was is a missing file believed to be missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from batchproc.database import connect
from batchproc.documents import storage_roots
from batchproc.documents.mounted import mounted_below
from batchproc.documents.originals import Location, Original, OriginalError, StorageGone, folders_of
from batchproc.documents.root_identity import RootIdentity
from batchproc.documents.storage_roots import StorageRoots
from batchproc.documents.walk import identity_at
from tests.handlers.running_job import Conn
from tests.mounts import Mounts

SCAN = b"2021/scan.tif"


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return archive(tmp_path / "disk")


def archive(folder: Path) -> Path:
    (folder / "2021").mkdir(parents=True)
    (folder / "2021" / "scan.tif").write_bytes(b"pixels")
    return folder


def at(root: Path, path: bytes = SCAN) -> Location:
    return Location(bytes(root), path)


def seen(location: Location) -> dict[bytes, RootIdentity]:
    """What its root is known again by, as after an original that was found unchanged."""
    with Original(location) as original:
        return dict(original.folders)


def code(location: Location, known: dict[bytes, RootIdentity]) -> str:
    with pytest.raises(OriginalError) as caught:
        Original(location, known)
    return caught.value.code


def gone(location: Location, known: dict[bytes, RootIdentity]) -> str:
    with pytest.raises(StorageGone) as caught:
        Original(location, known)
    return caught.value.summary


def identity(folder: Path) -> RootIdentity:
    return identity_at(bytes(folder))[0]


def test_a_missing_file_is_missing_while_the_root_is_the_one_it_was(disk: Path) -> None:
    known = seen(at(disk))
    assert list(known) == [bytes(disk)]
    (disk / "2021" / "scan.tif").unlink()
    assert code(at(disk), known) == "source_missing"
    assert code(at(disk), {}) == "source_missing", "of a root that is not known yet it is believed"


def test_nothing_is_believed_of_the_folder_below_an_unmounted_disk(disk: Path, tmp_path: Path, mounts: Mounts) -> None:
    root = tmp_path / "archive"
    mounts.folder(disk, root)
    known = seen(at(root))
    mounts.unmount(root)
    told = gone(at(root), known)
    assert told.startswith(f"the storage root {root} is not the one it was: it is device ")
    mounts.folder(disk, root)
    with Original(at(root), known):
        pass


def test_nothing_is_believed_of_another_disk_whatever_it_holds(tmp_path: Path, mounts: Mounts) -> None:
    """Two file systems in memory come up under the same device and inode; the number of the file system differs."""
    root = tmp_path / "archive"
    mounts.memory(root)
    archive(root)
    known = seen(at(root))
    mounts.unmount(root)
    mounts.memory(root)
    assert gone(at(root), known)
    (root / "2021").mkdir()
    (root / "2021" / "scan.tif").mkdir()
    assert gone(at(root), known), "no regular file"
    (root / "2021" / "scan.tif").rmdir()
    (root / "2021" / "scan.tif").symlink_to("/etc/passwd")
    assert gone(at(root), known), "a link"
    (root / "2021" / "scan.tif").unlink()
    (root / "2021" / "scan.tif").write_bytes(b"something else")
    with Original(at(root), known) as original:
        assert original.doubt() is not None, "another content says nothing of the original"


def test_a_disk_mounted_below_a_root_is_told_apart_like_the_root(tmp_path: Path, mounts: Mounts) -> None:
    root = archive(tmp_path / "archive")
    mounts.memory(root / "2022")
    (root / "2022" / "scan.tif").write_bytes(b"pixels")
    location = at(root, b"2022/scan.tif")
    known = seen(location)
    assert list(known) == [bytes(root), bytes(root / "2022")]
    (root / "2022" / "scan.tif").unlink()
    assert code(location, known) == "source_missing"
    mounts.unmount(root / "2022")
    assert f"the storage root {root / '2022'} is not the one it was" in gone(location, known)
    (root / "2022").rmdir()
    assert gone(location, known) == f"the storage root {root / '2022'} is not there", "its folder went with the mount"
    root.joinpath("2021", "scan.tif").unlink()
    assert code(at(root), {bytes(root): known[bytes(root)]}) == "source_missing", "what lies elsewhere is not concerned"


def test_nothing_is_believed_of_a_file_system_that_is_mounted_over_the_folder_of_an_original(
    disk: Path, mounts: Mounts
) -> None:
    known = seen(at(disk))
    year = disk / "2021"
    mounts.memory(year)
    assert gone(at(disk), known).startswith(f"something is mounted on {year} in which no original was found yet")
    (year / "scan.tif").mkdir()
    assert gone(at(disk), known), "no regular file"
    (year / "scan.tif").rmdir()
    (year / "scan.tif").write_bytes(b"something else")
    with Original(at(disk), known) as original:
        assert original.doubt() is not None, "another content says nothing of the original"
    (year / "scan.tif").write_bytes(b"pixels")
    known = known | seen(at(disk))
    (year / "scan.tif").unlink()
    assert code(at(disk), known) == "source_missing", "an original was found there, so it belongs to the archive"
    elsewhere = {bytes(disk): known[bytes(disk)]}
    assert code(at(disk, b"none.tif"), elsewhere) == "source_missing", "what lies elsewhere is not concerned"


def test_what_is_mounted_below_a_root_that_is_not_known_is_believed(disk: Path, mounts: Mounts) -> None:
    mounts.memory(disk / "2021")
    assert code(at(disk), {}) == "source_missing"


def test_what_is_mounted_below_a_root_is_found_by_its_path_through_that_root(
    disk: Path, tmp_path: Path, mounts: Mounts
) -> None:
    (tmp_path / "link").symlink_to(disk)
    odd = disk / "a b\\c\n"
    for place in (disk / "2022", odd, tmp_path / "beside"):
        mounts.memory(place)
    mounts.folder(disk / "2021", disk / "2023")
    assert mounted_below([bytes(disk)]) == {bytes(disk / "2022"), bytes(odd)}
    assert mounted_below([bytes(tmp_path / "link")]) == {
        bytes(tmp_path / "link" / "2022"),
        bytes(tmp_path / "link" / odd.name),
    }
    assert mounted_below([bytes(odd), b"/"]) == set()


def test_a_link_to_the_root_that_leads_elsewhere_is_another_root(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(disk)
    known = seen(at(tmp_path / "root"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "root").unlink()
    (tmp_path / "root").symlink_to(tmp_path / "empty")
    assert gone(at(tmp_path / "root"), known)


def test_a_marker_goes_before_the_numbers(disk: Path, tmp_path: Path) -> None:
    (disk / ".batchproc-root").write_text("archive-of-acme\nplaced on a Monday\n")
    known = seen(at(disk))
    assert known[bytes(disk)].marker == "archive-of-acme"
    restored = archive(tmp_path / "restored")
    (restored / "2021" / "scan.tif").unlink()
    moved = {bytes(restored): known[bytes(disk)]}
    assert "it has no marker instead of archive-of-acme" in gone(at(restored), moved)
    (restored / ".batchproc-root").write_text("another")
    assert "it has the marker another instead of archive-of-acme" in gone(at(restored), moved)
    (restored / ".batchproc-root").write_text("archive-of-acme")
    assert code(at(restored), moved) == "source_missing"


def test_a_marker_that_is_placed_later_does_not_make_another_root(disk: Path) -> None:
    known = seen(at(disk))
    (disk / ".batchproc-root").write_text("archive-of-acme")
    (disk / "2021" / "scan.tif").unlink()
    assert code(at(disk), known) == "source_missing"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"-dash", b"two words", b"x" * 65, b"\xff\xfe", b"a\x00b", b"x" * 5000]
)
def test_a_marker_without_an_id_is_none_and_is_named(disk: Path, content: bytes) -> None:
    (disk / ".batchproc-root").write_bytes(content)
    found, problem = identity_at(bytes(disk))
    assert found.marker is None
    assert problem is not None
    assert ".batchproc-root" in problem


def test_a_marker_is_a_plain_file_that_is_not_waited_for(disk: Path) -> None:
    marker = disk / ".batchproc-root"
    assert identity_at(bytes(disk)) == (identity(disk), None), "none at all is no problem"
    os.mkfifo(marker)
    assert identity_at(bytes(disk))[1] is not None
    marker.unlink()
    (disk / "id").write_text("archive")
    marker.symlink_to("id")
    assert identity(disk).marker is None


def test_what_is_known_is_learnt_once_and_renewed_when_proven(connection: Conn) -> None:
    roots = StorageRoots("batchproc")
    huge = RootIdentity(2**33, -(2**63), -1, None)  # as signed: what NFS and Ceph give as inode uses all 64 bits
    roots.learn(connection, {b"/a\xff": huge})
    StorageRoots("batchproc").learn(connection, {b"/a\xff": RootIdentity(1, 1, 1)})
    assert roots.known(connection, [b"/a\xff", b"/b"]) == {b"/a\xff": huge}
    roots.renew(connection, {b"/a\xff": RootIdentity(1, 1, 1, "id"), b"/b": RootIdentity(2, 2, 2)})
    assert [(root.root, root.identity) for root in roots.all(connection)] == [
        (b"/a\xff", RootIdentity(1, 1, 1, "id")),
        (b"/b", RootIdentity(2, 2, 2)),
    ]
    assert (roots.forget(connection, b"/b"), roots.forget(connection, b"/b")) == (True, False)
    assert list(roots.known(connection, [b"/b"])) == []


def test_each_machine_has_its_own_numbers_and_a_new_one_the_last_of_others(
    connection: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots, here = StorageRoots("batchproc"), UUID(int=1)

    def machine(boot_id: UUID) -> None:
        monkeypatch.setattr(storage_roots, "boot_id", lambda: boot_id)

    machine(here)
    roots.renew(connection, {b"/a": RootIdentity(1, 1, 1)})
    machine(UUID(int=2))
    assert roots.known(connection, [b"/a"]) == {b"/a": RootIdentity(1, 1, 1)}, "as after a restart"
    roots.renew(connection, {b"/a": RootIdentity(2, 1, 1)})
    machine(here)
    assert roots.known(connection, [b"/a"]) == {b"/a": RootIdentity(1, 1, 1)}
    machine(UUID(int=3))
    assert roots.known(connection, [b"/a"]) == {b"/a": RootIdentity(2, 1, 1)}, "the last of them"
    connection.execute("update batchproc.storage_roots set known_at = now() - interval '2 years'")
    roots.renew(connection, {b"/a": RootIdentity(3, 1, 1)})
    assert connection.execute("select count(*) from batchproc.storage_roots").fetchone() == (1,)


def test_whether_nothing_is_at_a_path_is_asked_of_every_root_above_it(
    connection: Conn, disk: Path, tmp_path: Path
) -> None:
    roots = StorageRoots("batchproc")
    missing = bytes(disk / "2021" / "none.tif")
    assert roots.doubt(connection, missing) is None
    roots.renew(connection, {bytes(disk): identity(disk)})
    assert roots.doubt(connection, missing) is None
    roots.renew(connection, {bytes(disk): replace(identity(disk), inode=1)})
    assert roots.doubt(connection, missing) is not None
    (tmp_path / "link").symlink_to(disk)
    assert roots.doubt(connection, bytes(tmp_path / "link" / "none.tif")) is not None
    assert roots.doubt(connection, bytes(disk)) is not None
    assert roots.doubt(connection, bytes(tmp_path / "elsewhere")) is None
    assert roots.doubt(connection, b"/a\0b") is None
    disk.rename(tmp_path / "moved")
    assert roots.doubt(connection, missing) is not None


def test_the_folders_of_a_file(disk: Path) -> None:
    assert folders_of(Location(b"/", b"a/b/c.pdf")) == [b"/", b"/a", b"/a/b"]
    assert folders_of(at(disk)) == [bytes(disk), bytes(disk / "2021")]
