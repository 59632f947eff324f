"""A folder of originals of every sort, and what must not change about any of them."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from tests.faults import mutations
from tests.ocr import drawn

CANARY = "Quetzalcoatl"
"""A word that no drawn document has."""


@dataclass(frozen=True)
class Print:
    """What tells a file from one that was touched; ``changed_ns`` moves with its mode, links and name, too."""

    mode: int
    inode: int
    links: int
    size: int
    modified_ns: int
    changed_ns: int
    content: str


def prints(*folders: Path) -> dict[bytes, Print]:
    """Of everything below the folders, the folders themselves included. Links are not followed."""
    found = {}
    for top in folders:
        for folder, folders_in, files in os.walk(os.fsencode(top)):
            for name in [b"", *folders_in, *files]:
                path = os.path.join(folder, name)  # noqa: PTH118 - pathlib knows no bytes
                found[path] = _print(path)
    return found


def of_every_sort(folder: Path) -> None:
    """Fills a folder: sound documents and broken ones, odd names, and what is no file at all."""
    folder.mkdir()
    for name, data in mutations.seeds().items():
        (folder / name).write_bytes(data)
    for seed in range(12):
        (folder / f"broken {seed}").write_bytes(mutations.mutant(seed).data)
    (folder / "empty.pdf").touch()
    (folder / "plain.txt").write_text("plain text")
    below = folder / "below" / "and below"
    below.mkdir(parents=True)
    (below / "letter.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("A letter"))))
    (below / "only for reading.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("Another letter"))))
    (below / "only for reading.pdf").chmod(0o400)
    (folder / "hard link.png").hardlink_to(folder / "grey.png")
    for odd in (b"\xff\xfe.pdf", b"two\nlines.pdf", b"-rf", b"$(touch x).pdf", b"' or 1=1 --.pdf", b"n" * 255):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + odd)).write_bytes(
            drawn.pdf(drawn.PdfPage(drawn.shown(odd.hex())))
        )


def not_files(folder: Path, outside: Path) -> dict[str, str]:
    """Adds what is no original, and leads to ``outside``; the failure code of each by its name."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(folder / "socket"))
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "full").symlink_to("/dev/full")
    (folder / "terminal").symlink_to("/dev/tty")
    (folder / "kernel").symlink_to("/proc/self/mem")
    (folder / "out").symlink_to(outside)
    (folder / "round").symlink_to("round")
    (folder / "nowhere").symlink_to("is not there")
    codes = dict.fromkeys(("zero", "full", "terminal", "kernel", "out"), "outside_roots")
    return codes | {
        "pipe": "not_a_file",
        "socket": "not_a_file",
        "round": "source_missing",
        "nowhere": "source_missing",
    }


def _print(path: bytes) -> Print:
    found = os.lstat(path)
    content = ""
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            content = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(found.st_mode):
        content = os.fsdecode(os.readlink(path))  # noqa: PTH115 - as above
    return Print(
        found.st_mode,
        found.st_ino,
        found.st_nlink,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        content,
    )
