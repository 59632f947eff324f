"""A small proxy in front of PostgreSQL that can go silent, and cut a connection in the middle of a commit.

It understands just enough of the protocol (version 3) to know which statements a client's message commits.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

Statements = list[str]


class Cut(Enum):
    """When a connection is lost, seen from its commit."""

    BEFORE = "before the server sees it"
    AFTER = "after it, before the client sees the answer"


@dataclass
class Trap:
    """Cuts the connection whose next commit contains statements that ``catches`` says are the ones."""

    cut: Cut
    catches: Callable[[Statements], bool]
    times: int = 1
    sprung: threading.Event = field(default_factory=threading.Event)


class Messages:
    """Takes a stream of messages apart; of a client's, the first has no type."""

    def __init__(self, *, client: bool) -> None:
        self._bytes = b""
        self._at_start = client

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Every message that is now complete: its type (empty for the first of a client) and all its bytes."""
        self._bytes += data
        while True:
            head = 0 if self._at_start else 1
            if len(self._bytes) < head + 4:
                return
            [length] = struct.unpack_from("!I", self._bytes, head)
            if len(self._bytes) < head + length:
                return
            message, self._bytes = self._bytes[: head + length], self._bytes[head + length :]
            self._at_start = False
            yield message[:head], message


class Link:
    """One client's connection with its own to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy = proxy
        self.client = client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(str(proxy.target))
        self._from_client = Messages(client=True)
        self._from_server = Messages(client=False)
        self._prepared: dict[bytes, str] = {}
        self._batch: Statements = []
        self._transaction: Statements = []
        self._swallows_answer = False

    def pump(self, source: socket.socket) -> bool:
        """Moves what ``source`` has; False when the connection is over."""
        try:
            data = source.recv(65536)
            if not data:
                return False
            if self._proxy.silent.is_set():
                return True
            return self._to_server(data) if source is self.client else self._to_client(data)
        except OSError:
            return False

    def close(self) -> None:
        for side in (self.client, self.server):
            side.close()

    def _to_server(self, data: bytes) -> bool:
        for kind, message in self._from_client.feed(data):
            self._note(kind, message)
            if kind in (b"S", b"Q"):
                trap = self._proxy.trap_for(self._committed())
                if trap is not None and trap.cut is Cut.BEFORE:
                    trap.sprung.set()
                    return False
                self._swallows_answer = trap is not None
            self.server.sendall(message)
        return True

    def _to_client(self, data: bytes) -> bool:
        for kind, message in self._from_server.feed(data):
            if not self._swallows_answer:
                self.client.sendall(message)
            elif kind == b"Z":  # ready for the next query: the commit is done
                assert self._proxy.trap is not None
                self._proxy.trap.sprung.set()
                return False
        return True

    def _committed(self) -> Statements:
        """What the message that ends this batch commits; nothing inside of a transaction but its last one."""
        batch, self._batch = self._batch, []
        if self._transaction or batch[:1] == ["BEGIN"]:
            self._transaction += batch
            if batch and batch[0] in ("COMMIT", "ROLLBACK"):
                batch, self._transaction = self._transaction, []
                return batch if batch[-1] == "COMMIT" else []
            return []
        return batch

    def _note(self, kind: bytes, message: bytes) -> None:
        """Keeps what the messages up to the next sync execute."""
        body = message[5:]
        if kind == b"P":
            name, statement, _ = body.split(b"\0", 2)
            self._prepared[name] = statement.decode()
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._batch.append(self._prepared.get(name, ""))
        elif kind == b"Q":
            self._batch.append(body.rstrip(b"\0").decode())


class Proxy:
    """Listens on a port of 127.0.0.1 and hands everything on to the server's socket, in a thread of its own."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.silent = threading.Event()
        self.trap: Trap | None = None
        self._trap_lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._wake, self._waker = socket.socketpair()
        self._stopped = False
        self._links: dict[socket.socket, Link] = {}
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def set_trap(self, cut: Cut, catches: Callable[[Statements], bool], times: int = 1) -> Trap:
        """Arms the trap; ``sprung`` is set when it has cut a connection."""
        with self._trap_lock:
            self.trap = Trap(cut, catches, times)
        return self.trap

    def trap_for(self, batch: Statements) -> Trap | None:
        with self._trap_lock:
            if self.trap is None or not self.trap.times or not self.trap.catches(batch):
                return None
            self.trap.times -= 1
            return self.trap

    def close(self) -> None:
        self._stopped = True
        self._waker.send(b"x")
        self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stopped:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._listening:
                        self._accept(selector)
                    elif key.fileobj in self._links and not self._links[key.fileobj].pump(key.fileobj):
                        self._drop(selector, self._links[key.fileobj])
            for link in set(self._links.values()):
                self._drop(selector, link)
        for own in (self._listening, self._wake, self._waker):
            own.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listening.accept()
        # It sends message by message; without this each answer would wait for the acknowledgement of its first part.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            link = Link(self, client)
        except OSError:  # the server is not there
            client.close()
            return
        for side in (link.client, link.server):
            self._links[side] = link
            selector.register(side, selectors.EVENT_READ)

    def _drop(self, selector: selectors.BaseSelector, link: Link) -> None:
        for side in (link.client, link.server):
            with contextlib.suppress(KeyError):
                selector.unregister(side)
            self._links.pop(side, None)
        link.close()
