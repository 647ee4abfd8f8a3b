"""Fetch sessions (KIP-227): the replay has its own with each node, with the partitions of the recorded session.

A recorded request names only what changed in its session. This room remembers the session's partitions, and a
translated request names all of them. Once it is routed, `for_node` turns each part into a request of the replay's
session with that node for that recorded connection: all partitions at first, then only changes. `answered_by` updates
the session, and removes from the answer what the recorded client would not have been told.

    recorded                             sent
    before version 7; (0, -1)            the same: no session
    (0, 0) or (id, 0): a new session     (own id or 0, 0) with all partitions
    (id, n)                              (own id, m) with the changes; (0, 0) with all partitions if none is open
    (id, -1): the session ends           (own id, -1); withheld if none is open
    answered with id 0                   all partitions each time: the target keeps no session
    errors 70, 71, 106                   sent again, as the first request of a new session

If the capture lacks a session's beginning, the session has the partitions that its requests name or its answers have
data of. A client that connects anew goes on with its session: a session that is not of the same connection is looked up
by peer, node and id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.wire import WireError
from proxy.wire.keys import FETCH
from proxy.wire.primitives import Buffer
from recorder.capture.session_topics import SessionUse, session_use
from recorder.replay import partitions
from recorder.replay.messages import batches
from recorder.replay.partitions import Topic
from recorder.replay.plan import Exchange, NotSent, Origin, Reason, Resend, Values, Withheld
from recorder.replay.producers.producer_pairs import Chosen
from recorder.replay.translator import Translator

NEW_SESSION = frozenset({70, 71, 106})
SESSIONS_FROM = 7
LARGEST_EPOCH = 2**31 - 1
# Recorded sessions that are remembered, by last use; a broker keeps 1,000 by default.
_MOST_TABLES = 10_000
# the clients' default for a partition that no request names (max.partition.fetch.bytes)
_PARTITION_MAX_BYTES = 1 << 20

Key = tuple[Topic, int]
Table = dict[Key, Values]
Connection = tuple[str, int]


class _SentPart(NamedTuple):
    """A session's state once the target has taken a part: id, the part's epoch, partitions."""

    session: int
    epoch: int
    partitions: Table


@dataclass
class _OwnFetchSession:
    """The replay's session with a node: its id, the next epoch, and the partitions that the target knows in it."""

    session: int
    epoch: int
    partitions: Table = field(default_factory=dict)


@dataclass
class _FetchFlight:
    """One exchange. `table`: the recorded session's partitions.

    `parts`: the sessions' states after its parts, by node.
    """

    kind: SessionUse
    table: Table
    parts: dict[int, _SentPart] = field(default_factory=dict)
    has_left: bool = False
    begins_anew: bool = False


