"""The doctor on where a run tells of itself: found before the night, not in it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, start_http_server

from batchproc.ops.doctor.examination import CHECKS
from batchproc.ops.doctor.findings import Check, Patient, concluded
from batchproc.settings import Logging, Metrics, Settings, Tracing

Examine = Callable[..., Check]
BODY = "outlets"


@pytest.fixture
def check(tmp_path: Path) -> Examine:
    def made(**sections: object) -> Check:
        patient = Patient(Settings(), "the test", tmp_path, None, lambda: "", "")
        settings = Settings().model_copy(update=sections)
        return concluded(BODY, replace(patient, settings=settings), CHECKS[BODY])

    return made


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens who knows no HTTP."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def test_nothing_that_is_set_is_nothing_to_find(check: Examine) -> None:
    found = check()
    assert (found.ok, found.advice) == (True, None)


def test_what_can_be_written_is_well_and_is_not_made(check: Examine, tmp_path: Path) -> None:
    log, figures = tmp_path / "log", tmp_path / "batchproc.prom"
    found = check(logging=Logging(file=log), metrics=Metrics(textfile=figures, port=free_port()))
    assert (found.ok, found.advice) == (True, None), found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", ["logging.file", "metrics.textfile"])
def test_a_folder_that_is_not_there_is_named_with_its_setting(check: Examine, tmp_path: Path, setting: str) -> None:
    file = tmp_path / "nowhere" / "file"
    found = check(logging=Logging(file=file)) if setting == "logging.file" else check(metrics=Metrics(textfile=file))
    assert not found.ok
    assert f"{setting}: there is no folder {file.parent}" in found.detail
    assert setting in str(found.advice)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else_is_told(check: Examine, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    assert not check(metrics=Metrics(textfile=folder / "batchproc.prom")).ok


def test_a_port_that_another_program_has_is_told(check: Examine, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchproc.ops.doctor.outlets._ANSWER_SECONDS", 0.2)
    found = check(metrics=Metrics(port=taken))
    assert not found.ok
    assert f"127.0.0.1 port {taken} cannot be used: Address already in use" in found.detail


def test_a_service_of_ours_that_has_the_port_is_well(check: Examine) -> None:
    registry = CollectorRegistry()
    Counter("batchproc_of_the_test", "Whatever it counts.", registry=registry)
    server, thread = start_http_server(free_port(), "127.0.0.1", registry)
    try:
        found = check(metrics=Metrics(port=server.server_port))
        assert (found.ok, found.advice) == (True, None), found
        assert "a service answers on port" in found.detail
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_address_that_is_not_this_machines_is_told(check: Examine) -> None:
    found = check(metrics=Metrics(port=free_port(), address="192.0.2.1"))  # of nobody (RFC 5737)
    assert not found.ok
    assert "metrics.address" in str(found.advice)


def test_an_exporter_that_is_not_installed_is_told_with_those_that_are(check: Examine) -> None:
    assert check(tracing=Tracing(exporter="console")).ok
    found = check(tracing=Tracing(exporter="nonesuch"))
    assert not found.ok
    assert "no exporter called nonesuch is installed; there are: " in found.detail
