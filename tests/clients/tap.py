"""A byte tap: relays connections and records each direction, byte for byte.

It shares no code with the project, so the project can be compared with it: sockets, threads and files, and no knowledge
of Kafka. One tap is between proxy and brokers, one between clients and proxy. A tap is a process. It reads its routes
as lines of JSON (`null`: pass on what has been sent so far), and confirms each line. A connection has three files:
`<number>.opened` (the dialled address), `<number>.requests` (its dialler's bytes) and `<number>.responses`. Bytes are
recorded before they are passed on.
"""

import fcntl
import json
import select
import socket
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from tests.brokers import children
from tests.brokers.waiting import PATIENCE, wait_for

ROOT = Path(__file__).resolve().parents[2]
CHUNK_BYTES = 1 << 18
LAST_BYTES_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Recorded:
    """One connection. `dialled`: the "host:port" that its opener meant."""

    number: int
    dialled: str
    requests: bytes
    responses: bytes


class Tap:
    """A tap that runs within `with`.

    Args:
        routes: address to listen at -> address to connect to, both "host:port".
        folder: for the files; made here.
        patience: seconds for bytes in flight once both sides have been told to end, for all connections together.
    """

    def __init__(self, routes: Mapping[str, str], folder: Path, *, patience: float = LAST_BYTES_SECONDS) -> None:
        self._routes = dict(routes)
        self._folder = folder
        self._patience = patience

    def __enter__(self) -> "Tap":
        self._folder.mkdir(parents=True)
        command = [sys.executable, "-m", __name__, str(self._folder), str(self._patience)]
        self._child = children.spawn(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reroute(self._routes)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reroute(self, routes: Mapping[str, str]) -> None:
        """Listens only at the addresses of these routes from now on; open connections stay as they are."""
        self._ask(dict(routes))

    def catch_up(self) -> None:
        """Returns when all that the dialling sides have sent so far is recorded and passed on."""
        self._ask(None)

    def _ask(self, line: object) -> None:
        assert self._child.stdout is not None
        print(json.dumps(line), file=self._child.stdin, flush=True)
        if not self._child.stdout.readline():
            raise RuntimeError(f"the tap ended with exit code {self._child.wait()}; its stderr says why")

    def close(self) -> None:
        """Ends the tap, after which the files have all bytes. Close the processes on both sides first."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.wait(PATIENCE)
        self._child.stdout.close()

    def connections(self) -> list[Recorded]:
        """Returns all connections so far, in the order of their opening, with each response's request."""
        return [_read(file) for file in sorted(self._folder.glob("*.opened"))]

    def requested(self) -> Counter[int]:
        """Returns size -> number of connections whose dialling side has sent so many bytes."""
        return Counter(size for file in self._folder.glob("*.requests") if (size := file.stat().st_size))


def _read(opened: Path) -> Recorded:
    # in this order: the requests of all responses read here have been recorded before
    responses = opened.with_suffix(".responses").read_bytes()
    requests = opened.with_suffix(".requests").read_bytes()
    return Recorded(int(opened.stem), opened.read_text(), requests, responses)


def _serve(folder: Path, patience: float) -> None:
    """The child: relays until its stdin ends, then waits a moment for bytes in flight."""
    relays: list[_Relay] = []
    listeners: dict[tuple[str, str], _Listener] = {}
    numbers = count(1)
    for line in sys.stdin:
        routes = json.loads(line)
        if routes is None:
            _catch_up([*listeners.values(), *relays], patience)
        else:
            for route in listeners.keys() - routes.items():
                listeners.pop(route).close()
            for route in routes.items() - listeners.keys():
                listeners[route] = _Listener(folder, numbers, relays, *route)
        print("ready", flush=True)
    deadline = time.monotonic() + patience
    for relay in relays:
        relay.thread.join(max(0, deadline - time.monotonic()))


def _catch_up(running: "list[_Listener | _Relay]", patience: float) -> None:
    def is_done() -> bool:
        return not any(one.is_behind for one in running)

    with suppress(TimeoutError):  # a peer that accepts nothing is not waited for any longer
        wait_for(is_done, "what has been sent", seconds=patience)


class _Listener:
    """Accepts at the address `listen`, and relays to the address `target`."""

    def __init__(self, folder: Path, numbers: "count[int]", relays: "list[_Relay]", listen: str, target: str) -> None:
        self._folder, self._numbers, self._relays = folder, numbers, relays
        self._listen, self._target = listen, target
        self._socket = socket.create_server(_address(listen), backlog=128)
        self._has_connection = False
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Closes at once: a thread that accepts on the socket would keep it open."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def is_behind(self) -> bool:
        """True if a connection is not relayed yet."""
        # in this order: a connection is noted before it leaves the socket
        return _is_ready(self._socket, 0) or self._has_connection

    def _run(self) -> None:
        # a closed listener is not polled: it accepts nobody any more
        with suppress(OSError, ValueError):
            while _is_ready(self._socket, None):
                self._has_connection = True
                near, _ = self._socket.accept()
                self._relay(near)
                self._has_connection = False

    def _relay(self, near: socket.socket) -> None:
        requests = self._folder / f"{next(self._numbers):06}.requests"
        responses = requests.with_suffix(".responses")
        files = [file.open("wb", buffering=0) for file in (requests, responses)]
        requests.with_suffix(".opened").write_text(self._listen)
        try:
            far = socket.create_connection(_address(self._target), timeout=5)
        except OSError:
            near.close()  # a proxy does the same without its broker
            return
        far.settimeout(None)
        self._relays.append(_Relay(near, far, files[0], (near, far)))
        self._relays.append(_Relay(far, near, files[1], (near,), answers=True))


def _is_ready(listener: socket.socket, milliseconds: int | None) -> bool:
    polled = select.poll()
    polled.register(listener, select.POLLIN)
    return bool(polled.poll(milliseconds))


class _Relay:
    """Relays one direction to its end. An end of stream is passed on as one; a reset ends both directions.

    Args:
        ends: the sockets to shut down at a reset. If nobody accepts responses, only the near side ends: its bytes are
            recorded, and passed on before the far side is told.
    """

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        file: BinaryIO,
        ends: tuple[socket.socket, ...],
        *,
        answers: bool = False,
    ) -> None:
        self._source, self._sink, self._file, self._ends = source, sink, file, ends
        self._answers = answers
        self._has_chunk = False
        sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def is_behind(self) -> bool:
        """True if bytes of the dialling side are not passed on yet."""
        # in this order: a chunk is noted before it leaves the socket
        waiting = fcntl.ioctl(self._source, termios.FIONREAD, bytes(4))
        return not self._answers and self.thread.is_alive() and (any(waiting) or self._has_chunk)

    def _run(self) -> None:
        with self._file:
            try:
                while chunk := self._receive():
                    self._file.write(chunk)
                    self._sink.sendall(chunk)
                    self._has_chunk = False
                self._sink.shutdown(socket.SHUT_WR)
            except OSError:
                for end in self._ends:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def _receive(self) -> bytes:
        self._source.recv(1, socket.MSG_PEEK)
        self._has_chunk = True
        return self._source.recv(CHUNK_BYTES)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), float(sys.argv[2]))
