"""A whole connection in one process: a script of what client and broker send, through the proxy's own relay and tap.

The relay, the conversation, the rewriting and the tap are the real ones. Played are the sockets (in the order of the
script, in virtual time), the listeners of nodes, and the thread that would write the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import trio
from trio.testing import MockClock

from proxy.config import ClusterSettings
from proxy.conversation import Cause, Conversation, Direction
from proxy.files import Folder
from proxy.mapping.nodes import Node
from proxy.metrics.nodes import BOOTSTRAP
from proxy.metrics.traffic import Traffic
from proxy.net.brokers.identity import Identity
from proxy.net.cluster import routes
from proxy.net.connection import rewriting
from proxy.net.connection.relay import FRAMES_PER_TURN, ClusterContext, Relay
from proxy.net.limits.held_bytes import HeldBytes
from proxy.observer import OpenedConnection
from proxy.schema.addresses import Address
from proxy.wire.dialects import Dialect
from recorder.capture.keep import RoomWatch
from recorder.capture.lag import ArrivalTimes
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap
from recorder.capture.writer import MACHINE_CLOCK

# the advertised host of all nodes, and the upstream host
ADVERTISED = "proxy.test"
UPSTREAM = "up.invalid"
# virtual seconds after which a side that does not read is overtaken by the other one; and what closing may take
PATIENCE, HALF_CLOSE = 1.0, 10_000.0
# a play that takes longer hangs
MAX_SECONDS = 100 * HALF_CLOSE
# frames above it are walked, in plays that ask for it: as those above 256 KiB are in life
WALKED_ABOVE = 48
MAX_HELD = 1 << 28
# nodes of higher numbers get no port
HIGHEST_NODE = 1 << 24
# plain frames of a chunk, in plays that ask for short turns: others count as several of them
SHORT_TURN = 4

Chunk = tuple[Direction, bytes]
T = TypeVar("T")


class Options(NamedTuple):
    """What a play has besides its chunks.

    `drained_after`: so many of them have been read when the proxy stops. `is_old`: the dialect of 0.7 is spoken.
    `short_turns`: few frames of a chunk are looked at before others have their turn. `drops`: no records are recorded.
    """

    walked: bool = False
    hide_unknown: bool = False
    recut: int = 0
    drained_after: int | None = None
    is_old: bool = False
    short_turns: bool = False
    drops: bool = False


AS_IT_IS = Options()


@dataclass
class Outcome:
    """The outcome of a play. Bytes by direction: `read` from a peer, and `left` for the other one.

    `drops`: no records were recorded.
    """

    cause: Cause
    read: list[bytes]
    left: list[bytes]
    log: list[tuple[Any, ...]]
    traffic: Traffic
    conversation: Conversation
    ensured: set[int]
    drops: bool


@dataclass
class Script:
    """Chunks in their order; each is for the relay's task of its direction."""

    events: deque[Chunk]
    read: list[bytearray] = field(default_factory=lambda: [bytearray(), bytearray()])
    changed: trio.Event = field(default_factory=trio.Event)
    # the side that does not read while it is its turn
    overtaken: Direction | None = None
    drain_after: int | None = None
    taken: int = 0
    relay: Relay | None = None
    broker_told: bool = False
    # what was put back and was not taken again
    rests: dict[Direction, bytes] = field(default_factory=dict)

    def tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def take(self, direction: Direction, most: int) -> bytes:
        at = next(number for number, event in enumerate(self.events) if event[0] is direction)
        _, data = self.events[at]
        del self.events[at]
        if len(data) > most:
            self.events.insert(at, (direction, data[most:]))
        if direction in self.rests:
            self.rests[direction] = self.rests[direction][most:]
        if self.overtaken is direction:
            self.overtaken = None
        self.read[direction] += data[:most]
        self.taken += 1
        if self.taken == self.drain_after and self.relay is not None:
            self.relay.drain()
        self.tell()
        return data[:most]

    def put_back(self, direction: Direction, rest: bytes) -> None:
        del self.read[direction][-len(rest) :]
        self.events.appendleft((direction, rest))
        self.rests[direction] = rest


class Side:
    """One of the relay's streams."""

    supports_half_close = True
    is_tls = False
    sent_slowly = 0

    def __init__(self, script: Script, direction: Direction) -> None:
        self.peer = direction.name
        self.left = bytearray()
        self.is_waiting = False
        self._script = script
        self._direction = direction
        self._woken = False

    async def receive(self, most: int = 1 << 18) -> bytes | None:
        script, own = self._script, self._direction
        while not self._woken:
            # where the relay may be told that it has ended
            await trio.lowlevel.checkpoint()
            head = script.events[0][0] if script.events else None
            is_there = any(direction is own for direction, _ in script.events)
            if head is own or (is_there and script.overtaken is not None and script.overtaken is not own):
                return script.take(own, most)
            if not is_there and self._has_ended():
                return b""
            self.is_waiting = True
            with trio.move_on_after(PATIENCE if is_there else float("inf")) as patience:
                await script.changed.wait()
            self.is_waiting = False
            if patience.cancelled_caught and script.events and script.events[0][0] is head:
                script.overtaken = head
        self._woken = False
        await trio.lowlevel.checkpoint()
        return None

    def put_back(self, rest: bytes) -> None:
        self._script.put_back(self._direction, rest)

    def take_put_back(self, most: int = 1 << 18) -> bytes:
        is_there = bool(self._script.rests.get(self._direction))
        return self._script.take(self._direction, most) if is_there else b""

    async def receive_until(self, take: Callable[[bytes | None], T | None], most: int = 1 << 18) -> T:
        while (found := take(await self.receive(most))) is None:
            pass
        return found

    def _has_ended(self) -> bool:
        """The client ends when nothing is left of the script; the broker when it is told so."""
        return not self._script.events if self._direction is Direction.REQUEST else self._script.broker_told

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        self.send_now(pieces)

    def send_now(self, pieces: Iterable[bytes | memoryview]) -> tuple[()]:
        for piece in pieces:
            self.left += piece
        return ()

    def wake(self) -> None:
        self._woken = True
        self._script.tell()

    async def send_eof(self) -> None:
        if self._direction is Direction.RESPONSE:
            self._script.broker_told = True
            self._script.tell()


