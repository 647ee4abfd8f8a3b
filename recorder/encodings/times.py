"""The time to write and read recorded messages in each encoding, as ratios to the fixed one.

It is the processor time of this project's compiled functions, in one interleaved run: each round times every encoding,
and ratios are taken within a round. In other languages the loop over a number's bytes costs less.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, NamedTuple

from proxy.wire.apis import api_name
from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec
from proxy.wire.integers import Encoding
from proxy.wire.sizes import Encodings, reencoded
from recorder.facts.frame import Frame, Opened, Unreadable, opened_with_codec

BEST, WORST = "best", "worst"
WAYS = (*(encoding.value for encoding in Encoding), BEST, WORST)
ROUNDS = 7
# Seconds for each encoding in a round, for writing and again for reading: a hundred times the clock's step.
_SECONDS = 0.002
# the budget for the values of a frame; the timed frames are small
_BUDGET = 16 << 20


class Chosen(NamedTuple):
    """The best and the worst encoding of each field of a message, by path."""

    best: dict[str, str]
    worst: dict[str, str]


class Timed(NamedTuple):
    """The times of an api's requests or responses: by encoding, the ratio to the fixed one, as the median of rounds."""

    api: str
    side: str
    messages: int
    serialize: Mapping[str, float]
    deserialize: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Message:
    """A message in one encoding."""

    codec: Codec
    values: Mapping[str, Any]
    data: bytes


Pick = Mapping[tuple[str, str, int], Chosen]


def measure(frames: Iterable[Frame], pick: Pick, say: Callable[[str], None] = lambda api: None) -> list[Timed]:
    """Times these frames, by api and side; unreadable frames are left out. `say`: called with the name of each api."""
    alike: dict[tuple[str, str], list[Opened]] = defaultdict(list)
    for frame in frames:
        try:
            opened = opened_with_codec(frame, Budget(_BUDGET))
        except Unreadable:
            continue
        alike[api_name(frame.api_key) or str(frame.api_key), frame.side].append(opened)
    found = []
    for (api, side), messages in sorted(alike.items()):
        say(api)
        found.append(_timed(api, side, messages, pick))
    return found


def _timed(api: str, side: str, messages: Sequence[Opened], pick: Pick) -> Timed:
    ways = {way: _encoded(api, side, messages, pick, way) for way in WAYS}
    work = {way: (_writing(some), _reading(some)) for way, some in ways.items()}
    repeats = {way: [_repeats(one) for one in both] for way, both in work.items()}
    rounds: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    gc.collect()
    for number in range(ROUNDS):
        first = number % len(WAYS)
        for way in (*WAYS[first:], *WAYS[:first]):
            rounds[way].append([_time(one, often) for one, often in zip(work[way], repeats[way], strict=True)])
    serialize, deserialize = (
        {
            way: median(mine[at] / base[at] for mine, base in zip(rounds[way], rounds[WAYS[0]], strict=True))
            for way in WAYS
        }
        for at in (0, 1)
    )
    return Timed(api, side, len(messages), serialize, deserialize)


def _encoded(api: str, side: str, messages: Sequence[Opened], pick: Pick, way: str) -> list[_Message]:
    codecs: dict[int, Codec] = {}
    found = []
    for one in messages:
        version = one.codec.version
        if version not in codecs:
            codecs[version] = Codec(
                reencoded(one.codec.message, _encodings(pick.get((api, side, version)), way)), version
            )
        found.append(_Message(codecs[version], one.values, codecs[version].encode(one.values)))
    return found


def _encodings(chosen: Chosen | None, way: str) -> Encodings:
    if way not in (BEST, WORST):
        return Encoding(way)
    by_path = (chosen.best if way == BEST else chosen.worst) if chosen else {}
    return {path: Encoding(encoding) for path, encoding in by_path.items()}


def _writing(messages: Sequence[_Message]) -> Callable[[], None]:
    work = [(one.codec.encode, one.values) for one in messages]

    def write() -> None:
        for encode, values in work:
            encode(values)

    return write


def _reading(messages: Sequence[_Message]) -> Callable[[], None]:
    work = [(one.codec.decode, one.data) for one in messages]

    def read() -> None:
        for decode, data in work:
            decode(data)

    return read


def _repeats(work: Callable[[], None]) -> int:
    """The number of calls that take about _SECONDS. The first call compiles the function, and is not timed."""
    work()
    return max(1, round(_SECONDS / max(_time(work, 1), 1e-6)))


def _time(work: Callable[[], None], often: int) -> float:
    began = process_time()
    for _ in range(often):
        work()
    # never 0, even if the clock has not moved: the result is a divisor
    return max(process_time() - began, 1e-9) / often
