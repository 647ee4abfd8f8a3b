"""The live stream as the proxy sees it: the process's command line, and requests that are passed on to it.

Knows neither frames nor pyarrow. All calls block, and are made in the admin page's threads.
"""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from recorder.live.folder import LiveFolder

# how long the process may take to take a request and to begin its answer, in seconds
PATIENCE_SECONDS = 5.0
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


def ask(path: Path, target: str, *, body: bytes | None = None, timeout: float = PATIENCE_SECONDS) -> Answer:
    """Asks the process. Errors: NoAnswer.

    Args:
        path: the socket.
        target: path and query. body: of a POST; None: a GET.
        timeout: seconds that each step may take.
    """
    connection = _UnixConnection(path, timeout)
    try:
        connection.request("GET" if body is None else "POST", target, body)
        return Answer(connection, connection.getresponse())
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise NoAnswer(*getattr(error, "args", ())) from error


def text_of(path: Path, target: str, timeout: float = PATIENCE_SECONDS) -> bytes:
    """The whole answer to a GET. Errors: NoAnswer, also for another status than 200."""
    with closing(ask(path, target, timeout=timeout)) as answer:
        if answer.status != 200:
            raise NoAnswer(answer.status, answer.reason)
        try:
            return b"".join(answer.parts())
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(*error.args) from error


class LiveMetrics:
    """The numbers of the process, by the names of the metrics' table."""

    def __init__(self, folder: LiveFolder) -> None:
        self._folder = folder
        self._restarts = 0

    def ended(self) -> None:
        """Notes that the process has ended; the proxy starts it again."""
        self._restarts += 1

    def counters(self) -> Mapping[str, float]:
        """All numbers. Called in any thread."""
        return {"live_restarts": self._restarts}


def live_command(folder: LiveFolder, capture: Path, asked: Mapping[str, object], *, is_feed: bool) -> list[str]:
    """The command line of the process beside the proxy, which is this process.

    `capture`: whose log it reads. `asked`: options of the process by their names; None: not given.
    """
    command = [sys.executable, "-P", "-m", "recorder.live.process", str(capture), "--folder", str(folder.path)]
    given = [str(word) for option, value in asked.items() if value is not None for word in (f"--{option}", value)]
    return [*command, "--proxy", str(os.getpid()), *given, *["--feed"] * is_feed]
