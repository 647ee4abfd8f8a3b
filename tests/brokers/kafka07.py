"""A broker of Kafka 0.7 for tests: sockets, `struct` and a log in memory, independent of `proxy.wire.kafka07`.

No registry has 0.7 as a package. `kafka07_answers.json` holds responses of a broker of 0.7.2, and this broker gives the
same:

- PRODUCE and MULTIPRODUCE get no response; an error in them closes the connection. All messages are validated, also
  those in compressed ones; bytes after the last whole message are dropped.
- A log is a list of segments; a segment is closed after the append that takes it beyond `segment_bytes`.
- FETCH returns the bytes from an offset on, as many as requested, cut anywhere, from one segment only. An offset
  outside the log is error 1, a missing partition error 3, an empty topic name error -1; a topic without
  messages is empty. For a negative size, the broker sends a length below 2 and closes the connection.
- OFFSETS returns the segments' first offsets and the log's end that are not younger than the time, latest first. An
  error closes the connection.
- Bytes after a request are ignored.

Each connection has a thread, which answers requests in order.
"""

import gzip
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import snappy

UNKNOWN, NO_ERROR, OFFSET_OUT_OF_RANGE, WRONG_PARTITION = -1, 0, 1, 3
LATEST, EARLIEST = -1, -2
ANSWERS: dict[str, Any] = json.loads(Path(__file__).with_name("kafka07_answers.json").read_text())
# the header that snappy-java writes before its blocks
XERIAL_HEADER = 16


class Refused(Exception):
    """An error that a 0.7 broker can't put into a response: it closes the connection, after the bytes `said`."""

    def __init__(self, why: str, said: bytes = b"") -> None:
        super().__init__(why)
        self.said = said


@dataclass
class Segment:
    start: int
    changed: int
    data: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Log:
    """One partition. `now` is given with each call, in milliseconds."""

    def __init__(self, segment_bytes: int, now: int) -> None:
        self._segment_bytes = segment_bytes
        self.segments = [Segment(0, now)]

    def append(self, messages: bytes, now: int) -> None:
        last = self.segments[-1]
        last.data += messages[: whole_bytes(messages)]
        last.changed = now
        if len(last.data) > self._segment_bytes:
            self.segments.append(Segment(last.end, now))

    def read(self, offset: int, size: int) -> tuple[int, bytes]:
        """Returns error code and bytes."""
        for segment in self.segments:
            if segment.start <= offset < segment.end:
                if size < 0:
                    raise Refused(f"{size} bytes", struct.pack(">ih", 2 + size, NO_ERROR))
                start = offset - segment.start
                return NO_ERROR, bytes(segment.data[start : start + size])
        at_its_end = offset == self.segments[-1].end
        return (NO_ERROR if at_its_end else OFFSET_OUT_OF_RANGE), b""

    def offsets(self, before: int, count: int, now: int) -> list[int]:
        known = [(segment.start, segment.changed) for segment in self.segments]
        if self.segments[-1].data:
            known.append((self.segments[-1].end, now))
        if before == EARLIEST:
            known = known[:1]
        elif before != LATEST:
            known = [(offset, changed) for offset, changed in known if changed <= before]
        return [offset for offset, _ in reversed(known)][:count]


def whole_bytes(messages: bytes) -> int:
    """Returns how many bytes are whole messages. Raises Refused if a message, or one within it, is damaged."""
    at = 0
    while at + 4 <= len(messages):
        (length,) = struct.unpack(">i", messages[at : at + 4])
        body = messages[at + 4 : at + 4 + length]
        if len(body) < length:
            break
        header = {0: 5, 1: 6}.get(body[0])
        if header is None or zlib.crc32(body[header:]) != struct.unpack(">I", body[header - 4 : header])[0]:
            raise Refused(f"a damaged message at {at}")
        if codec := body[1] & 3 if body[0] else 0:
            whole_bytes(unfolded(codec, body[header:]))
        at += 4 + length
    return at


