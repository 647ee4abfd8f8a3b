"""Tests of frames of 100 MB, and of a million tiny ones on one connection.

The longest allowed request must arrive unchanged; one byte more ends the connection with its cause. A response of that
size passes. The proxy's memory depends neither on a frame's size nor on the number of frames, whether or not a
recording keeps up. Each exchange is counted and captured once.
"""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture import session as sessions
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import (
    LARGE,
    Answering,
    Client,
    LiveProxy,
    answer,
    broker,
    large_answer,
    large_request,
    read_frame,
    request,
    stopped_behind,
)
from tests.recorder.capture import looks
from tests.recorder.capture.looks import event_rows
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

MIB = 1024 * 1024
LIMIT = 100 * MIB
# The recorder's queue, and the other memory that the proxy may take for frames of any size.
QUEUE, BESIDES = 8 * MIB, 24 * MIB


@contextmanager
def recording(folder: Path, answering: Answering, when_full: str) -> Iterator[LiveProxy]:
    flags = ("--record-queue", str(QUEUE), "--record-when-full", when_full)
    with (
        broker(answering) as upstream,
        stopped_behind(LiveProxy(upstream, folder / "capture", folder / "proxy.log", *flags)) as proxy,
    ):
        yield proxy
    wait_for(lambda: not sessions.sessions(folder / "capture"), "the session's end", seconds=4 * PATIENCE)


def heartbeat_of(size: int) -> bytes:
    """Returns a request of `size` bytes after its length. Only its head is valid."""
    frame = struct.pack(">hhih", HEARTBEAT, 4, 1, -1) + random.Random(1).randbytes(MIB) * (size // MIB)
    return framed(frame[:size])


def digest(data: bytes) -> str:
    return hashlib.blake2b(data).hexdigest()


@pytest.mark.parametrize("when_full", mostly_long(["wait", "drop"], usual=1))
def test_frames_of_100_megabytes_pass_in_little_memory(when_full: str, tmp_path: Path) -> None:
    arrived: list[str] = []

    def answers(frame: bytes, sock: socket.socket) -> bytes:
        if len(frame) >= LIMIT:
            arrived.append(digest(frame))
        return large_answer(frame) or answer(frame, sock.getsockname())

    with recording(tmp_path, answers, when_full) as proxy:
        client = Client(proxy.listening)
        client.exchange()
        before = proxy.resident
        asked = heartbeat_of(LIMIT)
        client.sock.sendall(asked)
        assert framed(read_frame(client.stream)) == answer(asked[4:18])
        assert arrived == [digest(asked[4:])]
        client.sock.sendall(large_request(3, 100))
        got = digest(read_frame(client.stream))
        told = large_answer(large_request(3, 100)[4:])
        assert told is not None
        assert got == digest(told[4:])
        client.exchange()
        assert proxy.most_resident - before < QUEUE + BESIDES
        client.close()
    sizes = {row[c.SIZE]: row[c.FRAME] for row in looks.rows(tmp_path / "capture", [c.SIZE, c.FRAME])}
    for frame in (asked[4:], told[4:]):
        # With `drop`, frames that the disk did not take in time are a gap.
        if when_full == "wait" or len(frame) in sizes:
            assert digest(sizes[len(frame)]) == digest(frame)
    assert when_full == "drop" or event_rows(tmp_path / "capture", "gap") == []


def test_a_request_of_one_byte_more_ends_its_connection_alone(tmp_path: Path) -> None:
    with recording(tmp_path, lambda frame, sock: answer(frame, sock.getsockname()), "drop") as proxy:
        client, neighbour = Client(proxy.listening), Client(proxy.listening)
        client.exchange()
        client.sock.sendall(struct.pack(">ihhi", LIMIT + 1, HEARTBEAT, 4, 1))
        assert client.stream.read() == b""
        wait_for(lambda: proxy.metric("connections_closed_total", 'cause="bad_length"') == 1, "the connection's end")
        neighbour.exchange()
        client.close()
        neighbour.close()


# Tiny frames.

TINY = request(random.Random(1), 0, 1)


def requests(count: int) -> np.ndarray:
    """Returns heartbeats with the correlation ids from 0 on, a row each."""
    return _numbered(TINY, np.arange(count), 8)


def _numbered(frame: bytes, ids: np.ndarray, at: int) -> np.ndarray:
    frames = np.tile(np.frombuffer(frame, np.uint8), (len(ids), 1))
    frames[:, at : at + 4] = ids.astype(">i4").view(np.uint8).reshape(-1, 4)
    return frames


ANSWER = framed(answer(TINY[4:])[4:])


def answers(ids: np.ndarray) -> np.ndarray:
    return _numbered(ANSWER, ids, 4)


def answer_in_bulk(frame: bytes, sock: socket.socket) -> bytes:
    """A broker that answers without decoding, since decoding a million requests would dominate the measurement."""
    if int.from_bytes(frame[:2], "big") != LARGE:
        return answer(frame, sock.getsockname())
    sock.sendall(framed(frame[4:8]))
    left = b""
    while data := sock.recv(MIB):
        data = left + data
        whole = len(data) // len(TINY) * len(TINY)
        left = data[whole:]
        asked = np.frombuffer(data[:whole], np.uint8).reshape(-1, len(TINY))
        sock.sendall(answers(asked[:, 8:12].copy().view(">i4").ravel()).tobytes())
    raise EOFError


def tiny_ones(folder: Path, count: int) -> None:
    capture = folder / "capture"
    with recording(folder, answer_in_bulk, "wait") as proxy:
        client = Client(proxy.listening)
        client.exchange()
        client.sock.sendall(large_request(0, 0))
        read_frame(client.stream)
        before = proxy.resident
        sender = threading.Thread(target=client.sock.sendall, args=(requests(count).tobytes(),))
        sender.start()
        heard = client.stream.read(count * len(ANSWER))
        sender.join()
        assert heard == answers(np.arange(count)).tobytes()
        # `+ 2`: the two exchanges before.
        # The proxy counts an exchange after it has sent the response, when the client may already have it.
        wait_for(lambda: proxy.metric("exchanges_total") >= count + 2, "all to be counted")
        assert proxy.metric("exchanges_total") == count + 2
        assert proxy.metric("unanswered_total") == 0
        # `BESIDES`: the most that may be in flight besides the queue.
        assert proxy.most_resident - before < QUEUE + BESIDES
        client.close()
    for kind in (c.REQUEST, c.RESPONSE):
        ids, exchanges = captured(capture, kind)
        assert np.array_equal(np.sort(exchanges), np.arange(count + 2))
        assert np.array_equal(ids[np.argsort(exchanges)][2:], np.arange(count))
    assert event_rows(capture, "gap") == []


def captured(folder: Path, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the correlation ids and exchanges of all rows of a kind."""
    columns = (c.KIND, c.CORRELATION_ID, c.EXCHANGE)
    tables = [table for file in reader.files(folder) for table in reader.row_groups(file, columns)]
    chosen = [table.filter([one == kind for one in table.column(c.KIND).to_pylist()]) for table in tables]
    ids, exchanges = (
        np.concatenate([table.column(name).to_numpy() for table in chosen]) for name in (c.CORRELATION_ID, c.EXCHANGE)
    )
    return ids, exchanges


def test_a_hundred_thousand_tiny_frames_are_counted_and_captured_once(tmp_path: Path) -> None:
    tiny_ones(tmp_path, 100_000)


@pytest.mark.long
def test_a_million_tiny_frames_are_counted_and_captured_once(tmp_path: Path) -> None:
    tiny_ones(tmp_path, 1_000_000)
