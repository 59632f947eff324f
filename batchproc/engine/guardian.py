"""The guardian: the first process of a run, which starts the node as its child and outlives it.

It has no threads, no connection and no work of its own, so that nothing but a kill can end it before the node. It is
a subreaper: what loses its parent anywhere below it, even in a session of its own and with an emptied environment,
becomes its child, and dies when the node has died. If the guardian itself is killed, the kernel kills the node, and
the forkserver, which then has no node, ends what is below it.

The node stays in its process group: the terminal's signals (Ctrl-C, Ctrl-Z and fg, a hangup) are for both, as for one
command. What is sent to the guardian alone is passed on; see ``signals`` for what reaches both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable

from batchproc.core.errors import EnvironmentFault
from batchproc.engine import signals, workdir
from batchproc.engine.pool import process_title, process_tree, processes
from batchproc.engine.pool.processes import ProcessId

# They have no meaning here. A node that dies of one is cleaned up after, a guardian would not be.
_PASSED_ON_AS_THEY_ARE = frozenset({signal.SIGUSR1, signal.SIGUSR2})


def guarded(
    node: Callable[[], int], spared: Callable[[], Iterable[ProcessId]] = tuple, *, hangups_reload: bool = False
) -> int:
    """Runs ``node`` in a child process. Both processes return, with its exit code, and have to end with that.

    To be called in the main thread, when there is no other, and no connection is open that only one of them may use.
    When the guardian returns, nothing of the node is left: no process below it, no temp folder.

    Args:
        spared: asked when the node has ended: what is to live on although it may be below it, such as a database server
            that was started again.
        hangups_reload: to the node SIGHUP is no stop, see ``signals``.

    Raises:
        EnvironmentFault: in the guardian, when the node was killed or could not be started.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what waits there would be written by both
    others = frozenset(child.process for child in processes.descendants(os.getpid()))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started this may have had it ignored
    processes.prctl(processes.PR_SET_CHILD_SUBREAPER, 1)
    guardian_pid, heeded = os.getpid(), signals.heeded() | _PASSED_ON_AS_THEY_ARE
    signal.pthread_sigmask(signal.SIG_BLOCK, {*heeded, *signals.PASSED_ON.values(), signal.SIGCHLD})
    try:
        node_pid = os.fork()
    except OSError as error:
        raise EnvironmentFault(
            f"no process can be started for the node: {error.strerror}", "see what uses up memory or processes"
        ) from None
    if node_pid == 0:
        _bind_to(guardian_pid)
        process_title.show("batchproc node: starting")
        signals.hear_from_now_on(hangups_reload=hangups_reload)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return node()
    process_title.show(f"batchproc guardian: {process_title.command()}")
    exit_code = _watch(node_pid, heeded)
    process_tree.kill_descendants(guardian_pid, spared=others | frozenset(spared()))
    _bury(node_pid)
    workdir.remove_leftovers()
    if exit_code < 0:
        raise _node_was_killed(node_pid, signal.Signals(-exit_code))
    return exit_code


def _bind_to(guardian_pid: int) -> None:
    """The node is killed with its guardian, whose only thread has started it."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guardian_pid:  # it died before the signal was asked for
        os._exit(1)


def _watch(node_pid: int, heeded: frozenset[signal.Signals]) -> int:
    """Passes signals on until the node has ended; its exit code, negative for the signal that killed it."""
    while True:
        number = signal.Signals(signal.sigwait(heeded | {signal.SIGCHLD}))
        if number != signal.SIGCHLD:
            os.kill(node_pid, signals.PASSED_ON.get(number, number))
        elif (exit_code := _bury(node_pid)) is not None:
            return exit_code


def _bury(node_pid: int) -> int | None:
    """Takes leave of all children that have ended, adopted ones too; the exit code of the node if it is among them."""
    exit_code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)  # nobody else here waits for one
            if pid == 0:
                break
            if pid == node_pid:
                exit_code = os.waitstatus_to_exitcode(status)
    return exit_code


def _node_was_killed(node_pid: int, number: signal.Signals) -> EnvironmentFault:
    return EnvironmentFault(
        f"the node, process {node_pid} on {socket.gethostname()}, was killed by signal {number:d} ({number.name});"
        " its running jobs are taken back by the next run, once the node's lease has ended",
        "if nobody did that by hand, look for a lack of memory: dmesg | grep -i oom",
    )
