"""Tracebacks of errors that nobody expected, without the passwords that their texts may quote."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

from batchproc.core.shown_text import redact


def hide_passwords_in_tracebacks() -> None:
    """From now on what Python prints of an error that nothing caught, in any thread, is redacted as the log is."""
    sys.excepthook = _print
    threading.excepthook = _print_of_thread


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if sys.stderr is not None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _print_of_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is not SystemExit and arguments.exc_value is not None and sys.stderr is not None:
        sys.stderr.write(f"in thread {arguments.thread.name if arguments.thread else '?'}:\n")
        _print(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
