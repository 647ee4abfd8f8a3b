"""The live stream as the proxy sees it: the process's command line, and requests that are passed on to it.

Knows neither frames nor pyarrow. All calls block, and are made in the admin page's threads.
"""

from __future__ import annotations

import http.client
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from recorder.live.folder import LiveFolder

# how long the process may take to take a request and to begin its answer, in seconds
PATIENCE_SECONDS = 5.0
# the same for metrics: a scrape waits
SCRAPE_SECONDS = 1.0
# how old a text of metrics is, in seconds
AGE_HEADER = "Age"
# bytes of an answer that are passed on at a time
_PART = 64 * 1024


class NoAnswer(OSError):
    """The process does not answer: it has just been started, or it hangs."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Answer:
    """The answer to a request. `parts` yields its body as it comes; `close` must be called."""

    def __init__(self, connection: _UnixConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._answer = connection, answer
        self.status, self.reason = answer.status, answer.reason
        self.headers = answer.getheaders()

    def parts(self) -> Iterator[bytes]:
        """The body, part by part. Errors: OSError."""
        while part := self._answer.read1(_PART):
            yield part

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def ask(path: Path, target: str, *, accept: str = "", timeout: float = PATIENCE_SECONDS) -> Answer:
    """Asks the process, by a GET. Errors: NoAnswer.

    Args:
        path: the socket.
        target: path and query.
        accept: the header Accept.
        timeout: seconds that each step may take.
    """
    connection = _UnixConnection(path, timeout)
    try:
        connection.request("GET", target, headers={"Accept": accept})
        return Answer(connection, connection.getresponse())
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise NoAnswer(*getattr(error, "args", ())) from error


class LiveMetrics:
    """The numbers of the process, and the text of the metrics that it makes."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._restarts = self._hung = 0
        self._runs = False
        # the newest text by the header Accept that it was made for; when it was made, by `time.monotonic`
        self._texts: dict[str, bytes] = {}
        self._made_at: float | None = None

    def ended(self) -> None:
        """Notes that the process has ended; the proxy starts it again."""
        self._restarts += 1

    def hung(self) -> None:
        """Notes that the process hung, and was killed."""
        self._hung += 1

    def counters(self) -> Mapping[str, float]:
        """The numbers by the names of the metrics' table; as of the last `text`. Called in any thread."""
        told = {"live_restarts": self._restarts, "live_hung": self._hung, "live_runs": float(self._runs)}
        return told if self._made_at is None else told | {"live_age": max(time.monotonic() - self._made_at, 0)}

    def text(self, accept: str) -> bytes:
        """The metrics that the process makes; those of the last answer if it does not answer now.

        `accept`: "", or the media type of OpenMetrics. Called in any thread; each step takes SCRAPE_SECONDS at most.
        """
        try:
            with closing(ask(self._socket, "/metrics", accept=accept, timeout=SCRAPE_SECONDS)) as answer:
                text = b"".join(answer.parts())
                if answer.status == 200:
                    self._texts[accept] = text
                    self._made_at = time.monotonic() - float(dict(answer.headers).get(AGE_HEADER, 0))
                self._runs = answer.status == 200
        except (OSError, http.client.HTTPException, ValueError):
            self._runs = False
        return self._texts.get(accept, b"")


def live_command(folder: LiveFolder, capture: Path, asked: Mapping[str, object], *, is_feed: bool) -> list[str]:
    """The command line of the process beside the proxy, which is this process.

    `capture`: whose log it reads. `asked`: options of the process by their names; True: without a
    value; None or False: not given.
    """
    command = [sys.executable, "-P", "-m", "recorder.live.process", f"--folder={folder.path}"]
    # behind =, so that no value is taken for an option
    given = [
        f"--{option}" if value is True else f"--{option}={value}"
        for option, value in asked.items()
        if value is not None and value is not False
    ]
    return [*command, f"--proxy={os.getpid()}", "--beat", *given, *["--feed"] * is_feed, "--", str(capture)]
