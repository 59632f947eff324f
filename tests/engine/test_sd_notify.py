"""What is told to systemd, on real sockets."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.engine.sd_notify import Notifier
from batchproc.engine.service import Service
from tests.engine.running import Bench
from tests.faults.command import Run, started_run
from tests.waiting import wait_until


class Manager:
    """The other end of the socket, and all that came."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.told: list[dict[str, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def hear(self) -> list[dict[str, str]]:
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = self._socket.recv(4096).decode().split("\n")
                self.told.append(dict(line.split("=", 1) for line in lines))
        return self.told

    def states(self) -> list[str]:
        """The first word of each message; one for several signs of life in a row."""
        names = [next(iter(message)) for message in self.hear()]
        return [name for name, before in zip(names, ["", *names], strict=False) if name != before]

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@batchproc-test-{os.getpid()}"
    with Manager(address) as made:
        yield made


def test_states_are_told(manager: Manager) -> None:
    notifier = Notifier(manager.address)
    notifier.ready("claims jobs")
    notifier.reloading()
    notifier.stopping("forged\nREADY=1")
    ready, reloading, stopping = manager.hear()
    assert ready == {"READY": "1", "STATUS": "claims jobs"}
    assert reloading.keys() == {"RELOADING", "MONOTONIC_USEC"}
    assert abs(int(reloading["MONOTONIC_USEC"]) / 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC)) < 60
    assert stopping == {"STOPPING": "1", "STATUS": "forged READY=1"}


def test_signs_of_life_come_three_times_in_a_watchdogs_time(manager: Manager) -> None:
    notifier = Notifier(manager.address, watchdog=0.3)
    for _ in range(1000):
        notifier.alive()
    assert manager.hear() == [{"WATCHDOG": "1"}]

    def third() -> bool:
        notifier.alive()
        return len(manager.hear()) == 3

    begun = time.monotonic()
    wait_until(third, 5)
    assert time.monotonic() - begun > 0.19


def test_without_a_watchdog_there_are_none(manager: Manager) -> None:
    Notifier(manager.address).alive()
    assert manager.hear() == []


def test_nobody_who_listens_is_no_fault(tmp_path: Path) -> None:
    for address in (None, str(tmp_path / "nobody"), "@batchproc-nobody", "@" + "x" * 200):
        Notifier(address, watchdog=1.0).ready("fine")


def test_whoever_does_not_read_stops_nobody(tmp_path: Path) -> None:
    with Manager(str(tmp_path / "deaf")) as deaf:
        notifier = Notifier(deaf.address)
        for _ in range(2000):
            notifier.ready("x" * 200)
        assert 0 < len(deaf.hear()) < 2000, "the socket was full"


@pytest.mark.parametrize(
    ("pid", "usec", "pause"),
    [("", "30000000", 10.0), ("17", "30000000", 10.0), ("18", "30000000", None), ("", "0", None)],
)
def test_the_variables_are_taken_out_of_the_environment(pid: str, usec: str, pause: float | None) -> None:
    environ = {"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid, "HOME": "/root"}
    notifier = Notifier.taken_from(environ, 17)
    assert environ == {"HOME": "/root"}
    assert notifier._pause == pause


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative", "unix:/x"])
def test_other_addresses_are_left_alone(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}
    assert Notifier.taken_from(environ, 1)._address is None


def test_a_reload_while_the_node_stops_is_not_begun(manager: Manager) -> None:
    reloads: list[None] = []
    stopping = False
    service = Service(Notifier(manager.address), lambda: stopping, lambda: None, lambda: reloads.append(None))
    service.turn()
    service.ask_reload()
    service.ask_reload()
    service.turn()
    assert (len(reloads), manager.states()) == (1, ["READY", "RELOADING", "READY"])
    stopping = True
    service.turn()
    service.ask_reload()
    service.turn()
    assert (len(reloads), manager.states()[3:]) == (1, ["STOPPING"])


# -- the command as a service


@contextlib.contextmanager
def service(bench: Bench, folder: Path) -> Iterator[tuple[Manager, Run]]:
    with Manager(str(folder / "notify")) as manager:
        environment = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1500000"}
        with started_run(bench, "--forever", "--workers", "1", environment=environment) as run:
            yield manager, run


def log_of(run: Run, text: str) -> bool:
    return text in run.output()[1]


def test_a_service_is_ready_alive_reloaded_and_stopped(bench: Bench, tmp_path: Path) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_environment", {"word": "NOTIFY_SOCKET"})
    with service(bench, tmp_path) as (manager, run):
        wait_until(lambda: manager.states()[:2] == ["READY", "WATCHDOG"], 30, "it is ready, and alive")
        wait_until(lambda: bench.job(job)["state"] == "completed", 20, "it works")
        assert bench.job(job)["result"]["word"] == "", "no worker can speak for the service"
        wait_until(lambda: len(manager.hear()) >= 4, 10, "it stays alive")
        run.send(signal.SIGHUP)
        wait_until(lambda: "RELOADING" in manager.states(), 10, "it reads its settings")
        wait_until(lambda: manager.states()[-1] in ("READY", "WATCHDOG"), 10, "and goes on")
        assert run.stop() == 0
        assert manager.states()[-1] in ("STOPPING", "WATCHDOG")
        assert "STOPPING" in manager.states()
        assert log_of(run, "the settings were read again, nothing changed")


def test_a_node_that_hangs_tells_no_signs_of_life(bench: Bench, tmp_path: Path) -> None:
    with service(bench, tmp_path) as (manager, run):
        wait_until(lambda: "WATCHDOG" in manager.states(), 30, "it is alive")
        run.send(signal.SIGSTOP, run.node_pid)
        manager.hear()
        heard, since = len(manager.told), time.monotonic()
        wait_until(lambda: time.monotonic() - since > 1.5, 5, "a watchdog's time")
        assert len(manager.hear()) <= heard + 1
        run.send(signal.SIGCONT, run.node_pid)
        wait_until(lambda: len(manager.hear()) > heard + 1, 10, "it is alive again")
        assert run.stop() == 0
