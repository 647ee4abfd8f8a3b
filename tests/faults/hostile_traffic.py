"""Clients at a pace, whose client ids, topics and groups mean harm, and the broker that answers them.

Most bytes are made once; some requests of each burst have names that nobody has used before. The broker knows an
answer by the request's correlation id: it opens nothing, so ten thousand exchanges a second take little.
"""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from proxy.wire import catalog, keys, records
from proxy.wire.error_codes import ERRORS
from proxy.wire.framing import LENGTH, REQUEST_HEAD, framed
from tests.brokers.waiting import PATIENCE
from tests.faults.live import HOST, OWN_PORT, Where, answer
from tests.hostile_text import NAME, TEXT
from tests.servers import serving

HARMLESS = tuple(f"orders-{number}" for number in range(7))
HOSTILE = (TEXT, NAME, "<script>alert(1)</script>&amp;", 'a"} 1\nkafka_wiretap_up{x="', "\\n\\", "$__all{{x}}")
NAMES = (*HARMLESS, *HOSTILE)
# of the exchanges, one in so many has names of this length
ONE_IN_LONG, LONG = 101, 10_000
CONNECTIONS, BURST, FRESH, SECONDS = 10, 100, 1, 0.1
# exchanges a second, if everything keeps up
RATE = round(CONNECTIONS * BURST / SECONDS)
# of the answers, one in so many is an error, of every API
ONE_IN = 19
_CODES = tuple(ERRORS)
# correlation ids that others hardly use: the proxy asks the broker, too
_FIRST = 1 << 20


class Exchange(NamedTuple):
    """The bytes of both frames, with their lengths."""

    request: bytes
    response: bytes


def exchange(number: int, name: str) -> Exchange:
    """An exchange of some API, in which `name` is client id, topic and group. `number`: its correlation id."""
    code = _CODES[number // ONE_IN % len(_CODES)] if number % ONE_IN == 0 else 0
    key, version, asked, told = _KINDS[number % len(_KINDS)](name, code)
    return Exchange(
        framed(catalog.encode_request(key, version, number, name, asked)),
        framed(catalog.encode_response(key, version, number, told)),
    )


def _name(number: int) -> str:
    return "x" * LONG if number % ONE_IN_LONG == 0 else NAMES[number % len(NAMES)]


def _batch() -> bytes:
    return records.write_batch([records.Record(at, key=TEXT.encode(), value=b"paid" * 10) for at in range(2)])


_BATCH = _batch()
Kind = tuple[int, int, dict[str, Any], dict[str, Any]]


def _produce(name: str, code: int) -> Kind:
    asked = {"acks": -1, "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": _BATCH}]}]}
    partition = {"index": 0, "error_code": code, "base_offset": 7}
    return keys.PRODUCE, 9, asked, {"responses": [{"name": name, "partition_responses": [partition]}]}


def _fetch(name: str, code: int) -> Kind:
    asked = {"topics": [{"topic": name, "partitions": [{"partition": 0, "fetch_offset": 7}]}]}
    partition = {"partition_index": 0, "error_code": code, "high_watermark": 9, "records": _BATCH}
    return keys.FETCH, 11, asked, {"responses": [{"topic": name, "partitions": [partition]}]}


def _commit(name: str, code: int) -> Kind:
    partition = {"partition_index": 0, "committed_offset": 8}
    asked = {"group_id": name, "member_id": name, "topics": [{"name": name, "partitions": [partition]}]}
    told = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "error_code": code}]}]}
    return keys.OFFSET_COMMIT, 8, asked, told


def _heartbeat(name: str, code: int) -> Kind:
    return keys.HEARTBEAT, 4, {"group_id": name, "generation_id": 1, "member_id": name}, {"error_code": code}


_KINDS = (_produce, _fetch, _commit, _heartbeat)


class Traffic:
    """All of it. `exchanges`: how many were answered."""

    def __init__(self) -> None:
        self._names = itertools.count()
        self._counts = [0] * CONNECTIONS
        numbers = range(_FIRST, _FIRST + CONNECTIONS * BURST)
        self._exchanges = {number: exchange(number, _name(number)) for number in numbers}

    @property
    def exchanges(self) -> int:
        return sum(self._counts)

    def answers(self, requests: bytes, here: Where) -> tuple[bytes, bytes]:
        """The answers to the whole requests in these bytes, and the rest of the bytes. `here`: the broker."""
        found, at = [], 0
        while len(requests) - at >= REQUEST_HEAD.size:
            size, _, number = REQUEST_HEAD.unpack_from(requests, at)
            begin, at_next = at + LENGTH.size, at + LENGTH.size + size
            if len(requests) < at_next:
                break
            # the proxy has questions of its own
            known = self._exchanges.get(number)
            found.append(answer(requests[begin:at_next], here) if known is None else known.response)
            at = at_next
        return b"".join(found), requests[at:]

    @contextmanager
    def at(self, where: Sequence[Where], pause: float = SECONDS) -> Iterator[None]:
        """Clients work within the block, at each address as many. `pause`: seconds from one burst to the next."""
        over, of = threading.Event(), itertools.cycle(where)
        threads = [
            threading.Thread(target=self._client, args=(next(of), number, pause, over), daemon=True)
            for number in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)

    def _client(self, where: Where, number: int, pause: float, over: threading.Event) -> None:
        first = _FIRST + number * BURST
        mine = range(first, first + BURST)
        with socket.create_connection(where, PATIENCE, OWN_PORT) as sock:
            due = time.monotonic()
            while not over.is_set():
                for each in mine[:FRESH]:
                    self._exchanges[each] = exchange(each, f"{next(self._names)} {TEXT}")
                sock.sendall(b"".join(self._exchanges[each].request for each in mine))
                expected = b"".join(self._exchanges[each].response for each in mine)
                assert _received(sock, len(expected)) == expected
                self._counts[number] += BURST
                # what could not be sent in time is not sent later
                due = max(due + pause, time.monotonic())
                over.wait(due - time.monotonic())


def _received(sock: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = sock.recv(size)
        assert piece, "the proxy has hung up"
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@contextmanager
def answering(traffic: Traffic) -> Iterator[Where]:
    """The broker, within the block."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            rest = b""
            while got := self.request.recv(1 << 20):
                told, rest = traffic.answers(rest + got, self.request.getsockname())
                self.request.sendall(told)

    server = socketserver.ThreadingTCPServer((HOST, 0), Connection)
    server.daemon_threads = True
    with serving(server) as port:
        yield HOST, port
