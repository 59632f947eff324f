"""The doctor's look at where a run tells of itself: its log file, figures for Prometheus, and spans."""

from __future__ import annotations

import errno
import os
import socket
import urllib.request
from pathlib import Path

from batchproc.ops import tracing
from batchproc.ops.doctor.findings import Findings, Patient

_ANSWER_SECONDS = 2.0
_OURS = b"batchproc_"


def check_outlets(patient: Patient, findings: Findings) -> None:
    """Each can be written to, or is free, by this user and now; a service of ours that is there already is well."""
    settings = patient.settings
    if settings.logging.file is not None:
        _check_file(settings.logging.file, "logging.file", findings)
    if settings.metrics.textfile is not None:
        _check_file(settings.metrics.textfile, "metrics.textfile", findings)
    if settings.metrics.port is not None:
        _check_port(str(settings.metrics.address), settings.metrics.port, findings)
    if settings.tracing.exporter is not None:
        tracing.require_exporter(settings.tracing.exporter)
        findings.note(f"the exporter {settings.tracing.exporter} is installed")
    if not findings.found:
        findings.note("neither a log file nor metrics nor tracing is set")


def _check_file(file: Path, setting: str, findings: Findings) -> None:
    advice = f"let this user write there, or correct {setting}"
    if not file.parent.is_dir():
        findings.fault(f"{setting}: there is no folder {file.parent}", f"make it, or correct {setting}")
    elif file.exists() and not os.access(file, os.W_OK):
        findings.fault(f"{setting}: {file} cannot be written", advice)
    elif not os.access(file.parent, os.W_OK | os.X_OK):  # it is replaced as a whole, or moved away and made anew
        findings.fault(f"{setting}: files in {file.parent} cannot be made", advice)
    else:
        findings.note(f"{setting}: {file} can be written")


def _check_port(address: str, port: int, findings: Findings) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the service does
            probe.bind((address, port))
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _answers_as_ours(address, port):
            findings.note(f"a service answers on port {port}")
            return
        findings.fault(
            f"metrics.port: {address} port {port} cannot be used: {error.strerror}",
            "end what has it, or correct metrics.port and metrics.address",
        )
    else:
        findings.note(f"port {port} is free for a service")


def _answers_as_ours(address: str, port: int) -> bool:
    host = f"[{address}]" if ":" in address else address
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - where it listens, not what is asked
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=_ANSWER_SECONDS) as answer:
            return _OURS in answer.read(1 << 20)
    except (OSError, ValueError):
        return False
