"""Decides which exchanges of a finished capture `only.topics` leaves out. Used by `redacting`.

The decisions are those of a recording (`topic_choice`), made in the order of arrival over all connections of a session,
because clients go on with fetch and share sessions on other connections. What the capture lacks may have changed any
session: where frames of a connection are missing, the sessions with its broker are unknown from there on.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby
from typing import Any, NamedTuple

import pyarrow.compute as pc

from proxy.conversation.exchange import Direction, Exchange, OpaqueReason
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Routes
from proxy.wire import apis
from proxy.wire.dialects import Dialect
from proxy.wire.errors import OverBudget
from proxy.wire.framing import LENGTH, pack_api_and_version
from proxy.wire.keys import FETCH
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.reader import CaptureFile, Row, row_groups, tables_of
from recorder.capture.record_filter import RecordFilter
from recorder.capture.record_rules import RecordRules
from recorder.capture.session_topics import SessionTopics
from recorder.capture.topic_choice import OF_SESSIONS, SESSION_WITHIN, TopicChoice
from recorder.capture.topic_ids import TopicIds

# the errors of a file that can't be read
UNREADABLE = (DamagedFileError, UnknownFormatError, OverBudget)
# connections of which something is remembered; a proxy has no more at a time
_MOST_CONNECTIONS = 65_536
_PLACES = (c.CONNECTION, c.SEQUENCE, c.MONO_NS, c.KIND, c.EXCHANGE)
_COLUMNS = (
    *_PLACES,
    *(c.CLUSTER, c.CLIENT, c.CLIENT_ID, c.DIALECT, c.API, c.API_KEY, c.API_VERSION, c.AWAITS, c.NOTE, c.OMITTED),
    *(c.SIZE, c.FRAME),
)

# an exchange of a session: its connection, its number
Place = tuple[int, int]


class Missing(NamedTuple):
    """Frames of a connection are missing before this moment, in monotonic nanoseconds."""

    mono_ns: int
    connection: int


def packed(places: Iterable[Place]) -> bytes:
    """Exchanges in a few bytes each."""
    return zlib.compress(array("q", chain.from_iterable(sorted(places))).tobytes())


def unpacked(content: bytes) -> frozenset[Place]:
    """The exchanges that were packed."""
    numbers = array("q")
    numbers.frombytes(zlib.decompress(content))
    return frozenset(zip(numbers[::2], numbers[1::2], strict=True))


def version_of(row: Mapping[str, Any]) -> int | None:
    """The version of a frame; None if nobody could read it."""
    note, key, version = row[c.NOTE], row[c.API_KEY], row[c.API_VERSION]
    is_opaque = note is not None and not note.startswith((c.CUT, c.COUNTED))
    if version is None or is_opaque or not apis.known(key, version):
        return None
    return int(version)


def is_cut(row: Mapping[str, Any]) -> bool:
    """True for a frame that is kept in part: nobody can tell where its message would end."""
    return bool(row[c.OMITTED]) or (row[c.NOTE] or "").startswith(c.CUT)


def upstreams(files: Iterable[CaptureFile]) -> dict[int, str]:
    """The broker of each connection, by the files of a session's events, as far as they can be read."""
    found = {}
    for file in files:
        with suppress(*UNREADABLE):
            for table in row_groups(file, [c.CONNECTION, c.DETAIL], where=pc.field(c.KIND) == c.EVENT_OPENED):
                for row in table.to_pylist():
                    found[row[c.CONNECTION]] = str(json.loads(row[c.DETAIL]).get("upstream"))
    return found


