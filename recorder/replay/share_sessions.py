"""Share sessions (KIP-932): the replay's own with each node, and acknowledgements of what the target has given.

A node keeps one session of a member, whichever connection it came by, and a second one removes the first. Where
several recorded nodes stand for one of the target, their sessions share one there: it has the partitions of all of
them, and all their requests go by the connection that opened it (`carrier`).

    recorded                                   sent
    ShareFetch                                 own epoch, with what is not yet in the session; 0 where none is open
    ... with acknowledgements                  of the k-th acquired record for the k-th (`acquired`); left out where the
                                               target has not given it, and all of them at epoch 0
    ShareAcknowledge                           own epoch; withheld if none is open, or nothing is left of it
    epoch -1: the member leaves                -1 with the last of the recorded sessions, else their partitions go
    errors 122, 123                            a new session; a ShareFetch is sent again
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay import partitions
from recorder.replay.acquired import Acquired, Run
from recorder.replay.names import Names
from recorder.replay.partitions import Asked, Place, Topic
from recorder.replay.plan import Again, Dropped, Exchange, Origin, Reason, Refusal, Values, Withheld
from recorder.replay.sessions import epoch_after

NEW_SESSION = frozenset({122, 123})
_APIS = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
# Recorded sessions, and members' partitions, that were used last are known.
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
        table: its recorded session's partitions.
        leaving: places that are named for their acknowledgements alone.
        parts: the next state of the sessions, by node; None: closed. `epochs`: that were written.
    """

    member: Member
    closes: bool
    table: Table
    leaving: set[Place] = field(default_factory=set)
    parts: dict[int, _Own | None] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    has_left: bool = False
    begins_anew: bool = False


