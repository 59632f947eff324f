"""Running a program to its end, away from our terminal, and with all it started when it is given up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, Unpack

from batchproc.core.errors import EnvironmentFault


class Circumstances(TypedDict, total=False):
    """Arguments of subprocess; what is not given, or a user or group of None, is left as it is."""

    cwd: Path
    env: Mapping[str, str]
    umask: int
    pass_fds: Sequence[int]
    user: int | None
    group: int | None
    extra_groups: Sequence[int] | None


def run_to_end(
    command: Sequence[str],
    text: str = "",
    *,
    timeout: float | None = None,
    **circumstances: Unpack[Circumstances],
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a session of its own, which is killed whole when the program is not waited for any longer.

    It has no terminal to ask for a password on, and Ctrl-C comes to us alone.

    Args:
        text: its standard input.
        timeout: seconds; None for what may take as long as there is data.

    Raises:
        EnvironmentFault: it did not end in time.
    """
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        **circumstances,
    ) as process:
        try:
            stdout, stderr = process.communicate(text, timeout)
        except subprocess.TimeoutExpired:
            _kill_session(process)
            raise EnvironmentFault(
                f"{Path(command[0]).name} did not end within {timeout:.0f} seconds and was killed",
                "see what keeps the machine busy or its disk from answering, and try again",
            ) from None
        except BaseException:
            _kill_session(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _kill_session(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
