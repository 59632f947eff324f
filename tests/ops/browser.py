"""A headless Chromium, driven through a pipe by its DevTools protocol (https://chromedevtools.github.io)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 60.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
# The browser reads commands from its descriptor 3, and answers on 4.
_LAUNCH = """
import fcntl, os, sys
commands, back = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(back, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. ``requested``: what the page wanted to load besides itself."""

    def __init__(self, to: int, answers: int) -> None:
        self._to = to
        self._answers = answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def show(self, page: Path, width: int, *, dark: bool) -> None:
        """Opens a file in a window of that many CSS pixels, as somebody who wants it light or dark."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._events.clear()
        self._call("Page.navigate", url=page.as_uri())
        self._await("Page.loadEventFired")

    @property
    def requested(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """What the browser logged of the page, such as what its content policy forbids."""
        return [event["params"]["entry"]["text"] for event in self._events if event["method"] == "Log.entryAdded"]

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """A PNG of the whole page."""
        return base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _await(self, method: str) -> None:
        while not any(event.get("method") == method for event in self._events):
            self._events.append(self._read())

    def _read(self) -> dict[str, Any]:
        give_up = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0, give_up - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has gone"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser whose profile is in that folder."""
    assert CHROMIUM is not None
    commands, to = os.pipe()
    answers, back = os.pipe()
    launch = [sys.executable, "-IS", "-c", _LAUNCH, str(commands), str(back), CHROMIUM, *_FLAGS]
    process = subprocess.Popen(
        [*launch, f"--user-data-dir={profile}"],
        pass_fds=(commands, back),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"HOME": str(profile)},
    )
    os.close(commands)
    os.close(back)
    try:
        opened = Browser(to, answers)
        yield opened
        opened.close()
        process.wait(_PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(to)
        os.close(answers)
