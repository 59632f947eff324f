"""What a handler raises to say how its attempt ends."""

from __future__ import annotations


class Failure(Exception):
    """The job cannot be done.

    Args:
        code: one of the ``failure_codes`` that the kind declares.
        detail: a text that is safe to store and show: never the document's content, a password or a
            whole exception. At most 2,000 characters are kept.
        retry: True for a failure that may pass (counted as transient), False for a permanent one.
    """

    def __init__(self, code: str, *, detail: str | None = None, retry: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.retry = retry


class Snooze(Exception):
    """Not now: run the job again in ``seconds``, without an attempt used."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds:g} s")
        self.seconds = seconds


class StorageUnavailable(Exception):
    """The archive's storage is gone for now; the job is snoozed and the run ends with exit code 3."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail or "storage unavailable")
        self.detail = detail


class ClaimLost(Exception):
    """The job is no longer this worker's: nothing may be written for it any more."""
