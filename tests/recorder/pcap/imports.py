"""Imports segments into a capture, and makes talks for that."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxy.conversation import Direction
from proxy.schema.flags import MAIN
from proxy.wire.dialects import Dialect
from proxy.wire.keys import HEARTBEAT, METADATA
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import open_tap
from recorder.pcap.importing import Import, Session
from tests.recorder.capture.traffic import KINDS, Chunk, Talk, cut, talk
from tests.recorder.pcap.dumps import ETHERNET, SECOND, Sent, as_packets

SOURCE = {"file": "a.pcap", "bytes": 1, "sha256": "0" * 64, "version": "1"}


def imported(
    folder: Path,
    segments: Sequence[Sent],
    *,
    ports: Sequence[int] = (),
    link: int = ETHERNET,
    vlans: Sequence[int] = (),
    dialect: Dialect = Dialect.KAFKA,
    **selected: Any,
) -> Import:
    """Imports segments into a capture, and compacts it in this process."""
    record = RecordSettings(cluster=MAIN, when_full=WhenFull.WAIT, **selected)
    session = Session(lambda clock: open_tap(folder, record, clock=clock), SOURCE, dialect)
    made = Import(session, ports)
    for at_ns, data, _ in as_packets(segments, link, vlans):
        made.take(at_ns, link, data)
    made.close()
    session.close()
    done = compact(folder)
    assert not done.failed
    assert not done.damaged
    return made


def a_talk(rng: random.Random, calls: int = 30, largest: int = 4000, apis: Sequence[int] = KINDS) -> Talk:
    return cut(rng, talk(rng, 0, calls, apis), largest)


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of each direction without what depends on when their segments came."""
    timed = ("mono_ns", "first_mono_ns", "sequence")
    by_direction = sorted(rows, key=lambda row: (row["kind"], row["exchange"]))
    return [{name: value for name, value in row.items() if name not in timed} for row in by_direction]


def lockstep(rng: random.Random, calls: int = 20) -> Talk:
    """A talk of a client that waits for each response."""
    one = talk(rng, 0, calls, (METADATA, HEARTBEAT))
    at_ns = SECOND
    for each in one.calls:
        for direction, data in zip(Direction, (each.request, each.answer), strict=True):
            at_ns += 1000
            one.chunks.append(Chunk(direction, data or b"", at_ns))
    return one
