"""A capture -> a packet dump, for Wireshark: `kafka-wiretap export --pcapng FOLDER FILE`.

Each frame becomes segments at the times of its first and its last byte, with what the capture knows as a comment on the
last one. Bytes that are masked or left out are zeros, and the comment says so. Gaps are missing sequence numbers.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

from proxy.conversation.exchange import Direction
from proxy.terminal import printable
from proxy.wire.framing import LENGTH
from recorder.capture import frames as c
from recorder.capture.assembly import NOTES
from recorder.capture.reader import Row, files, row_groups
from recorder.capture.streams import CUT_IN_HEAD
from recorder.export.packets import SEGMENT, Connection, PacketWriter, address_of
from recorder.facts.response_errors import row_errors
from recorder.inspect.lines import errors_text
from recorder.query.shorthand import Filter
from recorder.reading.capture import Capture
from recorder.terminal import duration

_EVENTS = (c.SESSION, c.CONNECTION, c.AT_NS, c.KIND, c.CAUSE, c.BYTES, c.DETAIL)
_OF_CONNECTIONS = frozenset({c.EVENT_OPENED, c.EVENT_CLOSED, c.EVENT_GAP})
_ZEROS = bytes(SEGMENT)
# rows whose bytes are no frame, and have no length
_NO_FRAMES = frozenset({*NOTES.values(), CUT_IN_HEAD})

Key = tuple[str, int]


class Exported(NamedTuple):
    """What was written."""

    connections: int
    frames: int
    packets: int


def export(capture: Capture, wanted: Filter | None, file: IO[bytes], program: str) -> Exported:
    """Writes a capture's frames; `wanted`: those of exchanges that pass, and no gaps; None: everything.

    Errors: FilterError, OverBudget, DamagedFileError, UnknownFormatError, OSError.
    """
    chosen = None if wanted is None else _chosen(capture, wanted)
    writer = _Writer(PacketWriter(file, program), chosen)
    rows = capture.rows(bodies=lambda row: chosen is None or _exchange(row) in chosen)
    # an opening comes before its connection's frames, and a closing behind them
    happenings = ((event[c.AT_NS], event[c.KIND] == c.EVENT_CLOSED, event) for event in _events(capture))
    frames = ((row[c.AT_NS], False, row) for row in rows)
    for _, _, one in heapq.merge(happenings, frames, key=lambda item: item[:2]):
        if c.FRAME in one:
            writer.frame(one)
        else:
            writer.event(one)
    return writer.finish()


def _chosen(capture: Capture, wanted: Filter) -> set[tuple[str, int, int | None]]:
    return {_exchange(pair.head) for pair in capture.exchanges(wanted, brief=True)}


def _exchange(row: Row) -> tuple[str, int, int | None]:
    return row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]


def _events(capture: Capture) -> Iterator[Row]:
    """The events of connections, in order. They stand in memory: three of a connection."""
    found = [
        event
        for file in files(capture.folder, c.EVENTS_FOLDER)
        for table in row_groups(file, _EVENTS)
        for event in table.to_pylist()
        if event[c.KIND] in _OF_CONNECTIONS and event[c.CONNECTION] is not None
    ]
    return iter(sorted(found, key=lambda event: (event[c.AT_NS], event[c.KIND] == c.EVENT_CLOSED)))


class _Writer:
    """Frames and events -> packets."""

    def __init__(self, packets: PacketWriter, chosen: set[tuple[str, int, int | None]] | None) -> None:
        self._packets, self._chosen = packets, chosen
        self._keys = None if chosen is None else {key[:2] for key in chosen}
        self._connections: dict[Key, Connection] = {}
        self._ends: dict[str, int] = {}
        self._begun = self._frames = 0

    def event(self, event: Row) -> None:
        key, at_ns = (event[c.SESSION], event[c.CONNECTION]), event[c.AT_NS]
        if self._keys is not None and key not in self._keys:
            return
        detail = json.loads(event[c.DETAIL])
        if event[c.KIND] == c.EVENT_OPENED:
            named = [f"{name} {printable(detail[name])}" for name in ("listener", "client", "upstream") if detail[name]]
            connection = self._connection(key, detail["client"], detail["listener"])
            self._packets.open(connection, at_ns, [f"connection {_id(key)}: {', '.join(named)}"])
        elif (found := self._connections.get(key)) is not None:
            if event[c.KIND] == c.EVENT_CLOSED:
                self._packets.close(found, at_ns, [f"closed: {printable(event[c.CAUSE])}"])
                del self._connections[key]
            elif self._chosen is None:
                self._packets.skip(found, at_ns, _missing(event, detail), [_gap(event, detail)])

    def frame(self, row: Row) -> None:
        if self._chosen is not None and _exchange(row) not in self._chosen:
            return
        self._frames += 1
        connection = self._connection((row[c.SESSION], row[c.CONNECTION]), row[c.CLIENT], row[c.LISTENER])
        direction = Direction.REQUEST if row[c.MADE_BY] == c.BY_CLIENT else Direction.RESPONSE
        segments = _segments(_bytes(row))
        first = next(segments, b"")
        following = next(segments, None)
        first_ns = row[c.AT_NS] - ((row[c.MONO_NS] or 0) - (row[c.FIRST_MONO_NS] or 0))
        if following is None and first_ns != row[c.AT_NS] and len(first) > 1:
            # its first byte and its last one came at different times
            first, following = first[:-1], first[-1:]
        if following is None:
            self._packets.send(connection, direction, row[c.AT_NS], first, [_comment(row)])
            return
        self._packets.send(connection, direction, first_ns, first)
        for coming in segments:
            self._packets.send(connection, direction, row[c.AT_NS], following)
            following = coming
        self._packets.send(connection, direction, row[c.AT_NS], following, [_comment(row)])

    def finish(self) -> Exported:
        self._packets.finish()
        return Exported(self._begun, self._frames, self._packets.packets)

    def _connection(self, key: Key, client: str | None, listener: str | None) -> Connection:
        found = self._connections.get(key)
        if found is None:
            self._begun += 1
            ends = [
                address_of(name, self._ends.setdefault(name or f"? {_id(key)}", len(self._ends)))
                for name in (client, listener)
            ]
            found = self._connections[key] = Connection(ends[0], ends[1])
        return found


def _bytes(row: Row) -> Iterator[bytes]:
    """All bytes of a frame as it arrived, its length included; zeros where it has none."""
    if row[c.NOTE] not in _NO_FRAMES:
        yield LENGTH.pack(row[c.SIZE])
    kept, at, taken = row[c.FRAME] or b"", 0, 0
    for span in row[c.OMITTED] or ():
        size = span["start"] - at
        yield kept[taken : taken + size]
        taken, at = taken + size, span["start"] + span["length"]
        whole, rest = divmod(span["length"], SEGMENT)
        yield from [_ZEROS] * whole
        yield _ZEROS[:rest]
    yield kept[taken:]


def _segments(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of SEGMENT, and a last one."""
    waiting = b""
    for piece in pieces:
        whole = waiting + piece
        full = len(whole) - len(whole) % SEGMENT
        for at in range(0, full, SEGMENT):
            yield whole[at : at + SEGMENT]
        waiting = whole[full:]
    if waiting:
        yield waiting


