"""Controls headless Chromium over two pipes, and opens files and pages of this machine as a user's browser would.

The DevTools protocol over `--remote-debugging-pipe` is JSON between zero bytes, and needs no port. The driver keeps
what a page logs, throws and requests, and what the page's own policy refuses.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "google-chrome")
_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    # an address in a page that is not the tests' own leads nowhere
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # the page is the tests' own; root in a container has no sandbox
    "--no-sandbox",
)


class Navigated(Exception):
    """The page went on to another one meanwhile."""


class Browser:
    """A browser for many pages, which ends with the `with` block."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._commands = _pipe()
        self._answers, answers = _pipe()
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        assert program, "Chromium is needed: make setup installs it"
        arguments = [program, *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            # the browser reads from descriptor 3 and writes to 4
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", *arguments],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._received = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._folder.cleanup()

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its response; stores the events before it. Errors: Navigated."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        asked |= {"sessionId": session} if session else {}
        os.write(self._commands, json.dumps(asked).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self.events.append(message)
        if "navigated" in message.get("error", {}).get("message", ""):
            raise Navigated
        assert "error" not in message, message
        found: dict[str, Any] = message["result"]
        return found

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Returns the next matching event; stores all events before it."""
        while True:
            message = self._next()
            self.events.append(message)
            if wanted(message):
                return message

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            piece = os.read(self._answers, 1 << 20)
            assert piece, "the browser has ended"
            self._received += piece
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def _pipe() -> tuple[int, int]:
    """Returns both ends of a pipe, away from the descriptors that the browser needs."""
    ends = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return reading, writing


class Tab:
    """A page in a browser: `complaints` has what it logged and threw, `fetched` what it requested.

    `place`: a file, or an address.
    """

    def __init__(self, browser: Browser, place: Path | str, *, width: int = 1000, dark: bool = False) -> None:
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session: str = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.ask(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        self.resize(width)
        self._url = place if isinstance(place, str) else place.as_uri()
        self.ask("Page.navigate", url=self._url)
        browser.until(lambda event: event.get("method") == "Page.loadEventFired" and self._is_own(event))

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command about this page and returns the response."""
        return self._browser.ask(method, self._session, **parameters)

    def resize(self, width: int) -> None:
        """Sets the window's width, below a certain width as a phone's."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page, once its promise has resolved."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _is_own(self, event: dict[str, Any]) -> bool:
        return event.get("sessionId") == self._session

    def _told(self, *methods: str) -> list[dict[str, Any]]:
        return [one["params"] for one in self._browser.events if self._is_own(one) and one["method"] in methods]

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """The console's lines, and the browser's own messages."""
        return self._told("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded")

    @property
    def fetched(self) -> list[str]:
        """The requested addresses, without the page's own."""
        asked = [one["request"]["url"] for one in self._told("Network.requestWillBeSent")]
        return [url for url in asked if url.partition("#")[0] != self._url]

    def picture(self, *, whole: bool = True) -> bytes:
        """The page as PNG."""
        return b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def paper(self) -> bytes:
        """The page as PDF."""
        return b64decode(self.ask("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)["data"])
