"""Decides whether an exchange is recorded by the topics that its request names (`capture.only.topics`).

Used by `frame_filter`. A request that names no topic is recorded, and so is one whose topics nobody can tell: an
unknown version, a frame that can't be read, an id that no answer has told, a session whose beginning was not seen. A
request within a session is about all topics of the session, too.

The topics of requests with records are told by the walk that finds their records (`record_filter`), often by the first
piece. Any other request is decoded once it is whole. Until then the request is undecided, and its bytes wait beside the
traffic, up to MOST_WAITING of them: a longer request is recorded.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from proxy.conversation.exchange import Exchange
from proxy.wire import catalog, keys, places
from proxy.wire.catalog import UnknownMessage
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from proxy.wire.headers import response_head
from proxy.wire.places import Struct
from recorder.capture.record_filter import NamedTopics, RecordFilter, version_of
from recorder.capture.session_topics import SessionTopics, SessionUse, Topic, session_use
from recorder.capture.topic_ids import TopicIds

# bytes of a request that wait for its topics: clients' defaults make no larger requests, and it is as much memory as a
# connection may take for secrets
MOST_WAITING = 1024 * 1024
# a Fetch response's session id stands within so many bytes, unless its head has tags that no broker writes
SESSION_WITHIN = 64
OF_SESSIONS = frozenset({keys.FETCH, keys.SHARE_FETCH, keys.SHARE_ACKNOWLEDGE})
# Heartbeats name the topics of a subscription once, and then none. A group would begin in the middle without the first.
_OF_GROUPS = frozenset(
    {
        keys.CONSUMER_GROUP_HEARTBEAT,
        keys.SHARE_GROUP_HEARTBEAT,
        keys.STREAMS_GROUP_HEARTBEAT,
        keys.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    }
)


class TopicChoice:
    """The decisions of one connection. `records`: its filter; `sessions`: those with the connection's broker."""

    def __init__(self, records: RecordFilter, topic_ids: TopicIds, sessions: SessionTopics) -> None:
        self._records = records
        self._topic_ids = topic_ids
        self._sessions = sessions
        # stands for this connection in names of sessions
        self._own = object()
        # the beginning of a response that may tell a session's id
        self._answer = b""

    def looks_into(self, exchange: Exchange) -> bool:
        """False if the request is recorded whatever it names: it can name no topic, or nobody can read it."""
        if self._records.rules.only.matches_all:
            return False
        return self._records.is_kafka07 or (version_of(exchange) is not None and _names_topics(exchange.api_key))

    def needs_all(self, exchange: Exchange) -> bool:
        """True if `takes` needs all bytes of the request."""
        return not self._records.walks_request(exchange)

    def takes(self, exchange: Exchange, frame: bytes | bytearray, arrived: int) -> bool | None:
        """True if the exchange is recorded, False if it is left out; None while its topics are not known.

        Args:
            frame: the request, its length included, as far as it has come; only looked at if `needs_all`.
            arrived: the number of the request's bytes that have come.
        """
        if not self.looks_into(exchange):
            return True
        size = LENGTH.size + exchange.request_size
        if not self.needs_all(exchange):
            found = _taken(self._records.named)
            # of a request that has begun before topics were chosen, nothing is known
            may_wait = arrived < size and arrived <= MOST_WAITING
            return found if found is not None or may_wait else True
        if size > MOST_WAITING:
            return True
        return self._takes_whole(exchange, bytes(frame[LENGTH.size :])) if arrived == size else None

    def answered(self, exchange: Exchange, piece: bytes, *, is_first: bool) -> None:
        """Takes a piece of a response, which may tell the id of a fetch session that begins."""
        if exchange.api_key != keys.FETCH or (begun := self._begun(exchange)) not in self._sessions:
            return
        known = b"" if is_first else self._answer
        self._answer = known + piece[: SESSION_WITHIN - len(known)]
        session = _session_of(self._answer[LENGTH.size :], version_of(exchange) or 0)
        if session:
            self._sessions.rename(begun, session)
        elif session == 0 or len(self._answer) == SESSION_WITHIN:
            self._sessions.close(begun)

    def resume(self) -> None:
        """Goes on after bytes that nobody has seen: they may have changed any session."""
        self._sessions.clear()

    def _takes_whole(self, exchange: Exchange, frame: bytes) -> bool:
        try:
            found = catalog.decode_request(frame)
        except WireError:
            return True
        if isinstance(found, UnknownMessage):
            return True
        values = found[1]
        topics: set[Topic] = {topic.key for topic in places.topics("request", exchange.api_key, values)}
        if exchange.api_key in OF_SESSIONS:
            forgotten = _named(exchange.api_key, values, forgotten=True)
            of_session = self._of_session(exchange, values, forgotten)
            if of_session is None:
                return True
            topics.update(of_session, (topic for topic, _ in forgotten))
        return not topics or any(map(self._may_be_chosen, topics))

    def _may_be_chosen(self, topic: Topic) -> bool:
        return self._records.rules.may_choose(self._topic_ids.name(topic) if isinstance(topic, bytes) else topic)

    def _of_session(
        self, exchange: Exchange, values: Struct, forgotten: list[tuple[Topic, int]]
    ) -> Collection[Topic] | None:
        """The topics of the session that the request goes on with or closes; None: nobody knows them."""
        key, use, sessions = exchange.api_key, session_use(values), self._sessions
        session = values.get("session_id") if key == keys.FETCH else (values["group_id"], values["member_id"])
        if use is SessionUse.NONE:
            return ()
        if use is SessionUse.BEGINS:
            sessions.close(session)
            # a fetch session has the id that the answer tells
            sessions.begin(self._begun(exchange) if key == keys.FETCH else session, _named(key, values))
            return ()
        if use is SessionUse.GOES_ON:
            added = () if key == keys.SHARE_ACKNOWLEDGE else _named(key, values)
            sessions.change(session, added, forgotten)
        topics = sessions.topics(session)
        if use is SessionUse.CLOSES:
            sessions.close(session)
        return topics

    def _begun(self, exchange: Exchange) -> tuple[object, int]:
        """The name of a fetch session until its id is told."""
        return self._own, exchange.number


def _taken(named: NamedTopics) -> bool | None:
    if named.may_be_chosen:
        return True
    return not named.number if named.is_all else None


def _named(key: int, values: Struct, *, forgotten: bool = False) -> list[tuple[Topic, int]]:
    """The partitions that a request names, or takes out of its session."""
    places_of = places.partitions("request", key, values, forgotten=forgotten)
    return [(place.topic, place.partition) for place in places_of]


@lru_cache(catalog.CACHE_SIZE)
def _names_topics(key: int) -> bool:
    """True if requests to an API may be about topics."""
    is_marked = any(places.is_marked("request", key, mark) for mark in ("topic_name", "topic_id"))
    return is_marked and key not in _OF_GROUPS


def _session_of(response: bytes, version: int) -> int | None:
    """The session id in a Fetch response's beginning; 0 for none; None if it has not come."""
    try:
        at = response_head(response, keys.FETCH, version).body
        found = catalog.must("response", keys.FETCH, version).project(("session_id",))(response, at)
    except WireError:
        return None
    return int(found["session_id"][0][0]) if found["session_id"] else 0
