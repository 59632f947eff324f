"""Originals are opened read-only, below their root, and never anything but regular files."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from batchproc.documents.originals import HASH_CHUNK, Location, Original, OriginalError, StorageGone, locate


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    (folder / "2023").mkdir(parents=True)
    (folder / "2023" / "scan.tif").write_bytes(b"pixels")
    return folder


def at(root: Path, path: bytes) -> Location:
    return Location(bytes(root), path)


def opening(location: Location) -> Callable[[], object]:
    return lambda: Original(location)


def open_descriptors() -> list[Path]:
    return list(Path("/proc/self/fd").iterdir())


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(OriginalError) as caught:
        call()
    return caught.value.code


def test_reading_hashing_and_reading_again_use_one_descriptor(root: Path) -> None:
    with Original(at(root, b"2023/scan.tif")) as original:
        (root / "2023" / "scan.tif").rename(root / "gone.tif")
        (root / "2023" / "scan.tif").write_bytes(b"something else")
        assert original.size == 6
        assert original.sha256() == hashlib.sha256(b"pixels").digest()
        assert os.pread(original.descriptor, 100, 0) == b"pixels"


def test_a_large_file_is_hashed_in_pieces(root: Path) -> None:
    content = os.urandom(1024) * (HASH_CHUNK // 1024 * 2 + 1)
    (root / "large").write_bytes(content)
    chunks: list[int] = []
    with Original(at(root, b"large")) as original:
        assert original.sha256(lambda: chunks.append(1)) == hashlib.sha256(content).digest()
    assert len(chunks) == 3


def test_the_original_is_opened_for_reading_only(root: Path) -> None:
    with Original(at(root, b"2023/scan.tif")) as original:
        assert original.descriptor > 2
        descriptors = [fd for fd in open_descriptors() if fd.exists() and fd.resolve() == root / "2023" / "scan.tif"]
        infos = [Path("/proc/self/fdinfo", fd.name).read_text() for fd in descriptors]
    flags = [int(line.split()[1], 8) for info in infos for line in info.splitlines() if line.startswith("flags:")]
    assert [found & (os.O_ACCMODE | os.O_CLOEXEC) for found in flags] == [os.O_RDONLY | os.O_CLOEXEC]


def test_no_descriptor_is_left_open(root: Path) -> None:
    os.mkfifo(root / "pipe")
    before = len(open_descriptors())
    with Original(at(root, b"2023/scan.tif")):
        pass
    for path in (b"pipe", b"2023", b"missing", b"2023/missing", b"../etc"):
        assert refused(opening(at(root, path)))
    assert len(open_descriptors()) == before


def test_what_is_not_a_regular_file_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    for path in (b"pipe", b"socket", b"2023"):
        assert refused(opening(at(root, path))) == "not_a_file"
    assert refused(opening(Location(b"/dev", b"zero"))) == "not_a_file"


def test_symbolic_links_below_the_root_are_refused_when_opened(root: Path) -> None:
    (root / "link.tif").symlink_to(root / "2023" / "scan.tif")
    (root / "2024").symlink_to(root / "2023")
    assert refused(opening(at(root, b"link.tif"))) == "outside_roots"
    assert refused(opening(at(root, b"2024/scan.tif"))) == "outside_roots"


@pytest.mark.parametrize("path", [b"../secret", b"2023/../../secret", b"/etc/passwd", b"", b"./2023/scan.tif"])
def test_paths_that_lead_out_of_the_root_are_refused(root: Path, path: bytes) -> None:
    (root.parent / "secret").write_bytes(b"")
    assert refused(opening(at(root, path))) == "outside_roots"


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    with Original(at(tmp_path / "link", b"2023/scan.tif")) as original:
        assert os.read(original.descriptor, 100) == b"pixels"


def test_a_missing_file_is_missing_and_a_missing_root_is_storage_that_is_gone(root: Path, tmp_path: Path) -> None:
    assert refused(opening(at(root, b"2023/none.tif"))) == "source_missing"
    assert refused(opening(at(root, b"2023/scan.tif/none"))) == "source_missing"
    with pytest.raises(StorageGone, match="No such file"):
        Original(at(tmp_path / "unmounted", b"scan.tif"))


def test_locating_resolves_links_inside_the_roots_and_refuses_those_that_leave(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.tif").write_bytes(b"")
    (root / "inside.tif").symlink_to("2023/scan.tif")
    (root / "outside.tif").symlink_to(tmp_path / "elsewhere.tif")
    (root / "dangling.tif").symlink_to("nowhere")
    (root / "loop.tif").symlink_to("loop.tif")
    roots = [bytes(root)]
    assert locate(bytes(root / "inside.tif"), roots) == at(root, b"2023/scan.tif")
    assert locate(bytes(root) + b"/2023/../2023/./scan.tif", roots) == at(root, b"2023/scan.tif")
    assert refused(lambda: locate(bytes(root / "outside.tif"), roots)) == "outside_roots"
    assert refused(lambda: locate(bytes(root / "dangling.tif"), roots)) == "source_missing"
    assert refused(lambda: locate(bytes(root / "loop.tif"), roots)) == "source_missing"
    assert refused(lambda: locate(bytes(tmp_path / "elsewhere.tif"), roots)) == "outside_roots"


def test_a_root_is_no_prefix_of_a_name(root: Path) -> None:
    sibling = root.parent / "archive-old"
    sibling.mkdir()
    (sibling / "scan.tif").write_bytes(b"")
    assert refused(lambda: locate(bytes(sibling / "scan.tif"), [bytes(root)])) == "outside_roots"


def test_the_innermost_root_is_taken_as_it_was_given(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mount").symlink_to(root / "2023")
    found = locate(bytes(root / "2023" / "scan.tif"), [bytes(root), bytes(tmp_path / "mount")])
    assert found == at(tmp_path / "mount", b"scan.tif")


def test_a_file_that_is_written_to_is_noticed(root: Path) -> None:
    with Original(at(root, b"2023/scan.tif")) as original:
        assert not original.touched()
        (root / "2023" / "scan.tif").write_bytes(b"other pixels")
        assert original.touched()


def test_a_file_that_is_written_to_is_noticed_even_when_its_size_and_time_are_put_back(root: Path) -> None:
    file = root / "2023" / "scan.tif"
    before = file.stat()
    with Original(at(root, b"2023/scan.tif")) as original:
        file.write_bytes(b"PIXELS")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert file.stat().st_mtime_ns == before.st_mtime_ns
        assert original.touched()


def test_a_file_that_never_rests_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / "2023" / "scan.tif"

    def growing(fd: int, buffers: list[memoryview], position: int) -> int:
        if position == 0:
            file.write_bytes(file.read_bytes() + b"!")
        return os.readv(fd, buffers)

    monkeypatch.setattr("batchproc.documents.originals.os.preadv", growing)
    with Original(at(root, b"2023/scan.tif")) as original:
        assert refused(original.steady_sha256) == "source_changed"


def test_a_read_error_of_the_storage_says_nothing_about_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int, buffers: list[memoryview], position: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Original(at(root, b"2023/scan.tif")) as original:
        monkeypatch.setattr("batchproc.documents.originals.os.preadv", failing)
        with pytest.raises(StorageGone, match=r"scan\.tif: Input/output error"):
            original.sha256()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_permission_denied(root: Path) -> None:
    (root / "2023" / "scan.tif").chmod(0)
    assert refused(opening(at(root, b"2023/scan.tif"))) == "permission_denied"
