"""Connections that are cut at a byte: their dialogues, and a recording proxy in this process.

The expectations follow from the bytes alone: `known` and `held` say for each frame how much of its beginning the proxy
holds until more has arrived. They don't use the tested code.
"""

from __future__ import annotations

import fcntl
import random
import socket
import struct
import termios
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import trio

from proxy.config.cluster import ProxyProtocolVersion
from proxy.conversation import Cause
from proxy.net.sockets.streams import Stream
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import FETCH, HEARTBEAT, METADATA, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import open_tap
from tests.brokers.waiting import PATIENCE
from tests.faults.live import HOST, NODES, answer
from tests.proxy.net.peers import Peer
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings
from tests.sweeps import is_thorough

CLIENT_ID = "cuts"
USER, PASSWORD = b"anna", b"Vj3kT9x-not-for-the-disk"
# length, key, version, correlation id; a response's length and correlation id; a bare token's length
REQUEST_HEAD, RESPONSE_HEAD, TOKEN_HEAD = 12, 8, 4
# up to acks: the head's tags, no transactional id
PRODUCE_HEAD = REQUEST_HEAD + 2 + len(CLIENT_ID) + 1 + 1 + 2
LARGE = 300 * 1024
# cuts that each run makes: within a frame's size and head, and around its end
HEAD, END = 16, 6


class Ending(Enum):
    """How a peer ends its connection."""

    FIN = "fin"
    RESET = "reset"


@dataclass(frozen=True)
class Turn:
    """A request and its response as bytes of the streams; None: there is none.

    `known`: bytes of the request that must have arrived before any leaves. `held`: likewise of the response; its bytes
    after `through` leave only once all of it has arrived. `secret`: bytes in either that may be masked.
    """

    request: bytes
    response: bytes | None
    known: int = REQUEST_HEAD
    held: int = RESPONSE_HEAD
    through: int | None = None
    kinds: tuple[str, str] = ("request", "response")
    secret: bool = False

    def request_through(self, cut: int) -> bytes:
        """Returns the bytes that leave of a request that ended abruptly after so many bytes."""
        return self.request[:cut] if cut >= self.known else b""

    def response_through(self, cut: int) -> bytes:
        """Returns the bytes that leave of an incomplete response."""
        assert self.response is not None
        if cut < self.held:
            return b""
        return self.response[: cut if self.through is None else min(cut, self.through)]


Dialogue = tuple[Turn, ...]


def _turn(key: int, version: int, asked: dict[str, Any], told: dict[str, Any] | None, **others: Any) -> Turn:
    number = random.Random(f"{key} {version}").randrange(1 << 31)
    request = framed(catalog.encode_request(key, version, number, CLIENT_ID, asked))
    response = None if told is None else framed(catalog.encode_response(key, version, number, told))
    return Turn(request, response, **others)


def _produce(acks: int) -> dict[str, Any]:
    records = {"index": 0, "records": bytes(range(20))}
    return {"acks": acks, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [records]}]}


def _produced() -> dict[str, Any]:
    return {"responses": [{"name": "t", "partition_responses": [{"index": 0, "base_offset": 7}]}]}


def _fetched() -> dict[str, Any]:
    records = random.Random(5).randbytes(LARGE)
    partition = {"partition_index": 0, "high_watermark": 9, "records": records}
    topic = {"topic_id": b"\1" * 16, "partitions": [partition]}
    endpoint = {"node_id": NODES[0], "host": "broker-1.invalid", "port": 9092, "rack": "r"}
    return {"responses": [topic], "node_endpoints": [endpoint]}


def _metadata() -> Turn:
    turn = _turn(METADATA, 12, {"topics": []}, {})
    return Turn(turn.request, answer(turn.request[4:], (HOST, 9092)), through=0)


def _fetch() -> Turn:
    turn = _turn(FETCH, 16, {"topics": []}, _fetched())
    assert turn.response is not None
    # the endpoints follow the topics: the bytes after the last topic wait for the end
    records_end = turn.response.index(_fetched()["responses"][0]["partitions"][0]["records"]) + LARGE
    # the tags of the partition, and of the topic
    return Turn(turn.request, turn.response, through=records_end + 2)


def _token(request: bytes, response: bytes) -> Turn:
    kinds = ("token", "token")
    return Turn(framed(request), framed(response), TOKEN_HEAD, TOKEN_HEAD, kinds=kinds, secret=True)