class SessionChoices:
    """The decisions in one session of a capture.

    Args:
        rules: which topics are chosen.
        topic_ids: cluster -> the names of its topics.
        brokers: connection -> its broker.
        takes: False for a request that other choices leave out: nothing is learnt from it.
    """

    def __init__(
        self, rules: RecordRules, topic_ids: Mapping[str | None, TopicIds], brokers: Mapping[int, str], takes: Any
    ) -> None:
        self._rules, self._topic_ids, self._brokers, self._takes = rules, topic_ids, brokers, takes
        self._routes = {routes.dialect: routes for routes in (Routes(), Routes07())}
        self._sessions = defaultdict[object, SessionTopics](SessionTopics)
        self._choices: dict[int, tuple[RecordFilter, TopicChoice]] = {}
        # connection -> the number of its next frame
        self._next: dict[int, int] = {}
        # those that were left out, and whose responses are still to come
        self._awaited = set[Place]()

    def left_out(self, files: Sequence[CaptureFile]) -> set[Place]:
        """The exchanges with rows in these files that are left out. `files`: those of the next segments, in order.

        Errors: as of `row_groups`.
        """
        asked = set[Place]()
        of_sessions = list[Row]()
        frames = list[tuple[int, int, int]]()
        # exchanges that have no more rows: they were answered, or are without a response
        over = set[Place]()
        for file in files:
            for table in tables_of(file, _PLACES):
                kinds, exchanges = table[c.KIND].to_pylist(), table[c.EXCHANGE].to_pylist()
                of_table = [*zip(*(table[name].to_pylist() for name in _PLACES[:3]), strict=True)]
                frames += of_table
                over |= {
                    (frame[0], number)
                    for frame, kind, number in zip(of_table, kinds, exchanges, strict=True)
                    if kind == c.RESPONSE and number is not None
                }
            is_asked = pc.field(c.KIND) == c.REQUEST
            is_told = (pc.field(c.KIND) == c.RESPONSE) & (pc.field(c.API_KEY) == FETCH)
            for table in tables_of(file, _COLUMNS, where=(is_asked | is_told) & pc.field(c.EXCHANGE).is_valid()):
                for row in table.to_pylist():
                    if row[c.API_KEY] in OF_SESSIONS:
                        of_sessions.append(row)
                    elif not self._chooses(row):
                        place = row[c.CONNECTION], row[c.EXCHANGE]
                        asked.add(place)
                        if row[c.AWAITS] is False:
                            over.add(place)
        asked.update(self._left_out_of_sessions(self._missing(frames), of_sessions))
        self._awaited |= asked
        found = asked | (self._awaited & over)
        self._awaited -= over
        return found

    def forget(self) -> None:
        """Forgets all sessions: what could not be read may have changed them."""
        for sessions in self._sessions.values():
            sessions.clear()

    def _left_out_of_sessions(self, missing: Iterable[Missing], rows: Iterable[Row]) -> Iterator[Place]:
        """Takes rows that may be of sessions, and losses between them, in the order of arrival."""
        steps: list[tuple[int, bool, Missing | Row]] = [(one.mono_ns, False, one) for one in missing]
        steps += [(row[c.MONO_NS], True, row) for row in rows]
        # rows of one moment stay in their order
        for _, _, step in sorted(steps, key=lambda step: step[:2]):
            if isinstance(step, Missing):
                self._sessions[self._broker(step.connection)].clear()
            elif step[c.KIND] == c.RESPONSE:
                beginning = bytes(LENGTH.size) + step[c.FRAME][:SESSION_WITHIN]
                self._choice(step)[1].answered(self._exchange(step), beginning, is_first=True)
            elif not self._chooses(step):
                yield step[c.CONNECTION], step[c.EXCHANGE]

    def _chooses(self, row: Row) -> bool:
        """True if the exchange of a request is kept, or nobody can tell."""
        if not self._takes(row):
            return True
        records, choice = self._choice(row)
        exchange, frame = self._exchange(row), bytes(LENGTH.size) + row[c.FRAME]
        if records.walks_request(exchange):
            at = Direction.REQUEST, exchange.api_key, version_of(row), exchange.number
            records.of_whole(*at, frame, awaits=exchange.awaits, is_cut=is_cut(row))
        return choice.takes(exchange, frame, len(frame)) is not False

    def _exchange(self, row: Row) -> Exchange:
        is_kafka07 = row[c.DIALECT] == c.KAFKA_07
        # the number of a route of 0.7 ends in the type of the request
        number = (0, row[c.API_KEY]) if is_kafka07 else (row[c.API_KEY], row[c.API_VERSION] or 0)
        route = self._routes[Dialect(row[c.DIALECT])].of(pack_api_and_version(*number))
        exchange = Exchange(row[c.EXCHANGE], route, None, row[c.SIZE], 0, 0)
        exchange.awaits = row[c.AWAITS] is not False
        if not is_kafka07 and version_of(row) is None:
            exchange.opaque = OpaqueReason.UNREADABLE
        return exchange

    def _choice(self, row: Row) -> tuple[RecordFilter, TopicChoice]:
        connection = row[c.CONNECTION]
        found = self._choices.get(connection)
        if found is None:
            if len(self._choices) >= _MOST_CONNECTIONS:
                # no session is known by its connection any more
                self._choices.clear()
            ids = self._topic_ids[row[c.CLUSTER]]
            records = RecordFilter(self._rules, ids, is_kafka07=row[c.DIALECT] == c.KAFKA_07)
            sessions = self._sessions[self._broker(connection)]
            found = self._choices[connection] = records, TopicChoice(records, ids, sessions)
        return found

    def _broker(self, connection: int) -> object:
        """What stands for a connection's broker; the connection itself if its opening is lost."""
        return self._brokers.get(connection, connection)

    def _missing(self, frames: Collection[tuple[int, int, int]]) -> Iterator[Missing]:
        """Where frames are missing. `frames`: connection, number and time of each."""
        if len(self._next) >= _MOST_CONNECTIONS:
            self._next.clear()
        for connection, of_connection in groupby(sorted(frames), key=lambda frame: frame[0]):
            following = self._next.get(connection, 0)
            for _, sequence, mono_ns in of_connection:
                if sequence != following:
                    yield Missing(mono_ns, connection)
                following = sequence + 1
            self._next[connection] = following
