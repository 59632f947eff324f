"""Programs are waited for within bounds, and leave nothing behind when they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from batchproc.core.errors import EnvironmentFault
from batchproc.embedded.running import run_to_end
from tests.waiting import wait_until


def test_a_program_gets_its_input_and_gives_its_outputs() -> None:
    program = "import sys; print(sys.stdin.read()); print('aside', file=sys.stderr); sys.exit(3)"
    ended = run_to_end([sys.executable, "-c", program], "told")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "told\n", "aside\n")


def test_a_program_has_a_session_of_its_own() -> None:
    ended = run_to_end([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid())"])
    assert ended.stdout == "True\n"


def test_a_program_that_does_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    # The child keeps the outputs open: killing its parent alone would leave us waiting for their end.
    with pytest.raises(EnvironmentFault, match=r"sh did not end within 1 seconds and was killed"):
        run_to_end(["/bin/sh", "-c", f"sleep 300 & echo $! > {note}; wait"], timeout=1.0)
    wait_until(lambda: not _is_running(int(note.read_text())), 30, "the end of the child")


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