class FetchSessions(Translator):
    """The fetch sessions of one replay. A translator; it comes before that of offsets.

    Args:
        chosen: api key, recorded version -> the version for the target, None if it has none.
    """

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()
        self._flights: dict[Origin, _FetchFlight] = {}
        self._own: dict[tuple[Connection, int], _OwnFetchSession] = {}

    # translator

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates."""
        return api_key == FETCH

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Names all partitions of the recorded session."""
        if exchange.api_key != FETCH or exchange.version < SESSIONS_FROM:
            return None
        flight = self._flights.get(exchange.origin)
        if flight is None:
            kind = session_use(values)
            flight = self._flights[exchange.origin] = _FetchFlight(kind, self._apply(exchange, values, kind))
        flight.parts, flight.has_left = {}, False
        if flight.kind is SessionUse.CLOSES and not self.nodes(exchange.connection):
            return Withheld(Reason.NO_SESSION)
        if flight.kind in (SessionUse.BEGINS, SessionUse.GOES_ON):
            values["topics"] = _topics(flight.table)
            values["forgotten_topics_data"] = []
        return None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The parts leave: their sessions move on."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return
        flight.has_left = True
        for node, part in flight.parts.items():
            if part.epoch < 0:
                self._own.pop((exchange.connection, node), None)
            else:
                self._own[exchange.connection, node] = _OwnFetchSession(
                    part.session, epoch_after(part.epoch), part.partitions
                )

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Sends the request again if a session has to begin anew, unless the recorded one had to as well."""
        flight = self._flights.get(exchange.origin)
        if flight is not None and flight.begins_anew:
            flight.begins_anew = False
            if (exchange.answer or {}).get("error_code", 0) not in NEW_SESSION:
                return Resend()
        self._flights.pop(exchange.origin, None)
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The target may or may not have moved the sessions on, so they begin anew."""
        flight = self._flights.pop(exchange.origin, None)
        for node in flight.parts if flight and flight.has_left else ():
            self._own.pop((exchange.connection, node), None)

    # for the engine

    def nodes(self, connection: Connection) -> list[int]:
        """The nodes with which a recorded connection has sessions."""
        return [node for known, node in self._own if known == connection]

    def homes(self, exchange: Exchange) -> list[int]:
        """The nodes that a request must go to, whatever it names: those with which it ends a session."""
        flight = self._flights.get(exchange.origin)
        return self.nodes(exchange.connection) if flight is not None and flight.kind is SessionUse.CLOSES else []

    def closed(self, connection: Connection, node: int | None = None) -> None:
        """The channel to a node was closed, or all channels of a recorded connection: its sessions begin anew."""
        for key in [key for key in self._own if key[0] == connection and node in (None, key[1])]:
            del self._own[key]

    def for_node(self, exchange: Exchange, node: int, values: Values) -> Values:
        """A node's part of a translated request, as a request of the session with that node."""
        flight, own = self._flights.get(exchange.origin), self._own.get((exchange.connection, node))
        if flight is None:
            return values
        if flight.kind is SessionUse.NONE or (self._chosen(FETCH, exchange.version) or 0) < SESSIONS_FROM:
            return _with_session(values, 0, -1)
        if flight.kind is SessionUse.CLOSES:
            flight.parts[node] = _SentPart(own.session if own else 0, -1, {})
            return _with_session(values, *flight.parts[node][:2])
        wanted = {(each.topic, each.partition): each.values for each in partitions.in_request(FETCH, values)}
        if own is None or not own.session or flight.kind is SessionUse.BEGINS:
            flight.parts[node] = _SentPart(own.session if own else 0, 0, wanted)
            return _with_session(values, *flight.parts[node][:2])
        flight.parts[node] = _SentPart(own.session, own.epoch, wanted)
        changed = {key: each for key, each in wanted.items() if own.partitions.get(key) != each}
        gone = [key for key in own.partitions if key not in wanted]
        return _with_session(values, own.session, own.epoch) | {
            "topics": _topics(changed),
            "forgotten_topics_data": _forgotten(gone),
        }

    def answered_by(self, exchange: Exchange, node: int, values: Values, answer: Values) -> Values:
        """A node's answer, reduced to what the recorded client would have been told."""
        flight = self._flights.get(exchange.origin)
        part = flight.parts.get(node) if flight else None
        if flight is None or part is None:
            return answer
        own, code = self._own.get((exchange.connection, node)), answer.get("error_code", 0)
        if code:
            self._own.pop((exchange.connection, node), None)
            flight.begins_anew |= code in NEW_SESSION and part.epoch > 0
        elif own is not None and not part.epoch:
            own.session = answer.get("session_id", 0)
        is_whole = flight.kind is SessionUse.GOES_ON and not part.epoch
        return answer | {"responses": _with_news(answer["responses"])} if is_whole else answer

    # recorded sessions

    def _apply(self, exchange: Exchange, values: Values, kind: SessionUse) -> Table:
        """The partitions of the recorded session as of this request."""
        if kind in (SessionUse.NONE, SessionUse.CLOSES):
            return {}
        named = {(each.topic, each.partition): each.values for each in partitions.in_request(FETCH, values)}
        if kind is SessionUse.BEGINS:
            # the answer has its id, but may not be read yet: the connection's next request tells the id
            self._keep(("begun", exchange.connection), named)
            return dict(named)
        table = self._table(exchange, values["session_id"])
        table.update(named)
        # as brokers do: a partition that is both named and forgotten is forgotten
        for each in partitions.forgotten(FETCH, values):
            table.pop((each.topic, each.partition), None)
        for key, partition in _with_data(exchange, named).items():
            table.setdefault(key, partition)
        return dict(table)

    def _table(self, exchange: Exchange, session: int) -> Table:
        own = exchange.connection, session
        node: Hashable = exchange.connection if exchange.node is None else exchange.node
        shared = exchange.peer, node, session
        begun = self._tables.pop(("begun", exchange.connection), None)
        table = begun if begun is not None else self._tables.get(own, self._tables.get(shared))
        table = {} if table is None else table
        self._keep(own, table)
        self._keep(shared, table)
        return table

    def _keep(self, key: Hashable, table: Table) -> None:
        self._tables[key] = table
        self._tables.move_to_end(key)
        while len(self._tables) > _MOST_TABLES:
            self._tables.popitem(last=False)


def epoch_after(epoch: int) -> int:
    """The next epoch: 1 comes after the largest."""
    return 1 if epoch >= LARGEST_EPOCH else epoch + 1


def _with_data(exchange: Exchange, named: Table) -> Table:
    """Partitions with data in the recorded answer, if that is read already.

    Their fetch offset is where the data begins.
    """
    answer = exchange.answer if exchange.answer_frame is not None else None
    like = next(iter(named.values()), {"partition_max_bytes": _PARTITION_MAX_BYTES})
    found: Table = {}
    for each in partitions.in_answer(FETCH, answer or {}):
        offset = _first_offset(each.values["records"])
        if offset is not None:
            found[each.topic, each.partition] = like | {"partition": each.partition, "fetch_offset": offset}
    return found


def _first_offset(data: Buffer | None) -> int | None:
    try:
        return next((batch.base_offset for batch in batches(data)), None)
    except WireError:
        return None


def _with_session(values: Values, session: int, epoch: int) -> Values:
    return values | {"session_id": session, "session_epoch": epoch}


def _topics(table: Table) -> list[Values]:
    """Partitions grouped by topic, in order."""
    found: dict[Topic, Values] = {}
    for (topic, _), partition in table.items():
        found.setdefault(topic, {**_named(topic), "partitions": []})["partitions"].append(dict(partition))
    return [*found.values()]


def _forgotten(keys: Iterable[Key]) -> list[Values]:
    found: dict[Topic, Values] = {}
    for topic, index in keys:
        found.setdefault(topic, {**_named(topic), "partitions": []})["partitions"].append(index)
    return [*found.values()]


def _named(topic: Topic) -> Values:
    return {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}


def _with_news(responses: list[Values]) -> list[Values]:
    """The partitions that an incremental answer would name: those with records or an error."""
    kept = []
    for topic in responses:
        news = [each for each in topic["partitions"] if each["error_code"] or each["records"]]
        if news:
            kept.append(topic | {"partitions": news})
    return kept