def _handshake(version: int) -> Turn:
    turn = _turn(SASL_HANDSHAKE, version, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    if version:
        return turn
    # bare tokens follow, so the mechanism must be known first, and then whether it was refused (2 bytes of error)
    return Turn(turn.request, turn.response, len(turn.request), RESPONSE_HEAD + 2)


_PLAIN = b"\0" + USER + b"\0" + PASSWORD
_LOGIN = {"auth_bytes": _PLAIN}, {"error_code": 0, "auth_bytes": b""}
BEAT = _turn(HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 0})

# the last turn of each is cut
DIALOGUES: dict[str, Dialogue] = {
    "heartbeat": (BEAT, BEAT),
    "metadata": (BEAT, _metadata()),
    "produce-acks-1": (BEAT, _turn(PRODUCE, 9, _produce(1), _produced(), known=PRODUCE_HEAD)),
    "produce-acks-0": (BEAT, _turn(PRODUCE, 9, _produce(0), None, known=PRODUCE_HEAD)),
    "bare-token": (_handshake(0), _token(_PLAIN, b"")),
    "login": (_handshake(1), _turn(SASL_AUTHENTICATE, 2, *_LOGIN, secret=True)),
    "handshake-0": (_handshake(0),),
    "handshake-1": (_handshake(1),),
}
WALKED: Dialogue = (BEAT, _fetch())
ANSWERED = {name: turns for name, turns in DIALOGUES.items() if turns[-1].response is not None}


def cuts(stream: bytes | None, through: int | None = None) -> list[int]:
    """Returns cuts of a frame: before its first byte and after each byte, but not within a large frame's records.

    A usual run leaves out two of three cuts behind a frame's size and head, but those around its end.
    """
    every = _every_cut(stream, through)
    return every if is_thorough() else [*every[:HEAD], *every[HEAD:-END:3], *every[-END:]]


