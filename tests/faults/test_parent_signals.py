"""Signals to a run: to its guardian, to its node, to all of it; once and twice; with busy workers.

A first one lets what runs end within the grace, a second one interrupts it at once. Neither costs an attempt, and
nothing survives.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchproc.engine.pool import processes
from tests.engine.running import Bench
from tests.faults import parent_handlers
from tests.faults.command import START_SECONDS, Run, assert_gone, await_end_of_leases, pids_in, started_run
from tests.waiting import wait_until

HANDLERS = (parent_handlers.MODULE, "tests.engine.job_handlers")
LONG_GRACE: dict[str, Any] = {"pool": {"shutdown_grace": 600.0}, "handlers": HANDLERS}
TERM, INT, HUP, QUIT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT


def to_guardian(run: Run) -> list[int]:
    return [run.guardian_pid]


def to_node(run: Run) -> list[int]:
    return [run.node_pid]


def to_group(run: Run) -> list[int]:
    """As Ctrl-C on a terminal, or timeout(1)."""
    return [-os.getpgid(run.guardian_pid)]


def to_everything(run: Run) -> list[int]:
    """As systemd with KillMode=control-group; from the leaves to the root, which is the worst order."""
    return [process.pid for process in sorted(run.everything(), key=lambda found: -found.started)] + [run.guardian_pid]


class Jobs:
    """Two jobs for two workers, and two that wait for those to end."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench, self._folder = bench, folder
        self.gate, self.heard = folder / "gate", folder / "heard"
        self.busy: list[int] = []
        self.waiting: list[int] = []

    def enqueue(self, lingers: float | None) -> None:
        """Busy jobs that go on for so long after they heard of the stop; None is for ever."""
        tenant = self._bench.tenant("acme")
        args: dict[str, Any] = {"pids": str(self._folder / "pids"), "gate": str(self.gate), "heard": str(self.heard)}
        args["lingers"] = lingers
        job_ids = [self._bench.enqueue(tenant, "parent_busy", args) for _ in range(4)]
        self.busy, self.waiting = job_ids[:2], job_ids[2:]

    def family(self) -> list[processes.ProcessId]:
        """The workers and what they have started."""
        pids = wait_until(
            lambda: pids_in(self._folder / "pids", 2 * parent_handlers.FAMILY), START_SECONDS, "both jobs run"
        )
        return [found for pid in pids if (found := processes.identify(pid))]

    def assert_node_goes_on(self) -> None:
        """It renews its lease twice, so that a whole wait between two renewals has passed."""
        seen: set[object] = set()

        def renewed() -> bool:
            seen.update(self._bench.rows("select lease_until from batchproc.nodes"))
            return len(seen) > 2

        wait_until(renewed, 4.0, "the node renews its lease")

    def assert_ended(self) -> None:
        """They ran to their end, each once, and the others were not begun."""
        for job_id in self.busy:
            assert self._shown(job_id) == ("completed", 1, [None])
        self._assert_not_begun()

    def assert_interrupted(self) -> None:
        """They wait again, with no attempt used."""
        for job_id in self.busy:
            shown = self._bench.job(job_id)
            assert (shown["state"], shown["attempt"]) == ("available", 0)
            assert [attempt["outcome"] for attempt in shown["attempts"]] == ["interrupted"]
        self._assert_not_begun()

    def finish(self) -> None:
        """In another run."""
        self.gate.touch()
        with started_run(self._bench, "--workers", "2", handlers=HANDLERS) as run:
            assert run.wait(30) == 0, run.output()
        assert self._bench.states(self.busy + self.waiting) == {"completed": 4}
        assert {self._bench.job(job_id)["attempt"] for job_id in self.busy + self.waiting} == {1}

    def _assert_not_begun(self) -> None:
        for job_id in self.waiting:
            assert self._shown(job_id) == ("available", 0, [])

    def _shown(self, job_id: int) -> tuple[str, int, list[str | None]]:
        shown = self._bench.job(job_id)
        return shown["state"], shown["attempt"], [attempt["error_class"] for attempt in shown["attempts"]]