class PlayedNodes:
    """Listeners that are there as soon as they are asked for."""

    def __init__(self) -> None:
        self.ensured: set[int] = set()
        self.identity = Identity("main", None)

    def note(self, node_ids: Iterable[int], *, is_list: bool) -> None:
        """Forgets no node."""

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        for node in nodes:
            if node.node_id > HIGHEST_NODE:
                raise OSError(24, "no port can be had")
            self.ensured.add(node.node_id)

    def needs_ensure(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        return any(node.node_id not in self.ensured for node in nodes)

    def advertised(self, node_id: int) -> Address:
        if node_id not in self.ensured:
            raise AssertionError(f"node {node_id} is told before it is listened for")
        return self.told(node_id)

    @staticmethod
    def told(node_id: int) -> Address:
        return Address(ADVERTISED, 10_000 + node_id % 50_000)


@dataclass
class Pages:
    """A writer that only keeps the tap's entries. `log`: only its arrival_times and clock are used."""

    queue: list[tuple[Any, ...]] = field(default_factory=list)
    segment: int = 1
    written: int = 0
    idle: bool = False
    ended: bool = False
    log: Any = field(default_factory=lambda: SimpleNamespace(arrival_times=ArrivalTimes(), clock=MACHINE_CLOCK))


def play(chunks: Sequence[Chunk], options: Options = AS_IT_IS) -> Outcome:
    """Plays the chunks to their end.

    Errors: whatever the relay or the tap raises; trio.TooSlowError where it hangs.
    """
    with _walking(WALKED_ABOVE if options.walked else rewriting.HOLD_WALKED_BELOW):
        return trio.run(_played, chunks, options, clock=MockClock(autojump_threshold=0))


@contextmanager
def _walking(above: int) -> Iterator[None]:
    before, rewriting.HOLD_WALKED_BELOW = rewriting.HOLD_WALKED_BELOW, above
    try:
        yield
    finally:
        rewriting.HOLD_WALKED_BELOW = before


_ROUTES = {is_old: routes(Dialect.KAFKA_07 if is_old else Dialect.KAFKA) for is_old in (False, True)}
_SETTINGS = {
    hide: ClusterSettings(
        (Address(UPSTREAM, 9092),), Address("127.0.0.1", 0), half_close_seconds=HALF_CLOSE, hide_unknown=hide
    )
    for hide in (False, True)
}


async def _played(chunks: Sequence[Chunk], options: Options) -> Outcome:
    settings, script = _SETTINGS[options.hide_unknown], Script(deque(chunks), drain_after=options.drained_after)
    pages, nodes, traffic, held = Pages(), PlayedNodes(), Traffic(), HeldBytes(MAX_HELD, 30)
    recording = RecordSettings(queue=1 << 40, records=RecordRule.DROP if options.drops else RecordRule.KEEP)
    tap = Tap(Folder(Path(), -1), recording, pages, None, RoomWatch(Path()))  # type: ignore[arg-type]
    turn = SHORT_TURN if options.short_turns else FRAMES_PER_TURN
    conversation = Conversation(_ROUTES[options.is_old], settings.limits, max_frames=turn)
    context = ClusterContext(settings, nodes, traffic, held, tap, None)  # type: ignore[arg-type]
    counted = traffic.connection(1, BOOTSTRAP, conversation.login)
    client, broker = Side(script, Direction.REQUEST), Side(script, Direction.RESPONSE)
    relay = script.relay = Relay(counted, client, broker, conversation, context)  # type: ignore[arg-type]
    tap.opened(OpenedConnection(1, 0, "here", "client", None, "broker", False, "main"), conversation)
    cause = Cause.DRAIN_DEADLINE
    with trio.move_on_after(MAX_SECONDS) as deadline:
        cause = await relay.run()
    # a broker that never answers keeps a proxy that is to stop until its time is up, and nobody else
    if deadline.cancelled_caught and options.drained_after is None:
        raise trio.TooSlowError
    tap.closed(1, cause, 1)
    traffic.closed(cause, conversation.in_flight, conversation.login)
    if held._held:
        raise AssertionError(f"{held._held} bytes are held by a connection that has ended")
    left = [bytes(broker.left), bytes(client.left)]
    rest = pages.queue, traffic, conversation, nodes.ensured, options.drops
    return Outcome(cause, [bytes(one) for one in script.read], left, *rest)
