"""Share sessions (KIP-932): the replay's own with each node, and acknowledgements of what the target has given.

A node keeps one session of a member, whichever connection it came by, and a second one removes the first. Where
several recorded nodes stand for one of the target, their sessions share one there: it has the partitions of all of
them, and all their requests go by the connection that opened it (`carrier`).

    recorded                                   sent
    ShareFetch                                 own epoch, with what is not yet in the session; 0 where none is open
    ... with acknowledgements                  of the records that the member has on the target (`decisions`); none at
                                               epoch 0
    ShareAcknowledge                           own epoch, the same, if only of no records; withheld if none is open
    epoch -1: the member leaves                -1 with the last of the recorded sessions, else their partitions go
    errors 122, 123                            a new session; a ShareFetch is sent again
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay import partitions
from recorder.replay.names import Names
from recorder.replay.partitions import Asked, Place, Topic
from recorder.replay.plan import Again, Exchange, Origin, Reason, Refusal, Values, Withheld
from recorder.replay.sessions.decisions import Counterpart, Decision, Decisions, batches
from recorder.replay.sessions.fetch_sessions import epoch_after

NEW_SESSION = frozenset({122, 123})
_APIS = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
# Recorded sessions that were used last are known.
_MOST = 10_000

_K = TypeVar("_K")
_V = TypeVar("_V")
Key = tuple[Topic, int]
Table = dict[Key, Values]
Member = tuple[str, str]
Connection = tuple[str, int]


@dataclass
class _Own:
    """The replay's session of a member with a node.

    Attributes:
        carrier: the recorded connection whose connection to the node has opened it.
        epoch: the next one.
        partitions: what the target knows to be in it.
        by: recorded connection -> the partitions that its session should have here.
    """

    carrier: Connection
    epoch: int = 0
    partitions: set[Key] = field(default_factory=set)
    by: dict[Connection, set[Key]] = field(default_factory=dict)


@dataclass
class _Flight:
    """One exchange.

    Attributes:
        table: its recorded session's partitions; `places`: these, and what it acknowledges, by recorded name.
        topics: recorded name -> recorded id, of these.
        leaving: places that are named for their acknowledgements alone.
        decided: what it acknowledges; `written`: the partitions of parts that may acknowledge.
        parts: the next state of the sessions, by node; None: closed. `epochs`: that were written.
    """

    member: Member
    is_fetch: bool
    closes: bool
    table: Table
    topics: dict[str, Topic]
    places: list[Place]
    leaving: set[Place] = field(default_factory=set)
    decided: dict[Place, list[Decision]] = field(default_factory=dict)
    written: set[Place] = field(default_factory=set)
    parts: dict[int, _Own | None] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    has_left: bool = False
    begins_anew: bool = False


class ShareSessions:
    """The share sessions of one replay, and what its members have acquired. A translator.

    Args:
        counterpart: the target's offset for a recorded one.
    """

    def __init__(self, names: Names, counterpart: Counterpart) -> None:
        self._names = names
        self._decisions = Decisions(counterpart)
        self._tables: OrderedDict[tuple[Member, Connection], Table] = OrderedDict()
        self._own: dict[Member, dict[int, _Own]] = {}
        self._flights: dict[Origin, _Flight] = {}

    # the translator

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that these rules are about: nothing else is asked here."""
        return api_key in _APIS

    def request(self, exchange: Exchange, values: Values, now: int) -> Refusal | None:
        """Names the partitions of the recorded session, with acknowledgements in the target's offsets."""
        if exchange.api_key not in _APIS:
            return None
        flight = self._flights.get(exchange.origin)
        if flight is None:
            flight = self._flights[exchange.origin] = self._begin(exchange, values)
        flight.parts, flight.epochs, flight.leaving, flight.written, flight.has_left = {}, {}, set(), set(), False
        flight.decided = self._decided(exchange, flight, values)
        is_open = bool(self.nodes(flight.member))
        if not is_open and (exchange.api_key == SHARE_ACKNOWLEDGE or flight.closes):
            return Withheld(Reason.NO_SESSION)
        if exchange.api_key == SHARE_FETCH:
            values["forgotten_topics_data"] = []
        values["topics"] = self._named(flight)
        return None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The parts leave: their sessions are as far as they say."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return
        flight.has_left = True
        flight.decided = {place: flight.decided[place] for place in flight.decided.keys() & flight.written}
        for place, decided in flight.decided.items():
            self._decisions.take(flight.member, place, decided)
        for node, own in flight.parts.items():
            self._put(flight.member, node, own)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Again | None:
        """What both sides have acquired; once more, where a session has to begin anew."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return None
        if flight.begins_anew:
            flight.begins_anew = False
            if (exchange.answer or {}).get("error_code", 0) not in NEW_SESSION:
                return Again()
        del self._flights[exchange.origin]
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come: the target may or may not have moved the sessions on."""
        flight = self._flights.pop(exchange.origin, None)
        if flight is not None:
            for node in flight.parts if flight.has_left else ():
                self._put(flight.member, node, None)
            self._give_back(flight, [*flight.decided] if flight.has_left else ())

    # the engine's hooks

    def nodes(self, member: Member) -> list[int]:
        """The nodes with which a recorded member (group, member id) has sessions."""
        return [*self._own.get(member, ())]

    def homes(self, exchange: Exchange, values: Values) -> list[int]:
        """The nodes that a request has to go to, whatever it names: those that it ends a session with.

        One that acknowledges nothing goes to one that knows the session.
        """
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return []
        if flight.closes:
            return [node for node, own in self._own.get(flight.member, {}).items() if exchange.connection in own.by]
        is_empty = exchange.api_key == SHARE_ACKNOWLEDGE and not values["topics"]
        return self.nodes(flight.member)[:1] if is_empty else []

    def carrier(self, exchange: Exchange, node: int) -> Connection:
        """The recorded connection by whose connection to a node a request goes there."""
        flight = self._flights.get(exchange.origin)
        own = self._own.get(flight.member, {}).get(node) if flight else None
        return own.carrier if own else exchange.connection

    def ends(self, connection: Connection) -> bool:
        """A recorded connection has ended: its partitions leave. True if it carries sessions that others still use."""
        owns = [own for each in self._own.values() for own in each.values()]
        for own in owns:
            own.by.pop(connection, None)
        return any(own.carrier == connection and own.by for own in owns)

    def closed(self, connection: Connection, node: int | None = None) -> None:
        """The connection to a node, or all of a recorded connection's, are gone, and the sessions that they carried."""
        for member, owns in [*self._own.items()]:
            for at, own in [*owns.items()]:
                if own.carrier == connection and node in (None, at):
                    self._put(member, at, None)

    def for_node(self, exchange: Exchange, node: int, values: Values) -> Values:
        """The part of a translated request that goes to a node, as a request of the session with it."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return values
        own = self._own.get(flight.member, {}).get(node) or _Own(exchange.connection)
        by = {connection: set(found) for connection, found in own.by.items()}
        if flight.closes:
            by.pop(exchange.connection, None)
        elif exchange.api_key == SHARE_FETCH:
            by[exchange.connection] = {
                (each.topic, each.partition)
                for each in partitions.asked(SHARE_FETCH, values)
                if (self._names.recorded_topic(each.topic), each.partition) not in flight.leaving
            }
        epoch = flight.epochs[node] = -1 if flight.closes and not by else own.epoch
        if epoch:
            flight.written.update(self._asked(values))
        wanted = set().union(*by.values())
        has_fetched = exchange.api_key == SHARE_FETCH
        after = _Own(own.carrier, epoch_after(own.epoch), wanted if has_fetched else own.partitions, by)
        flight.parts[node] = None if epoch < 0 else after
        written = values | {"share_session_epoch": epoch}
        return written | _changes(values, epoch, own.partitions, wanted) if has_fetched else written

    def answered_by(self, exchange: Exchange, node: int, values: Values, answer: Values) -> Values:
        """A node's answer: what it has acquired for the member counts, whichever recorded session asked for it."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return answer
        if answer.get("error_code", 0):
            self._put(flight.member, node, None)
            self._give_back(flight, self._asked(values))
            is_unknown = answer["error_code"] in NEW_SESSION and flight.epochs.get(node, 0) > 0
            flight.begins_anew |= flight.is_fetch and is_unknown
        if exchange.api_key == SHARE_FETCH:
            for each in partitions.told(SHARE_FETCH, answer):
                topic = self._names.recorded_topic(each.topic)
                for found in each.values["acquired_records"] if topic is not None else ():
                    place = topic or "", each.partition
                    self._decisions.acquire(flight.member, place, found["first_offset"], found["last_offset"])
        return answer

    def undecided(self) -> int:
        """Partitions of which the recording acknowledged records that no member has had on the target."""
        return self._decisions.undecided()

    # the recorded sessions

    def _begin(self, exchange: Exchange, values: Values) -> _Flight:
        member = values["group_id"] or "", values["member_id"] or ""
        epoch, key = values["share_session_epoch"], (member, exchange.connection)
        topics: dict[str, Topic] = {}
        places: dict[Place, None] = {}
        for name, each in self._acknowledged(exchange, values):
            topics[name], places[name, each.partition] = each.topic, None
            self._decisions.decide(member[0], (name, each.partition), each.values["acknowledgement_batches"])
        table = {} if epoch == 0 else self._tables.get(key, {})
        if exchange.api_key == SHARE_FETCH:
            for each in partitions.asked(SHARE_FETCH, values):
                table[each.topic, each.partition] = each.values | {"acknowledgement_batches": []}
            # as brokers do it: what is named and forgotten is forgotten
            for topic in values["forgotten_topics_data"]:
                for index in topic["partitions"]:
                    table.pop((topic["topic_id"], index), None)
        if epoch < 0:
            self._tables.pop(key, None)
        else:
            _keep(self._tables, key, table)
        for topic, index in table:
            known = self._names.topic(topic)
            if known is not None:
                topics[known], places[known, index] = topic, None
        return _Flight(member, exchange.api_key == SHARE_FETCH, epoch < 0, dict(table), topics, [*places])

    def _named(self, flight: _Flight) -> list[Values]:
        """What a request names: the partitions of its session, and those that it acknowledges records of."""
        found: dict[Topic, dict[int, Values]] = {}
        for (topic, index), partition in flight.table.items() if flight.is_fetch and not flight.closes else ():
            found.setdefault(topic, {})[index] = dict(partition)
        for (name, index), decided in flight.decided.items():
            topic = flight.topics[name]
            if index not in found.setdefault(topic, {}):
                found[topic][index] = {"partition_index": index}
                flight.leaving.add((name, index))
            found[topic][index]["acknowledgement_batches"] = batches(decided)
        return [{"topic_id": topic, "partitions": [*inner.values()]} for topic, inner in found.items() if inner]

    def _asked(self, values: Values) -> Iterator[Place]:
        """The partitions that a translated request names, by recorded topic."""
        for each in partitions.asked(SHARE_FETCH, values):
            topic = self._names.recorded_topic(each.topic)
            if topic is not None:
                yield topic, each.partition

    def _decided(self, exchange: Exchange, flight: _Flight, values: Values) -> dict[Place, list[Decision]]:
        """What a request may acknowledge of its session's partitions."""
        found = {place: self._decisions.due(flight.member, place) for place in flight.places}
        for topic, each in self._acknowledged(exchange, values) if values.get("is_renew_ack") else ():
            place = topic, each.partition
            found[place] = self._decisions.renewed(flight.member, place, each.values["acknowledgement_batches"])
        return {place: decided for place, decided in found.items() if decided}

    def _acknowledged(self, exchange: Exchange, values: Values) -> Iterator[tuple[str, Asked]]:
        for each in partitions.asked(exchange.api_key, values):
            topic = self._names.topic(each.topic)
            if topic is not None:
                yield topic, each

    def _give_back(self, flight: _Flight, places: Iterable[Place]) -> None:
        for place in places:
            self._decisions.give_back(flight.member, place, flight.decided.pop(place, ()))

    def _put(self, member: Member, node: int, own: _Own | None) -> None:
        owns = self._own.setdefault(member, {})
        before = owns.pop(node, None)
        if own is not None:
            owns[node] = own
        elif before is not None:
            for topic, index in before.partitions:
                self._decisions.release(member, (self._names.recorded_topic(topic) or "", index))
        if not owns:
            del self._own[member]
            self._decisions.leave(member)


def _changes(values: Values, epoch: int, before: set[Key], wanted: set[Key]) -> Values:
    """What a ShareFetch names: partitions that are new to the session, or have acknowledgements."""
    named: dict[Topic, list[Values]] = {}
    gone = before - wanted if epoch > 0 else set()
    for each in partitions.asked(SHARE_FETCH, values):
        key, acknowledged = (each.topic, each.partition), each.values["acknowledgement_batches"] if epoch else []
        if acknowledged or (epoch >= 0 and key in wanted - before):
            named.setdefault(each.topic, []).append(each.values | {"acknowledgement_batches": acknowledged})
            # named for its acknowledgements alone, it would come into the session
            gone |= {key} - wanted if epoch > 0 else set()
    forgotten: dict[Topic, list[int]] = {}
    for topic, index in sorted(gone, key=repr):
        forgotten.setdefault(topic, []).append(index)
    return {
        "topics": [{"topic_id": topic, "partitions": found} for topic, found in named.items()],
        "forgotten_topics_data": [{"topic_id": topic, "partitions": found} for topic, found in forgotten.items()],
    }


def _keep(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST:
        kept.popitem(last=False)