class ShareSessions:
    """The share sessions of one replay, and what its members have acquired. A translator."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tables: OrderedDict[tuple[Member, Connection], Table] = OrderedDict()
        self._acquired: OrderedDict[tuple[Member, str, int], Acquired] = OrderedDict()
        self._own: dict[Member, dict[int, _Own]] = {}
        self._flights: dict[Origin, _Flight] = {}

    # the translator

    def request(self, exchange: Exchange, values: Values, now: int) -> Refusal | None:
        """Names the partitions of the recorded session, with acknowledgements in the target's offsets."""
        if exchange.api_key not in _APIS:
            return None
        flight = self._flights.get(exchange.origin)
        if flight is None:
            flight = self._flights[exchange.origin] = self._begin(exchange, values)
        flight.parts, flight.epochs, flight.leaving, flight.has_left = {}, {}, set(), False
        is_open = bool(self.nodes(flight.member))
        if not is_open and (exchange.api_key == SHARE_ACKNOWLEDGE or flight.closes):
            return Withheld(Reason.NO_SESSION)
        had_some = self._acknowledge(exchange, flight.member, values)
        if exchange.api_key == SHARE_FETCH:
            self._complete(flight, values)
        elif had_some and not values["topics"] and not flight.closes:
            return Withheld(Reason.NOT_ACQUIRED)
        return None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The parts leave: their sessions are as far as they say."""
        flight = self._flights.get(exchange.origin)
        if flight is None:
            return
        flight.has_left = True
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
        self._learn(exchange, flight.member)
        del self._flights[exchange.origin]
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come: the target may or may not have moved the sessions on."""
        flight = self._flights.pop(exchange.origin, None)
        if flight is not None:
            self._learn(exchange, flight.member)
            for node in flight.parts if flight.has_left else ():
                self._put(flight.member, node, None)

    # the engine's hooks

    def nodes(self, member: Member) -> list[int]:
        """The nodes with which a recorded member (group, member id) has sessions."""
        return [*self._own.get(member, ())]

    def carrier(self, exchange: Exchange, node: int) -> Connection:
        """The recorded connection by whose connection to a node a request goes there."""
        flight = self._flights.get(exchange.origin)
        own = self._own.get(flight.member, {}).get(node) if flight else None
        return own.carrier if own else exchange.connection

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
            is_fetch = exchange.api_key == SHARE_FETCH
            flight.begins_anew |= is_fetch and answer["error_code"] in NEW_SESSION and flight.epochs.get(node, 0) > 0
        if exchange.api_key == SHARE_FETCH:
            for each in partitions.told(SHARE_FETCH, answer):
                topic = self._names.recorded_topic(each.topic)
                for found in each.values["acquired_records"] if topic is not None else ():
                    acquired = self._of(flight.member, topic or "", each.partition)
                    acquired.target(found["first_offset"], found["last_offset"])
        return answer

    # the recorded sessions

    def _begin(self, exchange: Exchange, values: Values) -> _Flight:
        member = values["group_id"] or "", values["member_id"] or ""
        epoch, key = values["share_session_epoch"], (member, exchange.connection)
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
        return _Flight(member, epoch < 0, dict(table))

    def _complete(self, flight: _Flight, values: Values) -> None:
        """A ShareFetch names all partitions of its session, and those that it acknowledges records of."""
        found: dict[Topic, dict[int, Values]] = {}
        for (topic, index), partition in flight.table.items() if not flight.closes else ():
            found.setdefault(topic, {})[index] = dict(partition)
        for each in partitions.asked(SHARE_FETCH, values):
            known = found.setdefault(each.topic, {}).get(each.partition)
            if known is not None:
                known["acknowledgement_batches"] = each.values["acknowledgement_batches"]
            elif each.values["acknowledgement_batches"]:
                found[each.topic][each.partition] = each.values
                flight.leaving.add((self._names.topic(each.topic) or "", each.partition))
        values["topics"] = [
            {"topic_id": topic, "partitions": [*inner.values()]} for topic, inner in found.items() if inner
        ]
        values["forgotten_topics_data"] = []

    # acknowledgements

    def _acknowledge(self, exchange: Exchange, member: Member, values: Values) -> bool:
        """Moves acknowledgements to the target's offsets. True: there were some."""
        had_some = False
        for each in partitions.asked(exchange.api_key, values):
            batches = each.values["acknowledgement_batches"]
            moved = self._moved(member, each)
            had_some = had_some or bool(batches)
            if batches and not moved:
                exchange.dropped.append(Dropped(each.topic, each.partition, Reason.NOT_ACQUIRED))
            each.values["acknowledgement_batches"] = moved
        if exchange.api_key == SHARE_ACKNOWLEDGE:
            for topic in values["topics"]:
                topic["partitions"] = [each for each in topic["partitions"] if each["acknowledgement_batches"]]
            values["topics"] = [topic for topic in values["topics"] if topic["partitions"]]
        return had_some

    def _moved(self, member: Member, each: Asked) -> list[Values]:
        topic = self._names.topic(each.topic)
        acquired = None if topic is None else self._acquired.get((member, topic, each.partition))
        found = []
        for batch in each.values["acknowledgement_batches"] if acquired else ():
            runs = acquired.runs(batch["first_offset"], batch["last_offset"]) if acquired else []
            found += [_acknowledgement(batch, run) for run in runs]
        # brokers want them in order
        return sorted(found, key=lambda batch: batch["first_offset"])

    def _learn(self, exchange: Exchange, member: Member) -> None:
        answer = exchange.answer if exchange.answer_frame is not None else None
        for each in partitions.told(SHARE_FETCH, answer or {}) if exchange.api_key == SHARE_FETCH else ():
            topic = self._names.topic(each.topic)
            for found in each.values["acquired_records"] if topic is not None else ():
                self._of(member, topic or "", each.partition).recorded(found["first_offset"], found["last_offset"])

    def _of(self, member: Member, topic: str, partition: int) -> Acquired:
        key = member, topic, partition
        found = self._acquired.get(key) or Acquired()
        _keep(self._acquired, key, found)
        return found

    def _put(self, member: Member, node: int, own: _Own | None) -> None:
        owns = self._own.setdefault(member, {})
        owns.pop(node, None)
        if own is not None:
            owns[node] = own
        if not owns:
            del self._own[member]


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


def _acknowledgement(batch: Values, run: Run) -> Values:
    """One of neighbours. `acknowledge_types`: one for all, or one each."""
    types = batch["acknowledge_types"]
    if len(types) > 1:
        at = run.recorded - batch["first_offset"]
        types = types[at : at + run.length]
    return batch | {
        "first_offset": run.target,
        "last_offset": run.target + run.length - 1,
        "acknowledge_types": types,
    }


def _keep(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST:
        kept.popitem(last=False)
