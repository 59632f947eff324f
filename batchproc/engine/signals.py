"""How a node is asked to stop: by signals that reach it, and by those that its guardian passes on.

A second signal means: at once. But one Ctrl-C, a closed terminal, ``timeout`` or systemd signal the whole group or
cgroup, guardian and node alike. So the guardian passes its own on as others, ``PASSED_ON``: the node knows which way
each has come, and that what came both ways was one.

A service has no terminal that could be closed: there SIGHUP asks for its settings to be read again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
AT_ONCE = signal.SIGQUIT
PASSED_ON = {number: signal.SIGRTMIN + place for place, number in enumerate(STOPPING)}
"""What the guardian sends in the place of each: real-time signals, which nothing else here uses."""

_ORIGINAL = {stand_in: number for number, stand_in in PASSED_ON.items()}
# timeout(1) signals its child, the guardian, and then its child's group; systemd may add SIGHUP. No person does it in
# that time, but on a keyboard: Ctrl-C is SIGINT, and each one reaches the node itself once.
_ONE_SIGNAL = 0.1
# The same signal by the other way comes in a moment, or when a busy machine lets the guardian run.
_TWIN = 5.0
_NEVER = float("-inf")


class Asks:
    """Tells how many stops are asked for by signals that may come twice. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        # By whether they were passed on.
        self._last = {False: _NEVER, True: _NEVER}
        self._unpaired = {False: _NEVER, True: _NEVER}
        self._hung_up = False

    def hear(self, number: int, now: float) -> int:
        """0 when this signal was heard before, by the other way or a moment ago; else 1, and 2 for ``AT_ONCE``."""
        if number == AT_ONCE:
            return 2
        passed_on, original = number in _ORIGINAL, _ORIGINAL.get(number, number)
        since, self._last[passed_on] = now - self._last[passed_on], now
        if since < _ONE_SIGNAL and number != signal.SIGINT:
            return 0
        if original == signal.SIGHUP:  # a terminal is closed once, though the kernel and its shell both say so
            before, self._hung_up = self._hung_up, True
            return 0 if before else 1
        if now - self._unpaired[not passed_on] < _TWIN:
            self._unpaired[not passed_on] = _NEVER
            return 0
        self._unpaired[passed_on] = now
        return 1


class _Hearing:
    """Takes the signals, and keeps what they ask for until somebody listens.

    Args:
        hangups_reload: SIGHUP asks for a reload, not for a stop.
    """

    def __init__(self, *, hangups_reload: bool = False) -> None:
        self._hangups_reload = hangups_reload
        self._reload_asked = False
        self._reloader: Callable[[], None] | None = None
        self._asks = Asks()
        self._kept: deque[None] = deque()
        self._listener: Callable[[], None] | None = None
        self.heard = False

    def take(self, number: int, _frame: FrameType | None) -> None:
        # No log line: it could wait for the one that this signal has interrupted.
        if self._hangups_reload and _ORIGINAL.get(number, number) == signal.SIGHUP:
            self._reload_asked = True
            self._tell_of_reload()
            return
        asked = self._asks.hear(number, time.monotonic())
        self.heard = self.heard or asked > 0
        self._kept.extend([None] * asked)
        self._tell()
        if len(self._kept) > 1:  # while the node starts, or when it is as good as gone
            raise KeyboardInterrupt

    @property
    def is_asked(self) -> bool:
        """Whether a stop waits to be told to a listener."""
        return bool(self._kept)

    @contextlib.contextmanager
    def told_to(self, listener: Callable[[], None], reloader: Callable[[], None] | None = None) -> Iterator[None]:
        self._listener, self._reloader = listener, reloader
        self._tell()
        self._tell_of_reload()
        try:
            yield
        finally:
            self._listener = self._reloader = None

    def _tell_of_reload(self) -> None:
        reloader = self._reloader
        if self._reload_asked and reloader is not None:
            self._reload_asked = False
            reloader()

    def _tell(self) -> None:
        # A signal may interrupt this very loop.
        while self._listener is not None:
            try:
                self._kept.popleft()
            except IndexError:
                return
            self._listener()


_hearing: _Hearing | None = None


def heeded() -> frozenset[signal.Signals]:
    """The signals that a node obeys. SIGHUP is not one where it was ignored from the start, as nohup(1) has it."""
    deaf = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return frozenset({*STOPPING, AT_ONCE} - deaf)


def has_terminal() -> bool:
    """Whether this process has a terminal, which sends SIGHUP when it is closed (see tty(4))."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def hear_from_now_on(*, hangups_reload: bool = False) -> None:
    """For a node in a process of its own: until its end no signal kills it, and none that comes early is lost.

    Where nobody listens yet, or any more, a first one waits and a second raises KeyboardInterrupt.

    Args:
        hangups_reload: SIGHUP is no stop, but calls ``request_reload`` of ``stopping_signals``.
    """
    global _hearing
    _hearing = _Hearing(hangups_reload=hangups_reload)
    for number in (*heeded(), *PASSED_ON.values()):
        signal.signal(number, _hearing.take)


def was_asked() -> bool:
    """Whether a stop that was asked for since ``hear_from_now_on`` waits for somebody to listen."""
    return _hearing is not None and _hearing.is_asked


def heard() -> bool:
    """Whether a stop was asked for since ``hear_from_now_on``, told to a listener or not."""
    return _hearing is not None and _hearing.heard


@contextlib.contextmanager
def stopping_signals(
    request_stop: Callable[[], None], request_reload: Callable[[], None] | None = None
) -> Iterator[None]:
    """Within, SIGTERM, SIGINT and SIGHUP call ``request_stop`` once, SIGQUIT twice; in the main thread only.

    What was heard before, since ``hear_from_now_on``, is told at once.
    """
    if _hearing is not None:
        with _hearing.told_to(request_stop, request_reload):
            yield
        return
    hearing = _Hearing()
    before = {number: signal.signal(number, hearing.take) for number in heeded()}
    try:
        with hearing.told_to(request_stop):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
