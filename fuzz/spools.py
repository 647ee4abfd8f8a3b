"""Whole spools with arbitrary entries and right checksums: their readers must withstand them.

An input is a session: options, then records, each with its length before it. A record is an entry as the log has it
(kind, direction, number, connection, spans, offset, time, the spans, the bytes), the beginning of a segment, or the
compactor's state. What must hold: the session is compacted to its end and nothing but rows comes of it, all of which
can be read; nothing else of the capture is touched.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from fuzz import scripts
from fuzz.conversations import unpacked
from fuzz.corpus import Input
from fuzz.findings import must
from fuzz.plays import Chunk, Options, Pages
from proxy.conversation import Cause, Conversation
from proxy.files import Folder
from proxy.net.cluster import routes
from proxy.observer import OpenedConnection
from proxy.rewrite import api_versions
from proxy.wire.dialects import Dialect
from recorder.capture import frames as c
from recorder.capture import reader, spool
from recorder.capture.assembly import Assembly
from recorder.capture.compactor import compact_session
from recorder.capture.inventory import Inventory
from recorder.capture.keep import RoomWatch
from recorder.capture.progress import STATE_MAGIC, state_name
from recorder.capture.ranges import RangeFiles
from recorder.capture.record_rules import RecordRule
from recorder.capture.segments import segment_name
from recorder.capture.selection import FULL, HEAD
from recorder.capture.session import RecordSettings
from recorder.capture.spool import EntryKind, Item, SegmentHead, Spans
from recorder.capture.tap import Tap

SESSION = "s"
# kind, direction, number, connection, spans, offset, time
_RECORD = struct.Struct(">BBHbBqq")
_SPAN = struct.Struct(">II")
# kinds of records that are no entries
SEGMENT, STATE = 0, 0xFE
# stands for the right number of an entry
COUNTED = 0xFFFF
# wall clock minus monotonic clock of the made-up segments: some hour of 2023
CLOCK_NS = 1_700_000_000 * 10**9
# the folder of each temporary session: in memory if possible
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# one script of so many, and none longer: an input takes some 20 ms
SPARSE, MAX_BYTES = 5, 1500


class Record(NamedTuple):
    """An entry of the log, or one of the two that are none."""

    kind: int
    direction: int = 0
    number: int = COUNTED
    connection: int = -1
    spans: Spans = ()
    offset: int = 0
    mono_ns: int = 0
    data: bytes = b""


def packed(records: Sequence[Record]) -> bytes:
    """Records as an input."""
    found = []
    for kind, direction, number, connection, spans, offset, mono_ns, data in records:
        body = _RECORD.pack(kind, direction, number, connection, len(spans), offset, mono_ns)
        body += b"".join(_SPAN.pack(*span) for span in spans) + data
        found.append(len(body).to_bytes(2, "big") + body)
    return b"".join(found)


def records_of(data: bytes) -> Iterator[Record]:
    """The records of an input, as far as they are whole."""
    at = 0
    while at + 2 + _RECORD.size <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        kind, direction, number, connection, count, offset, mono_ns = _RECORD.unpack_from(data, at + 2)
        at += 2 + _RECORD.size
        count = min(count, max(end - at, 0) // _SPAN.size, (len(data) - at) // _SPAN.size)
        spans = tuple(_SPAN.unpack_from(data, at + index * _SPAN.size) for index in range(count))
        rest = data[at + count * _SPAN.size : end]
        yield Record(kind, direction, number, connection, spans, offset, mono_ns, rest)
        at = max(end, at)


class Session:
    """A session's folder, as the records have it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "_spool" / SESSION
        self._folder.mkdir(parents=True)
        self._inventory = Inventory()
        self._log = bytearray()
        self._total = 0
        self._seed = 0
        self._number = 0

    def write(self, records: Iterator[Record]) -> None:
        """All of it."""
        self._begin()
        for kind, direction, number, connection, spans, offset, mono_ns, data in records:
            if kind == SEGMENT:
                self._end()
                self._begin()
            elif kind == STATE:
                self._say_state(data)
                self._begin()
            else:
                number = self._counted(kind, connection, data) if number == COUNTED else number
                item = kind, direction, connection, offset, mono_ns, data, spans
                self._log += spool.encoded_entry(item, number, self._seed)
        self._end()

    def _counted(self, kind: int, connection: int, data: bytes) -> int:
        """The number that the writer would have given this entry."""
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            (number,) = self._inventory.number_entries([(kind, 0, connection, 0, 0, data, ())])
            return number
        return 0

    def _begin(self) -> None:
        self._number += 1
        head = SegmentHead(SESSION, self._number, CLOCK_NS, 1, len(self._log), None, 60, self._total)
        self._log = bytearray()
        encoded, self._seed = spool.encode_head(head)
        inventory = EntryKind.INVENTORY, 0, -1, 0, 1, self._inventory.text(), ()
        self._log += encoded + spool.encoded_entry(inventory, 0, self._seed)

    def _end(self) -> None:
        (self._folder / segment_name(self._number)).write_bytes(self._log)
        self._total += len(self._log)

    def _say_state(self, data: bytes) -> None:
        """The length of the JSON, the JSON, and bytes of unfinished frames; its segment is gone."""
        length = int.from_bytes(data[:4], "big")
        text, blob = data[4 : 4 + length], data[4 + length :]
        content = STATE_MAGIC + spool.SPOOL_FORMAT.to_bytes(2, "big") + len(text).to_bytes(4, "big")
        content += text + blob
        path = self._folder / state_name(self._number)
        path.write_bytes(content + crc32c(content).to_bytes(4, "big"))
        self._total += len(self._log)