def _comment(row: Row) -> str:
    """What the capture knows of a frame."""
    told = (
        [f"exchange {_id((row[c.SESSION], row[c.CONNECTION]))}/e{row[c.EXCHANGE]}"]
        if row[c.EXCHANGE] is not None
        else []
    )
    version = "" if row[c.API_VERSION] is None else f" v{row[c.API_VERSION]}"
    told.append(
        f"{row[c.API]}{version}" if row[c.API] else "unknown API" if row[c.API_KEY] is not None else row[c.KIND]
    )
    for name, value in (("client id", row[c.CLIENT_ID]), ("node", row[c.NODE]), ("principal", row[c.PRINCIPAL])):
        told += [] if value is None else [f"{name} {printable(value)}"]
    if row[c.KIND] == c.RESPONSE and row[c.LATENCY_NS] is not None:
        told.append(f"latency {duration(row[c.LATENCY_NS])}")
    if row[c.KIND] == c.RESPONSE:
        told += filter(None, [errors_text(row_errors(row), row[c.API_KEY])])
    if row[c.MADE_BY] == c.BY_PROXY:
        told.append("answered by the proxy")
    for name, column in (("masked", c.MASKED), ("left out", c.OMITTED), ("records not kept", c.DROPPED)):
        spans = row[column] or ()
        told += [f"{name}, here zeros: {sum(span['length'] for span in spans)} bytes"] if spans else []
    return "; ".join([*told, *filter(None, [printable(row[c.NOTE] or "")])])


def _missing(event: Row, detail: Mapping[str, Any]) -> tuple[int, int]:
    """The bytes of each direction in a gap; one of each where nobody knows how many."""
    total = event[c.BYTES]
    if total is None:
        return 1, 1
    lost = detail.get("lost", {}).values()
    of_requests = sum(one.get("request_bytes", 0) + LENGTH.size * one.get("requests", 0) for one in lost)
    return min(of_requests, total), total - min(of_requests, total)


def _gap(event: Row, detail: Mapping[str, Any]) -> str:
    size = "an unknown number of bytes" if event[c.BYTES] is None else f"{event[c.BYTES]} bytes of both directions"
    lost = ", ".join(map(printable, detail.get("lost", {})))
    return f"gap ({printable(event[c.CAUSE])}): {size} are missing" + (f", of {lost}" if lost else "")


def _id(key: Key) -> str:
    return f"{key[0]}/{key[1]}"