@pytest.fixture
def jobs(bench: Bench, tmp_path: Path) -> Jobs:
    return Jobs(bench, tmp_path)


def combined(quick: set[tuple[signal.Signals, Callable[[Run], list[int]]]], *numbers: signal.Signals) -> list[Any]:
    """Each signal to each of the three; all but the quick ones are long."""
    return [
        pytest.param(
            number,
            target,
            marks=[] if (number, target) in quick else pytest.mark.long,
            id=f"{number.name}-{target.__name__}",
        )
        for number in numbers
        for target in (to_guardian, to_node, to_group)
    ]


@pytest.mark.parametrize(("number", "target"), combined({(TERM, to_group)}, TERM, INT, HUP))
def test_one_signal_lets_running_jobs_end(
    bench: Bench, jobs: Jobs, number: signal.Signals, target: Callable[[Run], list[int]]
) -> None:
    jobs.enqueue(lingers=0.7)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        family = jobs.family()

        run.send(number, *target(run))

        wait_until(jobs.heard.exists, what="the handlers see ctx.stopping")
        assert run.wait() == 0, run.output()
        assert_gone(family)
        assert run.output() == ("", "")
    jobs.assert_ended()
    jobs.finish()


@pytest.mark.parametrize(("number", "target"), combined({(INT, to_group)}, TERM, INT))
def test_a_second_signal_interrupts_at_once(
    bench: Bench, jobs: Jobs, number: signal.Signals, target: Callable[[Run], list[int]]
) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        family = jobs.family()

        run.send(number, *target(run))
        wait_until(jobs.heard.exists, what="the handlers see ctx.stopping")
        jobs.assert_node_goes_on()
        run.send(number, *target(run))

        assert run.wait() == 0, run.output()
        assert_gone(family)
    jobs.assert_interrupted()
    jobs.finish()


@pytest.mark.parametrize(("number", "target"), combined(set(), QUIT))
def test_sigquit_interrupts_at_once_and_dumps_no_core(
    bench: Bench, jobs: Jobs, number: signal.Signals, target: Callable[[Run], list[int]]
) -> None:
    jobs.enqueue(lingers=None)
    before = ("sh", "-c", 'ulimit -S -c "$(ulimit -H -c)" && exec "$@"', "sh")  # what may dump a core would
    cores = set(Path.cwd().glob("core*"))
    with started_run(bench, "--workers", "2", before=before, **LONG_GRACE) as run:
        family = jobs.family()
        workers = [resource.prlimit(pid, resource.RLIMIT_CORE)[0] for pid in run.worker_pids(2)]
        assert workers == [0, 0], "theirs would hold a document"

        run.send(number, *target(run))

        assert run.wait() == 0, run.output()  # so that neither guardian nor node has died of it
        assert_gone(family)
    assert set(Path.cwd().glob("core*")) == cores
    jobs.assert_interrupted()
    jobs.finish()


