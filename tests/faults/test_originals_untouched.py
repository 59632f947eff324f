"""Originals are only read: nothing about them changes, nothing else is opened, nothing is waited for."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from batchproc.cli import main
from batchproc.documents.originals import Location, Original, OriginalError, StorageGone, locate
from tests.engine.running import Bench
from tests.faults import originals
from tests.faults.originals import CANARY, prints
from tests.faults.stored import tables_with
from tests.faults.watched import watched
from tests.ocr import drawn
from tests.waiting import wait_until

QUICK_OCR: dict[str, Any] = {"ocr": {"languages": ["eng"], "dpi": 70, "orientation": False}}
SECONDS_FOR_AN_IMPORT = 5.0
WHOLE_LETTER = drawn.pdf(drawn.PdfPage(drawn.shown(f"A letter to {CANARY}")))
OWN_LETTER = drawn.pdf(drawn.PdfPage(drawn.shown("A letter of my own")))


class Archive:
    """A tenant's folder, and a file outside of it that nobody may read."""

    def __init__(self, bench: Bench, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.bench = bench
        self.tenant = bench.tenant("acme")
        self.folder = folder / "archive"
        self.outside = folder / "outside.pdf"
        self.outside.write_bytes(WHOLE_LETTER)
        self._capture = capture

    def imported(self, *paths: Path) -> dict[str, str]:
        """What came of each: its name with its failure code, or ``imported``."""
        self._capture.readouterr()
        started = time.monotonic()
        arguments = [os.fspath(path) for path in paths or (self.folder,)]
        main.run(["--database", self.bench.url, "import", "-r", "--tenant", "acme", "--json", "--", *arguments])
        assert time.monotonic() - started < SECONDS_FOR_AN_IMPORT
        found = json.loads(self._capture.readouterr().out)
        codes = {Path(item["path"]).name: str(item["failure_code"]) for item in found["rejected"]}
        return codes | {Path(item["path"]).name: "imported" for item in found["documents"]}

    def holds_canary(self) -> list[str]:
        return tables_with(self.bench.connection, CANARY)


@pytest.fixture
def archive(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Archive:
    return Archive(bench, tmp_path, capfd)


def test_nothing_about_any_original_changes(archive: Archive) -> None:
    """Import and a whole run over files of every sort: bytes, modes, times, links are the same."""
    originals.of_every_sort(archive.folder)
    codes = originals.not_files(archive.folder, archive.outside)
    before = prints(archive.folder, archive.outside.parent)

    with watched(archive.outside) as watch:
        found = archive.imported()
        archive.bench.run(**QUICK_OCR, dispatch={"drain_wait": 0.0})
        assert not watch.touched()

    assert {name: code for name, code in found.items() if code != "imported"} == codes
    assert prints(archive.folder, archive.outside.parent) == before
    assert archive.holds_canary() == []
    [[settled]] = archive.bench.rows("select count(*) from batchproc.processing_jobs where state = 'completed'")
    assert settled > len(found) / 2


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/dev/tty", "/proc/kmsg", "/proc/version", "/sys/kernel"])
def test_devices_and_what_the_kernel_makes_up_are_no_files(archive: Archive, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"there is no {path} here")
    if not Path(path).is_dir():
        assert archive.imported(Path(path)) == {Path(path).name: "not_a_file"}
    with pytest.raises(OriginalError) as caught:
        Original(Location(b"/", os.fsencode(path)[1:]))
    assert caught.value.code == "not_a_file"


def _to_link(archive: Archive, file: Path) -> None:
    file.unlink()
    file.symlink_to(archive.outside)


def _to_folder_link(archive: Archive, file: Path) -> None:
    twin = archive.outside.parent / "twin"
    twin.mkdir()
    (twin / file.name).write_bytes(WHOLE_LETTER)
    file.unlink()
    file.parent.rmdir()
    file.parent.symlink_to(twin)


def _to_pipe(_: Archive, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _to_device(_: Archive, file: Path) -> None:
    file.unlink()
    with contextlib.suppress(PermissionError):
        os.mknod(file, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero
        return
    os.mkfifo(file)  # only root may make devices


def _to_folder(_: Archive, file: Path) -> None:
    file.unlink()
    file.mkdir()


def _to_other_content(_: Archive, file: Path) -> None:
    file.write_bytes(WHOLE_LETTER)


def _to_same_size(_: Archive, file: Path) -> None:
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"my own", b"Quetza"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


SWAPS: dict[Callable[[Archive, Path], None], str] = {
    _to_link: "outside_roots",
    _to_folder_link: "outside_roots",
    _to_pipe: "not_a_file",
    _to_device: "not_a_file",
    _to_folder: "not_a_file",
    _to_other_content: "source_changed",
    _to_same_size: "source_changed",
}


def test_what_is_swapped_after_its_import_is_not_read(archive: Archive) -> None:
    files = {swap: archive.folder / swap.__name__ / "letter.pdf" for swap in SWAPS}
    for swap, file in files.items():
        file.parent.mkdir(parents=True)
        file.write_bytes(OWN_LETTER + swap.__name__.encode())  # each content is a document of its own
    assert archive.imported() == {"letter.pdf": "imported"}
    for swap, file in files.items():
        swap(archive, file)

    with watched(archive.outside) as watch:
        archive.bench.run(**QUICK_OCR)
        assert not watch.touched()

    ended = archive.bench.rows(
        "select split_part(convert_from(d.path, 'UTF8'), '/', 1), j.failure_code"
        " from batchproc.processing_jobs j join batchproc.documents d using (document_id)"
    )
    assert dict(ended) == {swap.__name__: code for swap, code in SWAPS.items()}
    assert archive.holds_canary() == tables_with(archive.bench.connection, "Quetza") == []


def test_a_file_that_is_swapped_all_the_time_is_never_a_way_out(tmp_path: Path) -> None:
    """Between any two steps of an open the file or its folder may become a link: the other is never read."""
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "in", other):
        folder.mkdir(parents=True)
    (root / "in" / "file").write_bytes(b"own")
    (other / "file").write_bytes(CANARY.encode())
    (root / "file link").symlink_to(other / "file")
    (root / "folder link").symlink_to(other)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for one, another in ((root / "in" / "file", root / "file link"), (root / "in", root / "folder link")):
                _exchange(one, another)
                _exchange(one, another)

    swapping = threading.Thread(target=swap)
    swapping.start()
    read: list[bytes] = []
    refused: list[str] = []
    try:
        until = time.monotonic() + 1.5
        while time.monotonic() < until or not (read and refused):
            assert time.monotonic() < until + 20, (len(read), len(refused))
            try:
                with Original(Location(bytes(root), b"in/file")) as original:
                    read.append(os.pread(original.descriptor, 100, 0))
            except OriginalError as error:
                refused.append(error.code)
    finally:
        over.set()
        swapping.join()
    assert set(read) == {b"own"}
    assert set(refused) <= {"outside_roots", "source_missing", "not_a_file"}


def test_a_list_of_files_is_never_followed(archive: Archive, tmp_path: Path) -> None:
    """Tesseract reads the files that a text file names; it must never see a file, only pixels."""
    archive.folder.mkdir()
    secret = tmp_path / "secret.png"
    drawn.page((CANARY,) * 3).save(secret)
    for name, head in (("list.tif", ""), ("tiff.tif", "II*\0"), ("list.pdf", "%PDF-1.4\n"), ("png.png", "\n\n")):
        (archive.folder / name).write_text(f"{head}{secret}\n{secret}\n")

    with watched(secret) as watch:
        assert set(archive.imported().values()) == {"imported"}
        report = archive.bench.run(**QUICK_OCR)
        assert not watch.touched()

    assert report.counts.codes == {"unsupported_type": 2, "unreadable_file": 2}
    assert archive.holds_canary() == []


def test_a_pdf_opens_no_other_file(archive: Archive, tmp_path: Path) -> None:
    """Streams, images and actions of a PDF can name files (PDF 1.7, 7.11): none is looked at."""
    archive.folder.mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text(f"BT /F1 12 Tf 72 700 Td ({CANARY}) Tj ET")
    name = f"/F({secret})/FFilter/ASCIIHexDecode/Length 0"
    page = drawn.PdfPage(
        drawn.placed(72, 300, 90, 90),
        image=drawn.page(size=(90, 90)),
        image_dictionary=f"/Width 90/Height 90/ColorSpace/DeviceGray/BitsPerComponent 8/F({secret})",
        extra=f"/AA<</O<</S/Launch/F({secret})>>>>/Annots[<</Type/Annot/Subtype/FileAttachment/FS({secret})"
        "/Rect[0 0 99 99]>>]",
    )
    data = drawn.pdf(page, drawn.PdfPage(drawn.shown("A letter")))
    (archive.folder / "a.pdf").write_bytes(data)
    (archive.folder / "b.pdf").write_bytes(data.replace(b"<</Length ", b"<<" + name.encode() + b"/Length ", 1))

    with watched(secret) as watch:
        archive.imported()
        archive.bench.run(**QUICK_OCR)
        assert not watch.touched()

    assert archive.holds_canary() == []


def test_a_file_that_grows_without_end_is_not_read_without_end(tmp_path: Path) -> None:
    file = tmp_path / "growing"
    file.write_bytes(bytes(1 << 20))
    with Original(locate(bytes(file), [bytes(tmp_path)])) as original, file.open("ab") as growing:

        def grow() -> None:
            growing.write(bytes(8 << 20))
            growing.flush()

        grow()
        with pytest.raises(OriginalError) as caught:
            original.sha256(grow)
    assert caught.value.code == "source_changed"


def test_a_file_that_a_server_holds_for_a_client_is_not_missing(tmp_path: Path) -> None:
    """A file server that has leased a file to a client would be waited for; the storage is just not ready."""
    file = tmp_path / "leased.pdf"
    file.write_bytes(OWN_LETTER)
    with _leased(file), pytest.raises(StorageGone):
        Original(locate(bytes(file), [bytes(tmp_path)]))


@pytest.mark.parametrize("path", [b"a\0b", b"../outside", b"in/../../outside", b"", b".", b"/etc/passwd", b"x" * 5000])
def test_no_path_of_the_database_leads_out_of_its_root(tmp_path: Path, path: bytes) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_text(CANARY)
    with pytest.raises(OriginalError):
        Original(Location(bytes(tmp_path / "root"), path))
    with pytest.raises(OriginalError):
        locate(bytes(tmp_path / "root") + b"/" + path, [bytes(tmp_path / "root")])


def test_too_many_open_files_say_nothing_about_a_file(tmp_path: Path) -> None:
    """In a process of its own: it has no descriptor left when it opens the original."""
    (tmp_path / "letter.pdf").write_bytes(OWN_LETTER)
    script = (
        "import os, sys, resource\n"
        "from batchproc.documents.originals import Location, Original\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "try:\n    while True: os.dup(0)\nexcept OSError: pass\n"
        "try: Original(Location(os.fsencode(sys.argv[1]), b'letter.pdf'))\n"
        "except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "24\n", done.stderr  # EMFILE


def _exchange(one: Path, other: Path) -> None:
    """Each takes the other's name, one after the other, with a moment in which the first is missing."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@contextlib.contextmanager
def _leased(file: Path) -> Iterator[None]:
    """Another process holds a write lease on it (fcntl(2)), and does not give it up when it is asked to."""
    script = (
        "import fcntl, os, signal, sys\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        f"fcntl.fcntl(fd, {fcntl.F_SETLEASE}, {fcntl.F_WRLCK})\n"
        "print('held', flush=True)\nsignal.pause()\n"
    )
    holding = subprocess.Popen([sys.executable, "-c", script, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert holding.stdout is not None
        if holding.stdout.readline() != b"held\n":
            pytest.skip("no leases on this file system")
        yield
    finally:
        holding.send_signal(signal.SIGKILL)
        holding.communicate()
        wait_until(lambda: holding.poll() is not None, 5)
