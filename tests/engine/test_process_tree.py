from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.engine.pool import processes
from batchproc.engine.pool.process_tree import MARKER_VARIABLE, Origin, kill_tree, leftovers
from batchproc.engine.pool.processes import ProcessId, Stat, identify, is_alive, read_stat, resident_bytes, send, tree
from tests.waiting import wait_until

SLEEP = ["sleep", "600"]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for process in found:
        process.kill()
        process.communicate()


def identified(process: subprocess.Popen[bytes]) -> ProcessId:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_name_with_brackets_and_spaces_is_read(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    started.append(subprocess.Popen([program, "600"]))
    stat = wait_until(lambda: found if (found := read_stat(started[0].pid)) and found.resident else None)
    assert (stat.parent, stat.session) == (os.getpid(), os.getsid(0))


def test_an_ended_process_is_not_alive_before_and_after_it_is_waited_for() -> None:
    process = subprocess.Popen(["true"])
    name = identified(process)
    wait_until(lambda: (stat := read_stat(process.pid)) is not None and stat.state == "Z")
    assert not is_alive(name)
    process.wait()
    assert read_stat(process.pid) is None
    assert not is_alive(name)


def test_a_pid_that_was_used_again_is_not_signalled(started: list[subprocess.Popen[bytes]]) -> None:
    started.append(subprocess.Popen(SLEEP))
    name = identified(started[0])
    assert not send(ProcessId(name.pid, name.started - 1), signal.SIGKILL)
    assert started[0].poll() is None
    assert send(name, signal.SIGKILL)
    assert started[0].wait() == -signal.SIGKILL


def test_neither_this_process_nor_init_is_ever_signalled() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert not send(own, signal.SIGKILL)
    assert not send(ProcessId(1, 0), signal.SIGKILL)


def test_without_pidfds_the_start_time_still_protects(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    started.append(subprocess.Popen(SLEEP))
    name = identified(started[0])
    assert not send(ProcessId(name.pid, name.started - 1), signal.SIGKILL)
    assert send(name, signal.SIGKILL)
    assert started[0].wait() == -signal.SIGKILL


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_a_tree_is_found_and_killed_whole(
    kernel_lists_children: bool, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(processes, "_KERNEL_LISTS_CHILDREN", kernel_lists_children)
    script = "setsid sh -c 'trap \"\" TERM HUP; sleep 600 & sleep 600 & wait' & sleep 600"
    started.append(subprocess.Popen(["sh", "-c", script], start_new_session=True))
    root = identified(started[0])
    members = wait_until(lambda: found if len(found := tree(root)) == 5 else [])
    assert kill_tree(Origin(root, "none")) == []
    assert not any(is_alive(member.process) for member in members)
    assert read_stat(root.pid) is None, "a killed child of ours is waited for too"


def test_leftovers_of_a_dead_process_are_known_by_marker_session_or_sight(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    script = """
        exec 2> /dev/null
        sleep 600 & echo $! > $1/session
        setsid sh -c 'echo $$ > $1/marker; exec sleep 600' sh $1 &
        env -i setsid sh -c 'echo $$ > $1/seen; exec sleep 600' sh $1 &
        while ! [ -s $1/seen ] || ! [ -s $1/marker ] || ! [ -s $1/session ]; do sleep 0.01; done
        read line
        """
    environment = {**os.environ, MARKER_VARIABLE: "node:0:1"}
    root_process = subprocess.Popen(
        ["sh", "-c", script, "sh", str(tmp_path)], start_new_session=True, env=environment, stdin=subprocess.PIPE
    )
    bystander = subprocess.Popen(SLEEP, env={**os.environ, MARKER_VARIABLE: "node:0:11"}, start_new_session=True)
    started += [root_process, bystander]
    origin = Origin(identified(root_process), "node:0:1")
    names = ("session", "marker", "seen")
    wait_until(lambda: all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in names))
    pids = {name: int((tmp_path / name).read_text()) for name in names}
    seen = identify(pids["seen"])
    assert seen is not None
    root_process.kill()
    root_process.wait()
    unseen = {stat.process.pid for stat in leftovers(origin, frozenset())}
    assert unseen & {*pids.values(), bystander.pid} == {pids["session"], pids["marker"]}
    found = {stat.process.pid for stat in leftovers(origin, frozenset({seen}))}
    assert found & {*pids.values(), bystander.pid} == set(pids.values())
    assert kill_tree(origin, {seen}) == []
    assert not any((stat := read_stat(pid)) is not None and stat.alive for pid in pids.values())
    assert bystander.poll() is None


def test_what_does_not_die_is_reported_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(subprocess.Popen(SLEEP, start_new_session=True))
    root = identified(started[0])
    monkeypatch.setattr("batchproc.engine.pool.process_tree.send", lambda process, number: True)
    begin = time.monotonic()
    assert kill_tree(Origin(root, "none"), limit=0.2) == [root]
    assert time.monotonic() - begin < 2


def test_without_any_time_everything_is_killed_once(started: list[subprocess.Popen[bytes]]) -> None:
    started.append(subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True))
    root = identified(started[0])
    members = wait_until(lambda: found if len(found := tree(root)) == 2 else [])
    kill_tree(Origin(root, "none"), limit=0)
    wait_until(lambda: not any(is_alive(member.process) for member in members), what="all of it dead")


def test_another_users_process_is_left_alone_at_once(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    def refuse(process: ProcessId, number: signal.Signals) -> bool:
        raise PermissionError

    started.append(subprocess.Popen(SLEEP, start_new_session=True))
    root = identified(started[0])
    monkeypatch.setattr("batchproc.engine.pool.process_tree.send", refuse)
    begin = time.monotonic()
    assert kill_tree(Origin(root, "none"), limit=5) == [root]
    assert time.monotonic() - begin < 2


def test_shared_pages_are_not_counted_twice(started: list[subprocess.Popen[bytes]]) -> None:
    script = "import os, signal; x = bytearray(b'x' * (64 << 20)); [os.fork() or signal.pause() for _ in range(3)]; "
    started.append(subprocess.Popen([sys.executable, "-c", script + "signal.pause()"], start_new_session=True))
    root = identified(started[0])

    def grown() -> list[Stat]:
        found = tree(root)
        return found if len(found) == 4 and found[0].resident > 64 << 20 else []

    members = wait_until(grown)
    assert resident_bytes(members, 2**63) > 4 * 64 << 20
    assert 64 << 20 < resident_bytes(members, 1 << 20) < 128 << 20
    kill_tree(Origin(root, "none"))
