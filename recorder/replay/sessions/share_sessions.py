"""Share sessions (KIP-932): the replay has its own with each node, and acknowledges what the target has given.

A node keeps one session for each member, on whichever connection: a second one replaces the first. Where several
recorded nodes stand for one target node, their sessions share one there. It has the partitions of all of them, and all
their requests go by the connection that opened it (`carrier`).

    recorded                                   sent
    ShareFetch                                 own epoch, with partitions that the session lacks; 0 if none is open
    ... with acknowledgements                  of the records that the member has on the target (`decisions`); none at
                                               epoch 0
    ShareAcknowledge                           own epoch, with the same acknowledgements, even if there are none;
                                               withheld if no session is open
    epoch -1: the member leaves                -1 with the last of the recorded sessions; else its partitions are
                                               forgotten
    errors 122, 123                            the session begins anew; a ShareFetch is sent again
    error 121 of the target alone              its group acquires the records again, and they are acknowledged then

If the capture lacks a session's beginning, the session has the partitions that its requests name or its answers have
records of.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from proxy.wire.places import Partition
from recorder.replay import partitions
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, NotSent, Origin, Reason, Resend, Values, Withheld
from recorder.replay.requests.apis import SHARES
from recorder.replay.sessions.decisions import Counterpart, Decision, Decisions, acknowledgement_batches
from recorder.replay.sessions.fetch_sessions import epoch_after
from recorder.replay.translator import Translator

INVALID_RECORD_STATE = 121
NEW_SESSION = frozenset({122, 123})
# Recorded sessions that are remembered, by last use.
_MOST = 10_000

_K = TypeVar("_K")
_V = TypeVar("_V")
Key = tuple[Topic, int]
Table = dict[Key, Values]
Member = tuple[str, str]
Connection = tuple[str, int]


@dataclass
class _OwnShareSession:
    """The replay's session of a member with a node.

    Attributes:
        carrier: the recorded connection whose channel has opened it.
        epoch: the next one.
        partitions: those that the target knows in it.
        by: recorded connection -> the partitions that its recorded session wants here.
    """

    carrier: Connection
    epoch: int = 0
    partitions: set[Key] = field(default_factory=set)
    by: dict[Connection, set[Key]] = field(default_factory=dict)


@dataclass
class _ShareFlight:
    """One exchange.

    Attributes:
        table: the partitions of its recorded session.
        places: these, and those that it acknowledges, by recorded name; `topics`: their recorded names -> recorded ids.
        leaving: partitions that it names for their acknowledgements alone.
        decided: its acknowledgements; `written`: the partitions whose parts may have some.
        parts: the sessions' next states, by node; None: closed. `epochs`: those that were written.
    """

    member: Member
    is_fetch: bool
    closes: bool
    table: Table
    topics: dict[str, Topic]
    places: list[TopicPartition]
    leaving: set[TopicPartition] = field(default_factory=set)
    decided: dict[TopicPartition, list[Decision]] = field(default_factory=dict)
    written: set[TopicPartition] = field(default_factory=set)
    parts: dict[int, _OwnShareSession | None] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    has_left: bool = False
    begins_anew: bool = False


class ShareSessions(Translator):
    """The share sessions of one replay, and what its members have acquired. A translator.

    Args:
        counterpart: the target's offset for a recorded one.
    """

    def __init__(self, names: Names, counterpart: Counterpart) -> None:
        self._names = names
        self._decisions = Decisions(counterpart)
        self._tables: OrderedDict[tuple[Member, Connection], Table] = OrderedDict()
        self._own: dict[Member, dict[int, _OwnShareSession]] = {}
        self._flights: dict[Origin, _ShareFlight] = {}

    # translator

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates."""
        return api_key in SHARES

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Names the partitions of the recorded session, with acknowledgements in the target's offsets."""
        if exchange.api_key not in SHARES:
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
        """The parts leave: their sessions move on."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return
        flight.has_left = True
        flight.decided = {place: flight.decided[place] for place in flight.decided.keys() & flight.written}
        for place, decided in flight.decided.items():
            self._decisions.take(flight.member, place, decided)
        for node, own in flight.parts.items():
            self._put(flight.member, node, own)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Sends the request again if a session has to begin anew, unless the recorded one had to as well."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return None
        if flight.begins_anew:
            flight.begins_anew = False
            if (exchange.answer or {}).get("error_code", 0) not in NEW_SESSION:
                return Resend()
        self._add_told(exchange, self._tables.get((flight.member, exchange.connection), {}))
        del self._flights[exchange.origin]
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The target may or may not have moved the sessions on, so they begin anew."""
        flight = self._flights.pop(exchange.origin, None)
        if flight is not None:
            for node in flight.parts if flight.has_left else ():
                self._put(flight.member, node, None)
            self._give_back(flight, [*flight.decided] if flight.has_left else ())

    # for the engine

    def nodes(self, member: Member) -> list[int]:
        """The nodes with which a recorded member (group, member id) has sessions."""
        return [*self._own.get(member, ())]

    def homes(self, exchange: Exchange, values: Values) -> list[int]:
        """The nodes that a request must go to, whatever it names: those with which it ends a session.

        A ShareAcknowledge without acknowledgements goes to any node with a session.
        """
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return []
        if flight.closes:
            return [node for node, own in self._own.get(flight.member, {}).items() if exchange.connection in own.by]
        is_empty = exchange.api_key == SHARE_ACKNOWLEDGE and not values["topics"]
        return self.nodes(flight.member)[:1] if is_empty else []

    def carrier(self, exchange: Exchange, node: int) -> Connection:
        """The recorded connection whose channel to a node carries a request."""
        flight = self._flights.get(exchange.origin)
        own = self._own.get(flight.member, {}).get(node) if flight else None
        return own.carrier if own else exchange.connection

    def ends(self, connection: Connection) -> bool:
        """A recorded connection has ended: its partitions leave.

        True if its channels carry sessions that others still use.
        """
        owns = [own for each in self._own.values() for own in each.values()]
        for own in owns:
            own.by.pop(connection, None)
        return any(own.carrier == connection and own.by for own in owns)

    def closed(self, connection: Connection, node: int | None = None) -> None:
        """The channel to a node was closed, or all channels of a recorded connection: the sessions on them are gone."""
        for member, owns in [*self._own.items()]:
            for at, own in [*owns.items()]:
                if own.carrier == connection and node in (None, at):
                    self._put(member, at, None)

    def for_node(self, exchange: Exchange, node: int, values: Values) -> Values:
        """A node's part of a translated request, as a request of the session with that node."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return values
        own = self._own.get(flight.member, {}).get(node) or _OwnShareSession(exchange.connection)
        by = {connection: set(found) for connection, found in own.by.items()}
        if flight.closes:
            by.pop(exchange.connection, None)
        elif exchange.api_key == SHARE_FETCH:
            by[exchange.connection] = {
                (each.topic, each.partition)
                for each in partitions.in_request(SHARE_FETCH, values)
                if (self._names.recorded_topic(each.topic), each.partition) not in flight.leaving
            }
        epoch = flight.epochs[node] = -1 if flight.closes and not by else own.epoch
        if epoch:
            flight.written.update(self._asked(values))
        wanted = set().union(*by.values())
        has_fetched = exchange.api_key == SHARE_FETCH
        after = _OwnShareSession(own.carrier, epoch_after(own.epoch), wanted if has_fetched else own.partitions, by)
        flight.parts[node] = None if epoch < 0 else after
        written = values | {"share_session_epoch": epoch}
        return written | _changes(values, epoch, own.partitions, wanted) if has_fetched else written

    def answered_by(self, exchange: Exchange, node: int, values: Values, answer: Values) -> Values:
        """Learns what a node has given to the member, whichever recorded session asked for it.

        Returns the answer unchanged.
        """
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return answer
        if answer.get("error_code", 0):
            self._put(flight.member, node, None)
            self._give_back(flight, self._asked(values))
            is_unknown = answer["error_code"] in NEW_SESSION and flight.epochs.get(node, 0) > 0
            flight.begins_anew |= flight.is_fetch and is_unknown
        self._give_back(flight, self._expired(exchange, answer))
        if exchange.api_key == SHARE_FETCH:
            for each in partitions.in_answer(SHARE_FETCH, answer):
                topic = self._names.recorded_topic(each.topic)
                for found in each.values["acquired_records"] if topic is not None else ():
                    place = topic or "", each.partition
                    self._decisions.acquire(flight.member, place, found["first_offset"], found["last_offset"])
        return answer

    def _expired(self, exchange: Exchange, answer: Values) -> set[TopicPartition]:
        """The partitions of which the target alone had taken records back before they were acknowledged.

        At `max` it gives records ahead of the recording, and on a busy machine their acknowledgements come late.
        """
        recorded = _invalid(exchange.api_key, exchange.answer or {}, self._names.topic)
        return _invalid(exchange.api_key, answer, self._names.recorded_topic) - recorded

    def forget_topic(self, topic: str) -> None:
        """Forgets the records of a recorded topic, which the target has deleted."""
        self._decisions.forget_topic(topic)

    def undecided(self) -> int:
        """The number of partitions with recorded acknowledgements of records that no member has had on the target."""
        return self._decisions.undecided()

    # recorded sessions

    def _begin(self, exchange: Exchange, values: Values) -> _ShareFlight:
        member = values["group_id"] or "", values["member_id"] or ""
        epoch, key = values["share_session_epoch"], (member, exchange.connection)
        topics: dict[str, Topic] = {}
        places: dict[TopicPartition, None] = {}
        for name, each in self._acknowledged(exchange, values):
            topics[name], places[name, each.partition] = each.topic, None
            self._decisions.decide(member[0], (name, each.partition), each.values["acknowledgement_batches"])
        table = {} if epoch == 0 else self._tables.get(key, {})
        if exchange.api_key == SHARE_FETCH:
            for each in partitions.in_request(SHARE_FETCH, values):
                table[each.topic, each.partition] = each.values | {"acknowledgement_batches": []}
            # as brokers do: a partition that is both named and forgotten is forgotten
            for each in partitions.forgotten(SHARE_FETCH, values):
                table.pop((each.topic, each.partition), None)
            self._add_told(exchange, table)
        if epoch < 0:
            self._tables.pop(key, None)
        else:
            _keep(self._tables, key, table)
        for topic, index in table:
            known = self._names.topic(topic)
            if known is not None:
                topics[known], places[known, index] = topic, None
        return _ShareFlight(member, exchange.api_key == SHARE_FETCH, epoch < 0, dict(table), topics, [*places])

    def _add_told(self, exchange: Exchange, table: Table) -> None:
        """Adds the partitions of which the recorded answer gives records, if it is read already."""
        answer = exchange.answer if exchange.answer_frame is not None else None
        for each in partitions.in_answer(SHARE_FETCH, answer or {}) if exchange.api_key == SHARE_FETCH else ():
            if each.values["acquired_records"]:
                new = {"partition_index": each.partition, "acknowledgement_batches": []}
                table.setdefault((each.topic, each.partition), new)

    def _named(self, flight: _ShareFlight) -> list[Values]:
        """The partitions that a request names: those of its session, and those with acknowledgements."""
        found: dict[Topic, dict[int, Values]] = {}
        for (topic, index), partition in flight.table.items() if flight.is_fetch and not flight.closes else ():
            found.setdefault(topic, {})[index] = dict(partition)
        for (name, index), decided in flight.decided.items():
            topic = flight.topics[name]
            if index not in found.setdefault(topic, {}):
                found[topic][index] = {"partition_index": index}
                flight.leaving.add((name, index))
            found[topic][index]["acknowledgement_batches"] = acknowledgement_batches(decided)
        return [{"topic_id": topic, "partitions": [*inner.values()]} for topic, inner in found.items() if inner]

    def _asked(self, values: Values) -> Iterator[TopicPartition]:
        """The partitions that a translated request names, by recorded topic."""
        for each in partitions.in_request(SHARE_FETCH, values):
            topic = self._names.recorded_topic(each.topic)
            if topic is not None:
                yield topic, each.partition

    def _decided(
        self, exchange: Exchange, flight: _ShareFlight, values: Values
    ) -> dict[TopicPartition, list[Decision]]:
        """The acknowledgements that a request may send."""
        found = {place: self._decisions.due(flight.member, place) for place in flight.places}
        for topic, each in self._acknowledged(exchange, values) if values.get("is_renew_ack") else ():
            place = topic, each.partition
            found[place] = self._decisions.renewed(flight.member, place, each.values["acknowledgement_batches"])
        return {place: decided for place, decided in found.items() if decided}

    def _acknowledged(self, exchange: Exchange, values: Values) -> Iterator[tuple[str, Partition]]:
        for each in partitions.in_request(exchange.api_key, values):
            topic = self._names.topic(each.topic)
            if topic is not None:
                yield topic, each

    def _give_back(self, flight: _ShareFlight, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._decisions.give_back(flight.member, place, flight.decided.pop(place, ()))

    def _put(self, member: Member, node: int, own: _OwnShareSession | None) -> None:
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
    """The partitions that a ShareFetch names: those new to the session, and those with acknowledgements."""
    named: dict[Topic, list[Values]] = {}
    gone = before - wanted if epoch > 0 else set()
    for each in partitions.in_request(SHARE_FETCH, values):
        key, acknowledged = (each.topic, each.partition), each.values["acknowledgement_batches"] if epoch else []
        if acknowledged or (epoch >= 0 and key in wanted - before):
            named.setdefault(each.topic, []).append(each.values | {"acknowledgement_batches": acknowledged})
            # it is named for its acknowledgements alone, and must not come into the session
            gone |= {key} - wanted if epoch > 0 else set()
    forgotten: dict[Topic, list[int]] = {}
    for topic, index in sorted(gone, key=repr):
        forgotten.setdefault(topic, []).append(index)
    return {
        "topics": [{"topic_id": topic, "partitions": found} for topic, found in named.items()],
        "forgotten_topics_data": [{"topic_id": topic, "partitions": found} for topic, found in forgotten.items()],
    }


def _invalid(api_key: int, answer: Values, named: Callable[[Topic], str | None]) -> set[TopicPartition]:
    """The partitions whose acknowledgements an answer refuses for the state of their records, by recorded topic."""
    told = [(named(each.topic), each) for each in partitions.in_answer(api_key, answer)]
    return {
        (topic, each.partition)
        for topic, each in told
        if topic is not None
        and each.values.get("acknowledge_error_code", each.values["error_code"]) == INVALID_RECORD_STATE
    }


def _keep(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST:
        kept.popitem(last=False)
