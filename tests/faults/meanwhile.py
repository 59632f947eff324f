"""What a test does while a node runs in its main thread, where alone signals can be handled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Runs ``act`` once in a thread of its own; what it raises is raised at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    thread = threading.Thread(target=run, name="meanwhile")
    thread.start()
    try:
        yield
    finally:
        thread.join()
        if raised:
            raise raised[0]


@contextlib.contextmanager
def again_and_again(act: Callable[[], object], pause: float = 0.05) -> Iterator[None]:
    """Runs ``act`` with pauses between until the end; what it raises ends that, and is raised at the end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            act()
            over.wait(pause)

    with meanwhile(repeat):
        try:
            yield
        finally:
            over.set()
