"""Errors a person can meet, each with what to do next and the exit code it leads to."""

from __future__ import annotations


class BatchprocError(Exception):
    """Base of every error that is shown to a person as one line, never as a traceback.

    Args:
        message: what happened, and to which tenant, document or job.
        hint: what to do next; empty when the message already says it.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[BatchprocError], tuple[str, str]]:
        return type(self), (self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class UsageError(BatchprocError):
    """The command, its arguments or the settings are wrong (exit code 2)."""

    exit_code = 2


class AnotherRun(BatchprocError):
    """A run that is to be the only one found another (exit code 4)."""

    exit_code = 4


class EnvironmentFault(BatchprocError):
    """A database, storage or other part of the environment is at fault (exit code 3)."""

    exit_code = 3
