"""A replay against a target that answers anything: the real engine and its rooms, in virtual time.

An input is a head (options, and how many requests), then requests, then what the target does, one piece for each
request that it gets: each piece has its length before it. A request is the number of one of the corpus; a piece's
first byte says what it is: the answer's bytes behind its head, a whole frame, the corpus's answer with some bytes
changed, silence, or the end of the connection. What must hold: no exception leaves the engine, it comes to an end in
bounded virtual time and with bounded work, and no memory is counted then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from fuzz import corpus
from fuzz.corpus import Input
from fuzz.findings import must
from proxy import wire
from proxy.wire.apis import api_name
from recorder.replay.options import Deletes, Options
from recorder.replay.requests.apis import Treatment, treatment
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, one_node

SECOND = 10**9
WAIT, DRAIN = 2 * SECOND, SECOND
# of virtual time, in ms: every wait of a request is over by then
LONGEST_MS = 200_000
MAX_REQUESTS = 12
# requests that a target may get for each that was recorded: retries until --wait, and made ones
MAX_EACH = 400
SENT = frozenset({Treatment.SENT, Treatment.ADMIN, Treatment.DELETES, Treatment.TELEMETRY})
BODY, FRAME, CHANGED, SILENT, CUT = range(5)
FLAGS = {"is_max": 1, "has_prefix": 2, "is_stopped": 4, "is_answered": 8}


@cache
def requests() -> tuple[tuple[int, int, bytes], ...]:
    """(key, version, frame) of the corpus's requests that a replay sends."""
    found = ((key, version, frame) for _, key, version, frame in corpus.frames("request"))
    return tuple(each for each in found if treatment(each[0]) in SENT and wire.codec("request", *each[:2]))


@cache
def answers() -> dict[int, tuple[int, bytes]]:
    """API key -> version and frame of one of the corpus's answers."""
    return {key: (version, frame) for _, key, version, frame in corpus.frames("response")}


def packed(flags: int, asked: Sequence[int], pieces: Sequence[bytes]) -> bytes:
    """An input."""
    head = bytes([flags, len(asked)]) + b"".join(number.to_bytes(2, "big") for number in asked)
    return head + b"".join(len(piece).to_bytes(2, "big") + piece for piece in pieces)


def _pieces(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


@dataclass
class HostileTarget:
    """Does what the pieces say, one for each request; nothing when there is none any more."""

    pieces: Iterator[bytes]
    simulation: Simulation | None = field(default=None, repr=False)

    def answer(self, got: Got) -> Answer:
        piece = next(self.pieces, b"")
        what, rest = (piece[0] % 5, piece[1:]) if piece else (SILENT, b"")
        if what == SILENT:
            return None
        if what == CUT:
            simulation = self.simulation
            assert simulation is not None
            simulation.at(got.at + 1, lambda: simulation.cut(got.channel))
            return None
        if what == FRAME:
            return rest
        head = wire.encode_response(got.key, got.version, got.correlation_id, {})
        start = wire.response_head(head, got.key, got.version).body
        return head[:start] + (rest if what == BODY else _changed(got, rest))


def _changed(got: Got, changes: bytes) -> bytes:
    """The body of the corpus's answer with bytes of it changed: pairs of a place and a value."""
    version, frame = answers().get(got.key, (got.version, b""))
    if version != got.version or not frame:
        codec = wire.codec("response", got.key, got.version)
        body = bytearray(codec.encode({}) if codec else b"")
    else:
        body = bytearray(frame[wire.response_head(frame, got.key, version).body :])
    for place, value in zip(changes[::2], changes[1::2], strict=False):
        if body:
            body[place % len(body)] = value
    return bytes(body)


def replay(data: bytes) -> None:
    """A replay against a target that means harm."""
    if len(data) < 2:
        return
    flags, number = data[0], min(data[1], MAX_REQUESTS)
    recording, known = Recording(), requests()
    for at in range(number):
        key, version, frame = known[int.from_bytes(data[2 + 2 * at : 4 + 2 * at], "big") % len(known)]
        exchange = recording.asks(at, at % 3, key, version, {}, frame=frame)
        if flags & FLAGS["is_answered"] and key in answers() and answers()[key][0] == version:
            recording.answers(at + 2, exchange, answers()[key][1])
    target = HostileTarget(_pieces(data[2 + 2 * number :]))
    simulation = Simulation(recording, target.answer, _options(flags), cluster=one_node(("a", 2)))
    target.simulation = simulation
    if flags & FLAGS["is_stopped"]:
        simulation.at(5, simulation.stop)
    result = simulation.run(LONGEST_MS)
    must(simulation.engine.finished, "a replay comes to its end")
    must(len(simulation.got) <= MAX_EACH * (number + 1), f"{len(simulation.got)} requests for {number} recorded ones")
    must(simulation.engine.memory == 0, "what has ended takes no memory")
    simulation.world.close(simulation.engine.progress, 0)
    must(result.totals.answered <= result.totals.sent <= number, "each request is counted once")


def _options(flags: int) -> Options:
    return Options(
        speed=None if flags & FLAGS["is_max"] else 1.0,
        prefix="p-" if flags & FLAGS["has_prefix"] else "",
        wait=WAIT,
        drain=DRAIN,
        admin=True,
        telemetry=True,
        deletes=Deletes.ALL,
    )


def inputs() -> Iterator[Input]:
    """Each request of the corpus, answered as the corpus has it; and some of them one after the other."""
    as_recorded, flags = [bytes([CHANGED])] * 4, FLAGS["is_max"] | FLAGS["is_answered"]
    for number, (key, version, _) in enumerate(requests()):
        if number % 3 == 0 or version == wire.versions(key)[-1]:
            yield Input("replay", f"{key:02}-{api_name(key)}-v{version}", packed(flags, [number], as_recorded))
    for number, what in enumerate((BODY, FRAME, CHANGED, SILENT, CUT)):
        asked = range(number, len(requests()), 31)
        yield Input("replay", f"mixed-{what}", packed(number, [*asked][:9], [bytes([what]), bytes([CHANGED])] * 20))


CHECKS = {"replay": replay}