def _every_cut(stream: bytes | None, through: int | None) -> list[int]:
    assert stream is not None
    if len(stream) < LARGE:
        return list(range(len(stream) + 1))
    assert through is not None
    around = [at + step for at in (256 * 1024, through) for step in range(-3, 4)]
    return sorted({*range(90), *around, len(stream) // 2, *range(through, len(stream) + 1)})


@dataclass(frozen=True)
class Expected:
    """A row of the capture: the bytes of a frame that arrived, and whether it is complete."""

    kind: str
    bytes: bytes
    missing: int
    secret: bool


@dataclass
class Told:
    """The expected rows of a connection, in order, and its expected end."""

    rows: list[Expected] = field(default_factory=list)
    cause: Cause | None = None
    # the expected counts of its requests
    answered: int = 0
    one_way: int = 0
    unanswered: int = 0

    def saw(self, turn: Turn, direction: int, size: int) -> None:
        """Notes that so many bytes of a turn's request or response have arrived."""
        stream = (turn.request, turn.response)[direction]
        assert stream is not None
        begun = TOKEN_HEAD if turn.kinds[direction] == "token" else (turn.known, turn.held)[direction]
        if size >= begun:
            self.rows.append(Expected(turn.kinds[direction], stream[4:size], len(stream) - size, turn.secret))
            self._count(turn, direction, size == len(stream))
        elif size:
            self.rows.append(Expected("bytes", stream[:size], 0, True))

    def _count(self, turn: Turn, direction: int, whole: bool) -> None:
        if turn.kinds[direction] == "response":
            self.answered += whole
            self.unanswered -= whole
        elif turn.kinds[direction] == "request" and turn.response is not None:
            self.unanswered += 1
        elif turn.kinds[direction] == "request":
            self.one_way += whole


class Stage:
    """A recording proxy, a broker whose connections the test controls, and another client that must notice nothing."""

    def __init__(self, running: Running, accepted: trio.MemoryReceiveChannel[tuple[str, Peer]]) -> None:
        self.running = running
        # by connection number, in the order of arrival
        self.told: list[Told] = []
        self._accepted = accepted
        self._waiting: dict[str, Peer] = {}
        self._neighbour: tuple[Peer, Peer] | None = None

    async def connect(self) -> tuple[Peer, Peer, Told]:
        """Opens a client's connection and the broker's side of it, once the neighbour has been served."""
        if self._neighbour is None:
            client, broker, _ = await self._connected()
            self._neighbour = client, broker
        await self.talk(*self._neighbour, self.told[0], (BEAT,))
        return await self._connected()

    async def _connected(self) -> tuple[Peer, Peer, Told]:
        client = await self.running.client()
        broker = await self._side_of(str(client.stream.socket.getsockname()[1]))
        for peer in (client, broker):
            peer.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.told.append(Told())
        return client, broker, self.told[-1]

    async def _side_of(self, port: str) -> Peer:
        """Returns the broker's side of the connection of a client on that port."""
        with trio.fail_after(PATIENCE):
            while port not in self._waiting:
                arrived, peer = await self._accepted.receive()
                self._waiting[arrived] = peer
        return self._waiting.pop(port)

    async def talk(self, client: Peer, broker: Peer, told: Told, turns: Iterable[Turn]) -> None:
        """Plays whole turns, and checks every byte."""
        for turn in turns:
            await client.say(turn.request)
            await broker.hears(turn.request)
            told.saw(turn, 0, len(turn.request))
            if turn.response is not None:
                await broker.say(turn.response)
                await client.hears(turn.response)
                told.saw(turn, 1, len(turn.response))

    async def close(self) -> None:
        """Ends the neighbour in order; returns once all connections have ended."""
        assert self._neighbour is not None
        client, broker = self._neighbour
        client.close()
        await broker.hears_the_end()
        broker.close()
        self.told[0].cause = Cause.CLIENT_CLOSED
        with trio.fail_after(PATIENCE):
            while sum(self.running.closes().values()) < len(self.told):
                await trio.sleep(0)


async def has_unread(peer: Peer) -> None:
    """Waits until bytes are in the peer's socket that it has not read: it resets the connection when it closes."""
    while not struct.unpack("i", fcntl.ioctl(peer.stream.socket.fileno(), termios.FIONREAD, bytes(4)))[0]:
        await trio.sleep(0)


async def go(peer: Peer, ending: Ending) -> None:
    """The peer ends, after its bytes have arrived: a reset overtakes bytes in flight."""
    if ending is Ending.RESET:
        while struct.unpack("i", fcntl.ioctl(peer.stream.socket.fileno(), termios.TIOCOUTQ, bytes(4)))[0]:
            await trio.sleep(0)
        peer.reset()
    else:
        peer.close()


def dial_before_the_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may be gone at its first byte too, while a broker is there: as on a TLS listener."""

    async def at_once(stream: Stream, seconds: float) -> bool:
        return True

    monkeypatch.setattr(Stream, "has_spoken", at_once)


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """Records everything into `folder`; compact it after the `with` block."""
    tap = open_tap(folder, RecordSettings(when_full=WhenFull.WAIT))
    sender, receiver = trio.open_memory_channel[tuple[str, Peer]](8)
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    here = Address(*listener.socket.getsockname()[:2])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_accept, nursery, listener, here, sender)
        async with proxying(settings(here, send_proxy=ProxyProtocolVersion.ONE), watcher=tap) as running:
            await running.nodes(*NODES)
            play = Stage(running, receiver)
            yield play
            await play.close()
            running.stop()
            await running.ends_with(0)
        nursery.cancel_scope.cancel()


async def _accept(
    nursery: trio.Nursery, listener: trio.SocketListener, here: Address, sender: trio.MemorySendChannel[Any]
) -> None:
    async with listener:
        while True:
            nursery.start_soon(_arrived, Peer(await listener.accept()), here, sender)


async def _arrived(peer: Peer, here: Address, sender: trio.MemorySendChannel[Any]) -> None:
    """The PROXY header names the client; without one, the connection is the proxy's own.

    A proxy that stops may drop a connection of its own at any moment, even before the header.
    """
    header = await peer.stream.receive_some(1)
    if not header:
        return
    while not header.endswith(b"\r\n"):
        header += await peer.hear(1)
    if not header.startswith(b"PROXY UNKNOWN"):
        await sender.send((header.split()[4].decode(), peer))
        return
    with suppress(trio.BrokenResourceError):
        while head := await peer.stream.receive_some(4):
            frame = await peer.hear(int.from_bytes(head, "big"))
            await peer.say(answer(frame, (here.host, here.port)))
    peer.close()
