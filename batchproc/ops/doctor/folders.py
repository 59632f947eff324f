"""The doctor's look at folders and disks."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from batchproc.ops.doctor.findings import Findings, Patient

_READABLE_BY_OTHERS = 0o055
_WRITABLE_BY_OTHERS = 0o022


def check_folders(patient: Patient, findings: Findings) -> None:
    """Storage roots can be read, the home and temp folders written, and nobody else looks into what is there."""
    for root in patient.settings.storage.roots:
        _check_root(root, findings)
    if not patient.settings.storage.roots:
        findings.note("no storage.roots: whatever is imported")
    _check_home(patient.home, findings)
    _check_temp(findings)


def check_space(patient: Patient, findings: Findings) -> None:
    """Every disk that is written to has ``storage.min_free``."""
    least = patient.settings.storage.min_free
    seen: set[int] = set()
    for folder in _written_folders(patient):
        existing = _nearest(folder)
        device = existing.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(existing).free
        text = f"{_size(free)} free for {folder}"
        if free < least:
            findings.warning(f"only {text}", f"make room there: storage.min_free asks for {_size(least)}")
        else:
            findings.note(text)


def _written_folders(patient: Patient) -> Iterator[Path]:
    yield patient.home
    yield Path(tempfile.gettempdir())
    if patient.embedded_folder is not None:
        yield patient.embedded_folder
    if patient.settings.logging.file is not None:
        yield patient.settings.logging.file.parent


def _check_root(root: Path, findings: Findings) -> None:
    try:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
    except OSError as error:
        findings.fault(
            f"the storage root {root} cannot be read: {error.strerror}",
            "mount it, let this user read it, or correct storage.roots",
        )
        return
    if empty:
        findings.warning(f"the storage root {root} is empty", "check that the archive is mounted there")
    else:
        findings.note(f"{root} can be read")


def _check_home(home: Path, findings: Findings) -> None:
    if not home.exists():
        nearest = _nearest(home)
        if os.access(nearest, os.W_OK | os.X_OK):
            findings.note(f"{home} is made when needed")
        else:
            findings.fault(f"{home} cannot be made", f"let this user write to {nearest}, or set BATCHPROC_HOME")
        return
    if _cannot_be_written(home, findings, "set BATCHPROC_HOME to a folder of this user"):
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    advice = f"chmod 700 {home}"
    if mode & _WRITABLE_BY_OTHERS:
        findings.fault(f"others can write to {home} (mode {mode:04o})", advice)
    elif mode & _READABLE_BY_OTHERS:
        findings.warning(f"others can look into {home} (mode {mode:04o})", advice)
    else:
        findings.note(f"{home} can be written, by its owner only")


def _check_temp(findings: Findings) -> None:
    folder = Path(tempfile.gettempdir())
    advice = "set TMPDIR to a folder that this user can write to"
    if _cannot_be_written(folder, findings, advice):
        return
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        findings.fault(f"everybody may remove what others put into {folder}", f"chmod +t {folder}")
    else:
        findings.note(f"temp folder {folder} can be written")


def _cannot_be_written(folder: Path, findings: Findings, advice: str) -> bool:
    try:
        with tempfile.TemporaryDirectory(prefix="batchproc-doctor-", dir=folder) as made:
            Path(made, "file").write_bytes(b"written")
            mode = stat.S_IMODE(Path(made).stat().st_mode)
    except OSError as error:
        findings.fault(f"{folder} cannot be written: {error.strerror}", advice)
        return True
    if mode != 0o700:
        findings.fault(f"folders made in {folder} get mode {mode:04o} instead of 0700", advice)
    return False


def _nearest(folder: Path) -> Path:
    """The folder itself, or the first above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
