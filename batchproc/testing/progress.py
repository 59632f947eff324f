"""What a handler says of its progress, recorded; and the places where a test has it stopped or killed."""

from __future__ import annotations


class Killed(BaseException):
    """Stands for SIGKILL: no ``except Exception`` of a handler holds it up."""


class RecordedProgress:
    """The progress of one attempt.

    Args:
        stop_after: from so many reports or checkpoints on, the handler is asked to stop; None: never.
        kill_after: the report or checkpoint of this number raises ``Killed``; None: none does.
    """

    def __init__(self, stop_after: int | None = None, kill_after: int | None = None) -> None:
        self._stop_after = stop_after
        self._kill_after = kill_after
        self._told = 0
        self.steps: list[tuple[int, int]] = []
        self.checkpoints = 0

    def set(self, done: int, total: int) -> None:
        self.steps.append((done, total))
        self._tell()

    def checkpoint(self) -> None:
        self.checkpoints += 1
        self._tell()

    def stopping(self) -> bool:
        return self._stop_after is not None and self._told >= self._stop_after

    def beat(self) -> None:
        """Nobody waits for it."""

    def note_backend(self, pid: int) -> None:
        """Nobody ends it."""

    def loading(self, on: bool) -> None:
        """Nobody waits for it."""

    def _tell(self) -> None:
        self._told += 1
        if self._told == self._kill_after:
            raise Killed
