"""A byte tap: relays connections and writes down what passes, both directions apart, byte for byte.

Shares nothing with the project's code, so that the project can be compared with it: sockets, threads and files, no
idea of Kafka. One tap stands between proxy and brokers, one between clients and proxy. It runs as a process of its
own, which is told its routes as lines of JSON and says when each line holds; a connection is three files:
`<number>.opened` (the address that was dialled), `<number>.requests` (what the dialling side sent) and
`<number>.responses`. Bytes are written down before they are passed on.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import BinaryIO

from tests.brokers import children

ROOT = Path(__file__).resolve().parents[2]
CHUNK_BYTES = 1 << 18
LAST_BYTES_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Recorded:
    """One connection. `dialled`: "host:port" that its opener meant."""

    number: int
    dialled: str
    requests: bytes
    responses: bytes


class Tap:
    """A running tap, within `with`.

    Args:
        routes: where to listen -> where to connect, as "host:port" both.
        folder: for the files; made here.
        patience: seconds for what is still under way once both sides have been told to end, all connections together.
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
        """From now on it listens where these say, and nowhere else; connections that are open stay as they are."""
        print(json.dumps(dict(routes)), file=self._child.stdin, flush=True)
        if not self._child.stdout.readline():
            raise RuntimeError(f"the tap ended with exit code {self._child.wait()}; its stderr says why")

    def close(self) -> None:
        """End it; all that it relayed is in the files then. Close what it stands between first."""
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.wait(LAST_BYTES_SECONDS + 5)
        self._child.stdout.close()

    def connections(self) -> list[Recorded]:
        """All connections so far, in the order in which they were opened; each response's request among them."""
        return [_read(file) for file in sorted(self._folder.glob("*.opened"))]

    def requested(self) -> Counter[int]:
        """How many bytes each dialling side has sent so far, with the number of connections that sent so many."""
        return Counter(size for file in self._folder.glob("*.requests") if (size := file.stat().st_size))


def _read(opened: Path) -> Recorded:
    # in this order: what is answered while they are read has been asked before
    responses = opened.with_suffix(".responses").read_bytes()
    requests = opened.with_suffix(".requests").read_bytes()
    return Recorded(int(opened.stem), opened.read_text(), requests, responses)


def _serve(folder: Path, patience: float) -> None:
    """The child: relays until its stdin ends, then waits a moment for what is under way."""
    relays: list[threading.Thread] = []
    listeners: dict[tuple[str, str], socket.socket] = {}
    accept = partial(_accept, folder, count(1), relays)
    for line in sys.stdin:
        routes = json.loads(line)
        for route in listeners.keys() - routes.items():
            _close(listeners.pop(route))
        for route in routes.items() - listeners.keys():
            listeners[route] = socket.create_server(_address(route[0]), backlog=128)
            threading.Thread(target=accept, args=(listeners[route], route), daemon=True).start()
        print("ready", flush=True)
    deadline = time.monotonic() + patience
    for relay in relays:
        relay.join(max(0, deadline - time.monotonic()))


def _close(listener: socket.socket) -> None:
    """At once: a thread that accepts on it would keep it open."""
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _accept(
    folder: Path, numbers: "count[int]", relays: list[threading.Thread], listener: socket.socket, route: tuple[str, str]
) -> None:
    listen, target = route
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return  # nobody is to be let in here any more
        number = next(numbers)
        requests, responses = (folder / f"{number:06}.{name}" for name in ("requests", "responses"))
        files = [file.open("wb", buffering=0) for file in (requests, responses)]
        requests.with_suffix(".opened").write_text(listen)
        try:
            far = socket.create_connection(_address(target), timeout=5)
        except OSError:
            near.close()  # what a proxy does without its broker
            continue
        far.settimeout(None)
        for source, sink, file, ends in ((near, far, files[0], (near, far)), (far, near, files[1], (near,))):
            sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            relay = threading.Thread(target=_relay, args=(source, sink, file, ends), daemon=True)
            relays.append(relay)
            relay.start()


def _relay(source: socket.socket, sink: socket.socket, file: BinaryIO, ends: tuple[socket.socket, ...]) -> None:
    """One direction to its end. An end passes on as an end; a reset ends both directions.

    Args:
        ends: what is shut down at a reset. Responses that nobody takes any more end the near side only: what it had
            sent is written down, and is passed on before the far side is told.
    """
    with file:
        try:
            while chunk := source.recv(CHUNK_BYTES):
                file.write(chunk)
                sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), float(sys.argv[2]))