def unfolded(codec: int, payload: bytes) -> bytes:
    """Raises Refused for data that was not compressed with this codec."""
    try:
        match codec:
            case 1:
                return gzip.decompress(payload)
            case 2:
                return b"".join(blocks(payload[XERIAL_HEADER:]))
    except (OSError, EOFError, zlib.error, struct.error, snappy.UncompressError) as error:
        raise Refused(str(error)) from error
    raise Refused(f"codec {codec}")


def blocks(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield snappy.uncompress(data[at + 4 : at + 4 + size])
        at += 4 + size


class Cursor:
    """Takes values from a request, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def block(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise Refused(f"{size} bytes where {len(self._data) - self._at} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def place(self) -> tuple[str, int]:
        topic = self.block(self.number("h")).decode()
        return topic, self.number("i")


class Kafka07Broker:
    """A broker that listens within `with`, on `address`. `received` holds every request's frame without its length."""

    def __init__(self, *, partitions: int = 2, segment_bytes: int = 512 << 20, now: int | None = None) -> None:
        self._partitions, self._segment_bytes, self._now = partitions, segment_bytes, now
        self._logs: dict[tuple[str, int], Log] = {}
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.received: list[bytes] = []

    def __enter__(self) -> "Kafka07Broker":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def now(self) -> int:
        return int(time.time() * 1000) if self._now is None else self._now

    def log(self, topic: str, partition: int) -> Log:
        """Returns the log; makes it if it is missing. Raises Refused for an unknown partition or an empty topic."""
        if not topic or not 0 <= partition < self._partitions:
            raise Refused(f"no partition {partition} of {topic!r}")
        return self._logs.setdefault((topic, partition), Log(self._segment_bytes, self.now()))

    def _start(self, run: object, *args: object) -> None:
        thread = threading.Thread(target=run, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error), connection, connection.makefile("rb") as stream:
            try:
                while head := stream.read(4):
                    frame = stream.read(struct.unpack(">i", head)[0])
                    with self._lock:
                        self.received.append(frame)
                        response = self.answer(Cursor(frame))
                    if response is not None:
                        connection.sendall(struct.pack(">i", len(response)) + response)
            except Refused as refused:
                connection.sendall(refused.said)

    def answer(self, request: Cursor) -> bytes | None:
        """Returns the response's frame without its length; None if there is none."""
        match request.number("h"):
            case 0:
                self._produce(request)
                return None
            case 1:
                return self._fetch(request)
            case 2:
                parts = [self._fetch(request) for _ in range(request.number("h"))]
                return struct.pack(">h", 0) + b"".join(struct.pack(">i", len(part)) + part for part in parts)
            case 3:
                for _ in range(request.number("h")):
                    self._produce(request)
                return None
            case 4:
                return self._offsets(request)
            case unknown:
                raise Refused(f"request type {unknown}")

    def _produce(self, request: Cursor) -> None:
        topic, partition = request.place()
        messages = request.block(request.number("i"))
        self.log(topic, max(partition, 0)).append(messages, self.now())

    def _fetch(self, request: Cursor) -> bytes:
        place, offset, size = request.place(), request.number("q"), request.number("i")
        if place[1] not in range(self._partitions):
            return struct.pack(">h", WRONG_PARTITION)
        if not place[0]:
            return struct.pack(">h", UNKNOWN)
        found = self._logs.get(place)
        error, messages = found.read(offset, size) if found else (NO_ERROR, b"")
        return struct.pack(">h", error) + messages

    def _offsets(self, request: Cursor) -> bytes:
        place, before, count = request.place(), request.number("q"), request.number("i")
        if not place[0] or place[1] not in range(self._partitions) or (place in self._logs and count < 0):
            raise Refused(f"{count} offsets of {place}")
        if place in self._logs:
            offsets = self._logs[place].offsets(before, count, self.now())
        else:
            offsets = [0] if before in (LATEST, EARLIEST) else []
        return struct.pack(f">hi{len(offsets)}q", NO_ERROR, len(offsets), *offsets)
