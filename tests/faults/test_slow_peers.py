"""Tests of peers that are slow, stand still, or vanish.

The proxy must read no more from one side than the other accepts, so that its memory does not grow. Every byte arrives,
however late, and others are served meanwhile. A vanished peer is detected by silence (`timeouts.idle`) or by the kernel
(`timeouts.keepalive`); a peer that owes a response may take its time.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from proxy.wire.framing import framed
from proxy.wire.keys import PRODUCE
from tests.brokers.children import spawn
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import (
    ROOT,
    Client,
    LiveProxy,
    Where,
    answer,
    broker,
    large_answer,
    large_request,
    read_frame,
    request,
    stopped_behind,
)

pytestmark = pytest.mark.real

MIB = 1024 * 1024
# The memory that a connection may hold in both directions, and the proxy's other memory.
EACH, BESIDES = MIB // 2, 32 * MIB
# A small queue, because the recorder's memory counts too.
FLAGS = ("--record-queue", "1MiB")
# The size of socket buffers: small, so that they are soon full.
SMALL = 64 * 1024


@contextmanager
def running(folder: Path, upstream: Where, *more: str) -> Iterator[LiveProxy]:
    with stopped_behind(LiveProxy(upstream, folder / "capture", folder / "proxy.log", *FLAGS, *more)) as proxy:
        yield proxy


class LargeAnswers:
    """A broker whose answers have the requested number of MiB. Its socket buffers are small."""

    def __init__(self) -> None:
        self.sockets: set[socket.socket] = set()

    def __call__(self, frame: bytes, sock: socket.socket) -> bytes:
        large = large_answer(frame)
        if large is None:
            return answer(frame, sock.getsockname())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        self.sockets.add(sock)
        return large

    def are_stuck(self, count: int) -> bool:
        """True once `count` connections have begun to answer and hardly one takes more bytes.

        Of a few the kernel may have taken the whole answer: a receive buffer grows to many MiB while somebody reads.
        """
        return len(self.sockets) == count and len(select.select([], self.sockets, [], 0)[1]) <= max(1, count // 20)


def stuck_clients(proxy: LiveProxy, count: int, mebibytes: int) -> list[Client]:
    """Returns clients that have requested large answers and read nothing."""
    clients = [Client(proxy.listening, receives=SMALL) for _ in range(count)]
    for client in clients:
        client.sock.sendall(large_request(7, mebibytes))
    return clients


def reads_nothing(folder: Path, count: int, mebibytes: int, readers: int) -> None:
    """Lets `count` clients leave their answers unread. In the end, some read them and the others close."""
    answers = LargeAnswers()
    with broker(answers) as upstream, running(folder, upstream) as proxy:
        neighbour = Client(proxy.listening)
        neighbour.exchange()
        before = proxy.resident
        clients = stuck_clients(proxy, count, mebibytes)
        expected = large_answer(large_request(7, mebibytes)[4:])
        wait_for(lambda: answers.are_stuck(count), "back-pressure to reach the broker")
        for _ in range(200):
            neighbour.exchange()
        # The unread answers are many times as large.
        assert proxy.most_resident - before < count * EACH + BESIDES < count * mebibytes * MIB // 4
        for client in clients[:readers]:
            assert framed(read_frame(client.stream)) == expected
        for client in clients:
            client.close()
        wait_for(lambda: proxy.metric("connections") == 1, "the connections' ends")
        neighbour.exchange()
        assert proxy.most_resident - before < count * EACH + BESIDES
        neighbour.close()


def test_clients_that_do_not_read_stop_only_their_brokers(tmp_path: Path) -> None:
    reads_nothing(tmp_path, count=20, mebibytes=16, readers=3)


@pytest.mark.long
def test_two_hundred_clients_that_do_not_read_stop_only_their_brokers(tmp_path: Path) -> None:
    reads_nothing(tmp_path, count=200, mebibytes=16, readers=20)


def test_a_client_that_reads_byte_by_byte_gets_every_byte(tmp_path: Path) -> None:
    with broker(LargeAnswers()) as upstream, running(tmp_path, upstream) as proxy:
        client = Client(proxy.listening, receives=4096)
        client.sock.sendall(large_request(7, 1))
        expected = large_answer(large_request(7, 1)[4:])
        assert expected is not None
        first = b"".join(client.sock.recv(1) for _ in range(20_000))
        assert first == expected[:20_000]
        assert client.stream.read(len(expected) - len(first)) == expected[len(first) :]
        client.exchange()
        client.close()


def test_a_broker_that_does_not_read_stops_only_its_clients(tmp_path: Path) -> None:
    count, each = 10, 24
    gate = threading.Event()

    def answers(frame: bytes, sock: socket.socket) -> bytes:
        if int.from_bytes(frame[:2], "big") == PRODUCE:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            gate.wait()
        return answer(frame, sock.getsockname())

    with broker(answers) as upstream, running(tmp_path, upstream) as proxy:
        neighbour = Client(proxy.listening)
        neighbour.exchange()
        before = proxy.resident
        clients = [Client(proxy.listening) for _ in range(count)]
        requests = [request(random.Random(number), number, MIB) for number in range(each)]
        senders = [
            threading.Thread(target=lambda one=one: [one.sock.sendall(sent) for sent in requests]) for one in clients
        ]
        for client, sender in zip(clients, senders, strict=True):
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
            sender.start()
        sockets = [client.sock for client in clients]
        received = "recorder_bytes_total"

        def stuck() -> bool:
            return (
                not select.select([], sockets, [], 0)[1]
                and proxy.metric(received) + proxy.metric("recorder_dropped_bytes_total") > count * MIB
            )

        wait_for(stuck, "back-pressure to reach the clients")
        for _ in range(200):
            neighbour.exchange()
        assert all(sender.is_alive() for sender in senders)
        assert proxy.most_resident - before < count * EACH + BESIDES < count * each * MIB // 4
        gate.set()
        for client, sender in zip(clients, senders, strict=True):
            for sent in requests:
                assert framed(read_frame(client.stream)) == answer(sent[4:])
            sender.join(PATIENCE)
            client.close()
        neighbour.close()


# Peers that have vanished.


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


# Linux's SO_ATTACH_FILTER, which Python's socket module lacks.
SO_ATTACH_FILTER = 26
RETURN = 0x06


def vanish(sock: socket.socket) -> None:
    """Makes the kernel drop all packets for this socket, as if its machine had lost power."""
    nothing = (_Instruction * 1)(_Instruction(RETURN, 0, 0, 0))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(_Program(1, nothing)))


def with_timeouts(folder: Path, timeouts: str) -> str:
    """Returns a settings file for what has no flag."""
    file = folder / "wiretap.toml"
    file.write_text(f"[clusters.main.timeouts]\n{timeouts}\n")
    return str(file)


def test_a_peer_whose_machine_is_gone_is_found_out_on_either_side(tmp_path: Path) -> None:
    never = threading.Event()

    def answers(frame: bytes, sock: socket.socket) -> bytes:
        if large_answer(frame) is not None:
            vanish(sock)
            never.wait()
        return answer(frame, sock.getsockname())

    settings = with_timeouts(tmp_path, 'keepalive = "1s"')
    with broker(answers) as upstream, running(tmp_path, upstream, "--config", settings) as proxy:
        gone, asking, neighbour = (Client(proxy.listening) for _ in range(3))
        for client in (gone, asking, neighbour):
            client.exchange()
        vanish(gone.sock)
        asking.sock.sendall(large_request(1, 1))
        # The client's connection ends because its broker is lost.
        assert asking.stream.read() == b""
        wait_for(lambda: proxy.metric("connections_closed_total", 'cause="broker_lost"') == 1, "the broker's loss")
        wait_for(lambda: proxy.metric("connections_closed_total", 'cause="client_lost"') == 1, "the client's loss")
        neighbour.exchange()
        never.set()
        for client in (gone, asking, neighbour):
            client.close()


# A client in a process of its own. It gets one answer and then does nothing.
CLIENT = """
import signal, socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(bytes.fromhex(sys.argv[2]))
sock.recv(1)
print("answered", flush=True)
sock.recv(1 << 20)
signal.pause()
"""


def test_a_silent_connection_is_ended_once_it_is_idle_but_not_while_an_answer_is_due(tmp_path: Path) -> None:
    gate = threading.Event()

    def answers(frame: bytes, sock: socket.socket) -> bytes:
        large = large_answer(frame)
        if large is not None:
            gate.wait()
        return large or answer(frame, sock.getsockname())

    # longer than it takes a client to connect and ask, even where all stand still for a while
    settings = with_timeouts(tmp_path, 'idle = "3s"')
    with broker(answers) as upstream, running(tmp_path, upstream, "--config", settings) as proxy:
        asking = Client(proxy.listening)
        asking.sock.sendall(large_request(1, 1))
        beat = request(random.Random(0), 0, 5).hex()
        command = [sys.executable, "-c", CLIENT, str(proxy.listening[1]), beat]
        stopped = spawn(command, output=tmp_path / "stopped.log", cwd=ROOT, env=os.environ)
        try:
            wait_for(lambda: "answered" in (tmp_path / "stopped.log").read_text(), "the client's answer")
            stopped.send_signal(signal.SIGSTOP)
            wait_for(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED, "the client to stand still")
            wait_for(lambda: proxy.metric("connections_closed_total", 'cause="idle"') == 1, "the idle one's end")
            assert proxy.metric("connections") == 1
            gate.set()
            assert framed(read_frame(asking.stream)) == large_answer(large_request(1, 1)[4:])
        finally:
            stopped.kill()
            stopped.wait()
        asking.close()
