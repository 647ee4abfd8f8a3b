"""Connections of the dialect of 0.7: what they start from, and what must hold of them.

Nothing links a response to its request but the order, and nothing is changed on its way. The twin is as simple as
that: frames by their lengths, and each response for the oldest request that has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fuzz.findings import must, same
from fuzz.plays import Chunk, Outcome
from proxy.conversation import Cause, Direction, OpaqueReason
from proxy.wire import kafka07
from proxy.wire.error_codes import ERRORS
from proxy.wire.framing import LENGTH, FrameLimits, framed
from recorder.capture.spool import KIND, LEFT_OVER, SPANS

REQUEST, RESPONSE = Direction
# of either direction, behind its length
SHORTEST = 2
# what a metric says of a type that 0.7 does not have
OTHER = "other"
ONE_WAY = ("0.7/produce", "0.7/multiproduce")
# of a series
COUNTED = ("exchanges", "unanswered", "one_way", "by_proxy", "request_bytes", "response_bytes")
# lengths that are none, one that never ends, heads of the other dialect and of no dialect
EDGES: tuple[bytes, ...] = (
    b"\0\0\0\0",
    b"\0\0\0\1\0",
    b"\xff\xff\xff\xff",
    b"\0\0\0\2",
    b"\0\0\0\2\0",
    b"\x06\0\0\0\0\1",
)
EDGES += (b"\0\0\0\x0c\0\x12\0\3\0\0\0\1\xff\xff\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0")


class Frame(NamedTuple):
    """A frame of which the head has come: its type or error code, its size behind the length, whether all has come."""

    number: int
    size: int
    is_whole: bool

    @property
    def api(self) -> str:
        """Of a request."""
        return kafka07.RequestType(self.number).api if self.number in list(kafka07.RequestType) else OTHER


def frames(stream: bytes, longest: int, head: int = 6) -> Iterator[Frame]:
    """Up to a length that none may have, or a head of so many bytes that has not come."""
    at = 0
    while at + head <= len(stream):
        size = LENGTH.unpack_from(stream, at)[0]
        if not SHORTEST <= size <= longest:
            return
        stop = at + 4 + size
        yield Frame(int.from_bytes(stream[at + 4 : at + 6], "big", signed=True), size, stop <= len(stream))
        at = stop


def check(outcome: Outcome) -> None:
    """All that holds of a single play, but for its log."""
    _passes_as_it_is(outcome)
    _is_paired_by_order(outcome)
    must(not outcome.ensured, "no node is listened for")
    masked = [item for item in outcome.log if item[SPANS] and item[KIND] not in LEFT_OVER]
    must(not masked, f"no frame is masked: {masked}")


def _requests(stream: bytes) -> list[Frame]:
    return [*frames(stream, FrameLimits().request)]


def _responses(stream: bytes) -> list[Frame]:
    """Which one a response is, its length does not say; that it has begun, it does."""
    return [*frames(stream, FrameLimits().response, head=LENGTH.size)]


def _passes_as_it_is(outcome: Outcome) -> None:
    for read, left, told_apart in zip(outcome.read, outcome.left, (_requests, _responses), strict=True):
        must(read.startswith(left), f"what leaves is what came: {left!r} is no beginning of {read!r}")
        if outcome.cause in (Cause.CLIENT_CLOSED, Cause.PROBE):
            whole = [one for one in told_apart(read) if one.is_whole]
            same([one for one in told_apart(left) if one.is_whole], whole, "frames that leave")


def _is_paired_by_order(outcome: Outcome) -> None:
    """Requests count as far as they have left: what ends a connection ends both directions."""
    asked, answers = _requests(outcome.left[REQUEST]), _responses(outcome.left[RESPONSE])
    awaiting = [one for one in asked if one.api not in ONE_WAY]
    must(len(answers) <= len(awaiting), f"{len(answers)} answers for {len(awaiting)} requests")
    pairs = [pair for pair in zip(awaiting, answers, strict=False) if pair[1].is_whole]
    silent = [one for one in asked if one.api in ONE_WAY and one.is_whole]
    wanted: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
    for request, answer in pairs:
        wanted["exchanges"][request.api] += 1
        wanted["request_bytes"][request.api] += request.size
        wanted["response_bytes"][request.api] += answer.size
    for request in silent:
        wanted["one_way"][request.api] += 1
        wanted["request_bytes"][request.api] += request.size
    # whose answer has begun is answered, or cut: as in the other dialect
    wanted["unanswered"].update(one.api for one in awaiting[len(answers) :])
    for name, counts in wanted.items():
        same(_counted(outcome, name), counts, name)
    errors = Counter((request.api, _error(answer.number)) for request, answer in pairs if answer.number)
    named = outcome.traffic.errors.named
    # behind its first code a MULTIFETCH response has one for each part
    for api in ("0.7/fetch", "0.7/offsets"):
        same(_of(named, api), _of(errors, api), f"errors of {api}")
    same(outcome.traffic.opaque_frames[OpaqueReason.UNKNOWN_API], sum(one.api == OTHER for one in asked), "unknown")
    versions = {version for api, version in outcome.traffic.rows if api != OTHER}
    must(versions <= {"0.7"}, f"series of {versions}")


def _error(code: int) -> str:
    return ERRORS[code].name if code in ERRORS else OTHER


def _of(errors: Counter[tuple[str, str]], api: str) -> Counter[str]:
    return Counter({error: count for (of, error), count in errors.items() if of == api})


def _counted(outcome: Outcome, name: str) -> Counter[str]:
    found: dict[str, int] = {api: getattr(row, name) for (api, _), row in outcome.traffic.rows.items()}
    return Counter({api: count for api, count in found.items() if count})


def scripts() -> dict[str, list[Chunk]]:
    """What clients and brokers of 0.7 say, and what neither would."""
    calls = _calls()
    every = [call for call in calls.values() for _ in range(2)]
    turns = [chunk for asked, answered in every for chunk in ((REQUEST, asked), (RESPONSE, answered)) if chunk[1]]
    asked, answered = (b"".join(call[way] for call in every) for way in (REQUEST, RESPONSE))
    found: dict[str, list[Chunk]] = {
        f"call-{name}": [(way, one[way]) for way in Direction if one[way]] for name, one in calls.items()
    }
    found["in-turn"] = turns
    found["at-once"] = [(REQUEST, asked), (RESPONSE, answered)]
    found["crossing"] = [(REQUEST, asked), (RESPONSE, answered[:9]), (REQUEST, asked[:7]), (RESPONSE, answered[9:])]
    found["answered-early"] = [(REQUEST, calls["fetch"][0][:8]), (RESPONSE, calls["fetch"][1])]
    found["answered-early"] += [(REQUEST, calls["fetch"][0][8:]), *turns]
    found["answered-twice"] = [*turns, (RESPONSE, calls["fetch"][1])]
    found["never-asked"] = [(RESPONSE, calls["fetch"][1]), *turns]
    found["answer-to-produce"] = [(REQUEST, calls["produce"][0]), (RESPONSE, framed(b"\0\0")), *turns]
    for number, edge in enumerate(EDGES):
        found[f"edge-{number}"] = [*turns, (REQUEST, edge)]
        found[f"answered-edge-{number}"] = [*turns, (REQUEST, calls["fetch"][0] * 2), (RESPONSE, edge)]
    return found


def _calls() -> dict[str, tuple[bytes, bytes]]:
    """Of each type, and of types that there aren't, a request and its answer; none is b""."""
    messages = kafka07.messages.message_set([b"one", b"two"])
    fetch, produce = kafka07.Fetch("t", 0, 7, 1000), kafka07.Produce("t", 0, messages)
    answer = kafka07.FetchResponse(0, messages + messages[:9])
    found: dict[str, tuple[kafka07.Request | kafka07.UnknownRequest, kafka07.Response | None]] = {
        "produce": (produce, None),
        "fetch": (fetch, answer),
        "refused": (fetch, kafka07.FetchResponse(1)),
        "multifetch": (kafka07.MultiFetch((fetch, fetch)), kafka07.MultiFetchResponse(0, (answer, answer))),
        "multiproduce": (kafka07.MultiProduce((produce, produce)), None),
        "offsets": (kafka07.Offsets("t", 0, kafka07.LATEST, 3), kafka07.OffsetsResponse(0, (9, 0))),
        "unknown": (kafka07.UnknownRequest(5, b"body"), answer),
        "negative": (kafka07.UnknownRequest(-1, b""), answer),
    }
    return {
        name: (framed(kafka07.encode_request(asked)), framed(kafka07.encode_response(answered)) if answered else b"")
        for name, (asked, answered) in found.items()
    }