@pytest.mark.long
def test_what_does_not_end_within_the_grace_is_interrupted(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", handlers=HANDLERS, pool={"shutdown_grace": 5.0}) as run:
        family = jobs.family()

        run.send(TERM)

        wait_until(jobs.heard.exists, what="the handlers see ctx.stopping")
        jobs.assert_node_goes_on()
        assert all(processes.is_alive(process) for process in family)
        assert run.wait() == 0, run.output()
        assert_gone(family)
    jobs.assert_interrupted()
    jobs.finish()


@pytest.mark.long
def test_a_signal_to_the_whole_cgroup_costs_no_attempt(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        family = jobs.family()

        # Workers die of it, before the node can know that it is to stop.
        run.send(TERM, *to_everything(run))

        assert run.wait() == 0, run.output()
        assert_gone(family)
    jobs.assert_interrupted()
    jobs.finish()


@pytest.mark.long
@pytest.mark.parametrize("number", [TERM, INT, HUP])
def test_the_two_signals_of_timeout_are_one(bench: Bench, jobs: Jobs, number: signal.Signals) -> None:
    jobs.enqueue(lingers=0.7)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        family = jobs.family()

        run.send(number, run.guardian_pid, *to_group(run))

        assert run.wait() == 0, run.output()
        assert_gone(family)
    jobs.assert_ended()


@pytest.mark.long
def test_under_nohup_a_closed_terminal_changes_nothing(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=0.0)
    with started_run(bench, "--workers", "2", before=("nohup",), **LONG_GRACE) as run:
        jobs.family()

        run.send(HUP, *to_group(run))
        jobs.gate.touch()

        assert run.wait() == 0, run.output()
    assert bench.states(jobs.busy + jobs.waiting) == {"completed": 4}
    assert not jobs.heard.exists()


@pytest.mark.long
@pytest.mark.parametrize("after", [0.0, 0.2, 0.5, 1.0])
def test_a_signal_while_the_node_starts_is_not_lost(bench: Bench, jobs: Jobs, after: float) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        run.node_pid  # noqa: B018 - waits for it
        send_at = time.monotonic() + after
        wait_until(lambda: run.everything() and time.monotonic() >= send_at)

        run.send(TERM, *to_group(run))

        # If it was quick to start, its jobs have begun, and are asked to stop; their grace is long.
        wait_until(lambda: run.process.poll() is not None or jobs.heard.exists(), START_SECONDS)
        if run.process.poll() is None:
            run.send(QUIT)
        assert run.wait() == 0, run.output()
        run.assert_gone()
    jobs.finish()


@pytest.mark.long
def test_a_second_signal_while_the_node_starts_ends_it(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        run.node_pid  # noqa: B018 - waits for it

        run.send(QUIT)

        assert run.wait() == 130, run.output()
        assert [text.strip() for text in run.output()] == ["", "batchproc: stopped"]
        run.assert_gone()
    assert bench.rows("select claim_id from batchproc.job_attempts") == []
    jobs.finish()


@pytest.mark.long
def test_a_signal_that_means_nothing_here_is_for_the_node_to_die_of(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=None)
    with started_run(bench, "--workers", "2", **LONG_GRACE) as run:
        family = jobs.family()

        run.send(signal.SIGUSR1)

        assert run.wait() == 3
        assert "was killed by signal 10 (SIGUSR1)" in run.output()[1]
        assert_gone(family)
    jobs.gate.touch()
    await_end_of_leases(bench)
    with started_run(bench, "--workers", "2", handlers=HANDLERS) as other:
        assert other.wait(30) == 0
    assert bench.states(jobs.busy + jobs.waiting) == {"completed": 4}


@pytest.mark.long
def test_once_stops_like_a_run(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=0.3)
    with started_run(bench, "--once", str(jobs.busy[0]), **LONG_GRACE) as run:
        wait_until(lambda: jobs.heard.with_name("pids").exists(), START_SECONDS)

        run.send(INT, *to_group(run))

        assert run.wait() == 0, run.output()
        assert "completed" in run.output()[0]
    assert bench.states(jobs.busy) == {"completed": 1, "available": 1}


@pytest.mark.long
def test_the_stopped_run_tells_its_counts_as_json(bench: Bench, jobs: Jobs) -> None:
    jobs.enqueue(lingers=0.0)
    with started_run(bench, "--workers", "2", "--json", **LONG_GRACE) as run:
        jobs.family()

        run.send(TERM)

        assert run.wait() == 0, run.output()
        [line] = run.output()[0].splitlines()
        assert (json.loads(line)["completed"], json.loads(line)["left"]) == (2, 2)


@pytest.mark.long
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_no_harm(bench: Bench, tmp_path: Path, closed: str) -> None:
    job = bench.enqueue(bench.tenant("acme"), "t_hang_in_c", {"path": str(tmp_path / "pids")})
    before = ("sh", "-c", f'exec "$@" {closed}', "sh")
    with started_run(bench, "--workers", "1", handlers=HANDLERS, before=before) as run:
        assert run.wait(30) == 1
        assert run.output()[1] == ""
    assert bench.job(job)["failure_code"] == "timeout"