def session(data: bytes) -> None:
    """A session of records, as `packed` writes them."""
    with tempfile.TemporaryDirectory(dir=PLACE) as name, _no_syncs():
        folder = Path(name)
        Session(folder).write(records_of(data))
        done = compact_session(folder, SESSION)
        must(done.finished is True, "a session is finished, whatever it says")
        must({path.name for path in folder.iterdir()} <= {"_spool", "frames", "events"}, "nothing else is made")
        must(not any((folder / "_spool").iterdir()), "nothing is left of it in the spool")
        _rows_can_be_read(folder)


def _rows_can_be_read(folder: Path) -> None:
    for row in _rows(folder, c.FRAMES_FOLDER, reader.ALL):
        must(row[c.STORED] == len(row[c.FRAME]), "a row has the bytes that it says it has")
        left_out = sum(span["length"] for span in row[c.OMITTED] or ())
        must((row[c.RECORDS] is None) == (row[c.DROPPED] is None), "a rule says what it has dropped, and only that")
        must(row[c.SIZE] == row[c.STORED] + left_out, f"what a row lacks was left out: {row}")
    for event in _rows(folder, c.EVENTS_FOLDER, [name for name, _ in c.EVENT_COLUMNS]):
        must(isinstance(json.loads(event[c.DETAIL]), dict), "what an event tells is JSON")
        must((event[c.FRAMES] or 0) >= 0 and (event[c.BYTES] or 0) >= 0, f"no gap is below nothing: {event}")


def _rows(folder: Path, kind: str, columns: Sequence[str]) -> Iterator[reader.Row]:
    for file in reader.files(folder, kind):
        for table in reader.row_groups(file, columns):
            yield from table.to_pylist()


@contextmanager
def _no_syncs() -> Iterator[None]:
    """A crash of the machine would end the fuzzer too."""
    fsync = os.fsync
    os.fsync = lambda fd: None
    try:
        yield
    finally:
        os.fsync = fsync


CHECKS = {"session": session}


# to start from


def inputs() -> Iterator[Input]:
    """The entries that a tap writes for scripts: complete, with gaps, over several segments, with a state between."""
    found = [*scripts.inputs()]
    # most of their bytes are not recorded
    dropped = [one for one in found if one.name.startswith("pair-") and one.name.endswith(scripts.DROPPED)]
    others = [one for one in found if not one.name.endswith(scripts.DROPPED)][SPARSE - 1 :: SPARSE]
    for number, (one, most) in enumerate([*product(others, [MAX_BYTES]), *product(dropped, [3 * MAX_BYTES])]):
        options, chunks = unpacked(one.data)
        if sum(len(chunk) for _, chunk in chunks) < most:
            items = list(_recorded(options, chunks, gap=number % 3 == 1, bodies=number % 4 < 3))
            records = list(_in_segments(items, is_parted=number % 4 > 0))
            if number % 5 == 0:
                records = [_state_behind(items[: len(items) // 2]), *records[len(records) // 2 :]]
            yield Input("session", one.name, packed(records))


def _recorded(options: Options, chunks: Sequence[Chunk], *, gap: bool, bodies: bool) -> Iterator[Item]:
    """The log of a conversation; a new segment begins with each chunk, and the limit strikes for a while."""
    pages = Pages()
    rule = RecordRule.DROP if options.drops else RecordRule.KEEP
    settings = RecordSettings(queue=1 << 40, bodies=FULL if bodies else HEAD, records=rule)
    tap = Tap(Folder(Path(SESSION), -1), settings, pages, None, RoomWatch(Path()))  # type: ignore[arg-type]
    conversation = Conversation(routes(Dialect.KAFKA_07 if options.is_old else Dialect.KAFKA))
    tap.opened(OpenedConnection(1, 1, "here", "client", 2, "broker", False, "main", None), conversation)
    for number, (direction, chunk) in enumerate(chunks):
        step = (conversation.responses if direction else conversation.requests)(chunk, number + 2)
        tap._limit = -1 if gap and number % 3 == 1 else 1 << 40
        tap.arrived(1, direction, chunk, number + 2, step)
        for asked in step.to_answer:
            answer = api_versions.unsupported(asked.correlation_id or 0)
            conversation.answer(asked, answer)
            tap.answered(1, asked.correlation_id or 0, answer, number + 2)
        pages.segment += 1
        if step.cause is not None:
            break
    tap.closed(1, Cause.CLIENT_CLOSED, len(chunks) + 3)
    yield from pages.queue


def _in_segments(items: Sequence[Item], *, is_parted: bool) -> Iterator[Record]:
    for number, item in enumerate(items):
        yield _record(*item)
        if is_parted and number in (2, len(items) // 2):
            yield Record(SEGMENT)
    yield Record(EntryKind.END, mono_ns=99, data=Inventory().text())


def _record(kind: int, direction: int, connection: int, offset: int, mono_ns: int, data: bytes, spans: Spans) -> Record:
    return Record(kind, direction, COUNTED, connection, spans, offset, mono_ns, data)


def _state_behind(items: Sequence[Item]) -> Record:
    """The state that a compactor would have written there."""
    assembly = Assembly()
    with tempfile.TemporaryDirectory(dir=PLACE) as name:
        assembly.begin_range(RangeFiles(Path(name), SESSION, 1, None), CLOCK_NS)
        for kind, direction, connection, offset, mono_ns, data, spans in items:
            assembly.feed(spool.Entry(kind, direction, connection, offset, mono_ns, data, spans))
    blob = bytearray()
    progress = {"segment": 1, "finished": False, "cluster": None, "frames": 0, "bytes": 0, "log_bytes": None}
    text = json.dumps({"progress": progress, "assembly": assembly.state(blob)}).encode()
    return Record(STATE, data=len(text).to_bytes(4, "big") + text + blob)
