"""The notification protocol of systemd: what a service tells whoever started it (sd_notify(3), systemd.service(5)).

Datagrams of ``NAME=value`` lines to the socket in ``NOTIFY_SOCKET``. It needs no library of systemd's, and anybody
who speaks the protocol, such as a container's supervisor, may be at the other end. Nothing depends on it: a message
that cannot be sent is dropped.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import MutableMapping

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_PINGS_PER_WATCHDOG = 3


class Notifier:
    """Tells of the service's state; without an address nothing is sent.

    Args:
        address: a path, or ``@`` and the name of an abstract socket.
        watchdog: seconds within which signs of life are expected; None when they are not.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = address
        self._pause = None if watchdog is None or address is None else watchdog / _PINGS_PER_WATCHDOG
        self._next_ping = 0.0

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str], pid: int) -> Notifier:
        """By the variables of that protocol, which are taken out of the environment: no worker is to speak for us.

        Args:
            pid: of the process that was started as the service; a watchdog that is meant for another is none of ours.
        """
        address, usec, watched = (environ.pop(name, "") for name in _VARIABLES)
        is_ours = usec.isdecimal() and int(usec) > 0 and watched in ("", str(pid))
        # Other kinds of sockets, such as of a virtual machine's host, are left alone.
        return cls(address if address[:1] in ("/", "@") else None, int(usec) / 1e6 if is_ours else None)

    def ready(self, status: str) -> None:
        """The service works, or works again after a reload."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """The settings are read again; ``ready`` says when that is done."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str) -> None:
        """The service is about to end."""
        self._send("STOPPING=1", f"STATUS={status}")

    def alive(self) -> None:
        """A sign of life, for the watchdog; to be called as often as one likes."""
        if self._pause is None:
            return
        now = time.monotonic()
        if now >= self._next_ping:
            self._next_ping = now + self._pause
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # The name of an abstract socket begins with a NUL byte (unix(7)).
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        message = "\n".join(" ".join(line.splitlines()) for line in lines)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)  # whoever does not read must not stop us
            sender.sendto(message.encode(), address)
