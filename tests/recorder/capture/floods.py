"""Builds hostile floods: frames that cost the recorder more than their bytes, in small pieces.

`Recorded` takes a connection through tap and compactor, without a proxy or a disk.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction
from proxy.rewrite import api_versions
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import CREATE_TOPICS, HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture.assembly import Assembly
from recorder.capture.connection_recorder import ConnectionRecorder
from recorder.capture.frame_filter import FrameFilter
from recorder.capture.inventory import Inventory
from recorder.capture.ranges import RangeFiles
from recorder.capture.selection import LeftOutBy, Selection
from recorder.capture.session import RecordSettings
from recorder.capture.session_topics import SessionTopics
from recorder.capture.spool import Entry, EntryKind, Item
from recorder.capture.topic_ids import TopicIds
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import opened

VENDOR = 10_001
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
EVERYTHING = RecordSettings()


class Recorded:
    """One connection through the proxy's conversation and the tap, and then the compactor."""

    def __init__(self, settings: RecordSettings = EVERYTHING) -> None:
        self.talk = Conversation(traffic.recording_routes())
        self.line = ConnectionRecorder(
            1, self.talk, (int(EntryKind.OPENED), 0, 1, 0, 0, json.dumps(opened()).encode(), ())
        )
        self.items: list[Item] = [self.line.unwritten_opened] if self.line.unwritten_opened else []
        self.line.unwritten_opened = None
        selection = Selection(settings)
        if not selection.selects_everything:
            self.line.frame_filter = FrameFilter(
                self.talk,
                selection,
                TopicIds(),
                SessionTopics(),
                dict.fromkeys(LeftOutBy, 0),
                is_selected=True,
                principal=None,
            )
        self.now = 0

    def feed(self, direction: Direction, chunk: bytes) -> None:
        self.now += 1
        step = (self.talk.responses if direction else self.talk.requests)(chunk, self.now)
        cuts = [] if self.line.frame_filter is None else self.line.frame_filter.omissions(direction, step)
        offset = step.offset + len(step.data) - len(chunk)
        self.items += self.line.take(direction, offset, chunk, self.now, step, cuts)
        for exchange in step.to_answer:
            number = exchange.correlation_id or 0
            frame = api_versions.unsupported(number)
            self.talk.answer(exchange, frame)
            self.items += self.line.add(EntryKind.OWN_ANSWER, RESPONSE, number, self.now, frame)
        self.talk.own_answers_due(self.now)

    def feed_all(self, direction: Direction, data: bytes, size: int) -> None:
        for at in range(0, len(data), size):
            self.feed(direction, data[at : at + size])

    def compact(self, folder: Path) -> None:
        assembly = Assembly()
        assembly.begin_range(RangeFiles(folder, "s", 1, None), 1_000)
        items = [*self.items, *self.line.finish()]
        for item, number in zip(items, Inventory().number_entries(items), strict=True):
            assembly.feed(Entry(*item, number))
        assembly.finish()


def request(key: int, version: int, number: int, **values: object) -> bytes:
    return framed(catalog.encode_request(key, version, number, None, values))


def short(key: int, version: int, number: int, body: bytes = b"") -> bytes:
    """A request that is only a head, without a client id."""
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + number.to_bytes(4, "big") + b"\xff\xff"
    return framed(head + body)


def token(number: int) -> bytes:
    return short(SASL_AUTHENTICATE, 0, number, b"\0\0\0\1x")


def settings(count: int) -> bytes:
    configs = [{"name": "", "value": "x"}] * count
    return request(CREATE_TOPICS, 5, 1, topics=[{"name": "t", "configs": configs}])


def all_of(make: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda count: b"".join(map(make, range(count)))


WHOLE, SMALL, BYTES = 1 << 20, 10, 1


class Flood(NamedTuple):
    """`times` pieces, sent in chunks of `size`. `before`: what the client sends first."""

    make: Callable[[int], bytes]
    size: int = WHOLE
    times: int = 100
    before: bytes = b""
    settings: RecordSettings = EVERYTHING

    def sized(self, size: int) -> bytes:
        """Returns about `size` bytes of the flood."""
        one, two = (len(self.make(count)) for count in (1, 2))
        return self.make(max(1, (size - one) // (two - one) + 1))


HEARD = short(HEARTBEAT, 0, 1)
PLAIN = request(SASL_HANDSHAKE, 1, 1, mechanism="PLAIN")
# the head of a Produce request, which is not known until its acks have arrived
LONG_HEAD = (1 << 16).to_bytes(4, "big") + b"\0\0\0\3\0\0\0\1\x7f\xff"
FLOODS = {
    "plain": Flood(all_of(lambda number: short(HEARTBEAT, 0, number))),
    "tokens": Flood(all_of(token)),
    "tokens in small chunks": Flood(all_of(token), SMALL),
    "logins": Flood(all_of(lambda number: request(SASL_AUTHENTICATE, 0, number, auth_bytes=b"\0a\0b")), before=PLAIN),
    "bare logins": Flood(all_of(lambda n: request(SASL_HANDSHAKE, 0, n, mechanism="X") + framed(b"tt"))),
    "unknown": Flood(all_of(lambda number: short(VENDOR, 0, number))),
    "unreadable": Flood(all_of(lambda number: framed(b"x"))),
    "newer": Flood(all_of(lambda number: short(18, 0x7F00, number, b"\0")), before=HEARD),
    "settings": Flood(settings, 40, 200),
    "token byte by byte": Flood(lambda count: token(1)[:-5] + bytes(count), BYTES, 400),
    "head byte by byte": Flood(lambda count: LONG_HEAD + b"c" * count, BYTES, 400),
    "left out": Flood(all_of(lambda n: short(HEARTBEAT, 0, n)), settings=RecordSettings(apis=("!Heartbeat",))),
    "heads": Flood(
        all_of(lambda n: request(HEARTBEAT, 0, n, group_id="group")), settings=RecordSettings(bodies="head")
    ),
    "tokens' heads": Flood(all_of(token), settings=RecordSettings(bodies="head")),
}
