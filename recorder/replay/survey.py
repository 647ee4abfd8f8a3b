"""The survey: a first pass over a capture for what a replay needs to know. Memory grows with names, not with frames.

Names are found by the catalog's marks, with projections. Answers that tell ids and offsets are decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from proxy.wire import codec, marked
from proxy.wire.apis import name_or_key
from proxy.wire.catalog import Codec
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head
from proxy.wire.keys import (
    CREATE_TOPICS,
    METADATA,
    PRODUCE,
    SHARE_FETCH,
)
from proxy.wire.places import FORGOTTEN
from recorder.replay import beginnings, partitions
from recorder.replay.beginnings import Beginnings, Place
from recorder.replay.messages import MOST_MESSAGES, answer_values, repeatable, without_correlation
from recorder.replay.outcome import Touched
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Exchange, Origin, Withheld, unplayable_percent
from recorder.replay.recorded_clusters import TELLS_BROKERS, RecordedClusters
from recorder.replay.requests.apis import COMMITS, READ_ONLY, Trait, those
from recorder.replay.stream import (
    AnswerRecorded,
    ConnectionClosed,
    Happening,
    NodeFound,
    RequestRecorded,
)

_NUMBERS_PARTITIONS = those(Trait.NUMBERS_PARTITIONS)
_OWN_TOPICS = frozenset({METADATA, CREATE_TOPICS})
Name = str | bytes


@dataclass(slots=True)
class NameUse:
    """A name in the recording: how many requests name it, whether one of them writes, whether one is a Produce."""

    requests: int = 0
    is_written: bool = False
    is_produced: bool = False


@dataclass(slots=True)
class Survey:
    """The contents of a capture.

    Attributes:
        first_ns, last_ns: of the first and the last request, on the play's clock; `…wall_ns`: since 1970.
        clusters: names in the settings; `other_clusters`: those of which nothing is played.
        recorded: where the capture was recorded, also of clusters that are not played.
        topics: recorded name -> partitions.
        created: topics that the recording creates before it uses them.
        internal: topics that the recording's answers call internal.
        used: topics that requests name, except to ask for metadata or to create them.
        topic_ids: recorded id -> recorded name.
        first_offsets: (topic, partition) -> the first base offset in an answer to Produce, or the log's end before the
            first Produce with acks 0.
        first_acquired: share group -> (topic, partition) -> the lowest offset that its members acquired.
        beginnings: what began in the recording, of which all else is from before.
        nodes: recorded ids of nodes that requests went to, or that answers name.
        committing: groups whose offsets are committed.
        sent: requests by API; `withheld`: by API and reason.
    """

    first_ns: int = 0
    last_ns: int = 0
    first_wall_ns: int = 0
    last_wall_ns: int = 0
    sessions: set[str] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    other_clusters: set[str] = field(default_factory=set)
    recorded: RecordedClusters = field(default_factory=RecordedClusters)
    topics: dict[str, int] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    internal: set[str] = field(default_factory=set)
    used: dict[Name, NameUse] = field(default_factory=dict)
    groups: dict[str, NameUse] = field(default_factory=dict)
    transactions: dict[str, NameUse] = field(default_factory=dict)
    committing: set[str] = field(default_factory=set)
    topic_ids: dict[bytes, str] = field(default_factory=dict)
    first_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    first_acquired: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    beginnings: Beginnings = field(default_factory=Beginnings)
    nodes: set[int] = field(default_factory=set)
    principals: set[str] = field(default_factory=set)
    sent: Counter[str] = field(default_factory=Counter)
    withheld: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def requests(self) -> int:
        """The number of chosen requests."""
        return self.sent.total() + self.withheld.total()

    @property
    def withheld_percent(self) -> float:
        """The share of requests that can't be played, among those that the options choose."""
        by_reason: Counter[str] = Counter()
        for (_, reason), count in self.withheld.items():
            by_reason[reason] += count
        return unplayable_percent(by_reason, self.requests)

    def used_topics(self) -> dict[str, NameUse]:
        """Topics that requests use, by recorded name. Ids without a recorded name are left out."""
        named: dict[str, NameUse] = {}
        for name, found in self.used.items():
            known = self.topic_ids.get(name) if isinstance(name, bytes) else name
            if known is not None:
                both = named.setdefault(known, NameUse())
                both.requests += found.requests
                both.is_written |= found.is_written
                both.is_produced |= found.is_produced
        return named

    def touched(self, names: dict[str, NameUse], prefix: Callable[[str], str]) -> tuple[Touched, ...]:
        """These names as the plan shows them."""
        return tuple(Touched(prefix(name), one.requests, one.is_written) for name, one in sorted(names.items()))


def survey(
    rows: Iterable[Happening],
    plays: Callable[[Exchange], bool],
    refused: Callable[[Exchange], Withheld | None],
    cluster: str | None = None,
    recorded: RecordedClusters | None = None,
) -> Survey:
    """Looks through a capture once.

    Args:
        rows: of all clusters, since none of them may be the target.
        plays: False for exchanges that the options leave out.
        refused: why an exchange is withheld on any target.
        cluster: the one that is played; None: all.
        recorded: what the capture's events tell of where it was recorded.
    """
    found, sharing, creating = (
        Survey(recorded=recorded or RecordedClusters()),
        dict[Origin, str](),
        dict[Origin, set[str]](),
    )
    found.beginnings = Beginnings(found.topic_ids)
    # a topic's name may be told behind the answers that use its id
    bases: dict[Place, int] = {}
    acquired: dict[str, dict[Place, int]] = {}
    has_begun = False
    # Produces before the first request that is played: what their answers tell is from before
    early = set[Origin]()
    for row in rows:
        if isinstance(row, ConnectionClosed):
            continue
        if isinstance(row, AnswerRecorded):
            tell_of_cluster(found.recorded, row)
        if cluster is not None and row.cluster not in (cluster, None):
            continue
        if isinstance(row, RequestRecorded):
            if row.cluster:
                found.other_clusters.add(row.cluster)
            if plays(row.exchange):
                withheld = refused(row.exchange)
                _add_request(found, row, withheld)
                if withheld is None and row.exchange.api_key == CREATE_TOPICS:
                    creating[row.exchange.origin] = _new_topics(found, row.exchange)
                _add_sharing(sharing, row.exchange)
            if has_begun := has_begun or found.requests > 0:
                _add_beginning(found, row.exchange)
            elif row.exchange.api_key == PRODUCE and row.exchange.awaits:
                early.add(row.exchange.origin)
        elif isinstance(row, AnswerRecorded):
            new, group = creating.pop(row.origin, set()), sharing.pop(row.origin, None)
            # the request's frame told its API; the row of its answer may name another one
            if row.api_key == CREATE_TOPICS:
                _add_created(found, new, row)
            _add_answer(found, row, has_begun)
            if row.api_key == PRODUCE and has_begun and row.origin not in early:
                _add_offsets(bases, row)
            early.discard(row.origin)
            if row.api_key == SHARE_FETCH:
                _add_acquired(acquired, group, row)
        elif isinstance(row, NodeFound):
            found.nodes.add(row.node)
    found.other_clusters -= found.clusters
    found.beginnings.close()
    found.first_offsets = found.beginnings.silent_ends() | _named(found, bases, lambda first, later: first)
    found.first_acquired = {group: _named(found, starts, min) for group, starts in acquired.items()}
    return found


def tell_of_cluster(found: RecordedClusters, row: AnswerRecorded) -> None:
    """Adds what an answer tells of where it was recorded."""
    if row.frame is not None and row.api_key in TELLS_BROKERS:
        with suppress(WireError):
            found.add_answer((row.origin.session, row.cluster), row.api_key, row.version, row.frame)


def _add_request(found: Survey, row: RequestRecorded, withheld: Withheld | None) -> None:
    exchange = row.exchange
    if not found.requests:
        found.first_ns, found.first_wall_ns = exchange.first_ns, exchange.wall_ns
    found.last_ns, found.last_wall_ns = exchange.at_ns, exchange.wall_ns
    api = name_or_key(exchange.api_key)
    found.sessions.add(exchange.origin.session)
    if row.cluster:
        found.clusters.add(row.cluster)
    if exchange.node is not None and exchange.node >= 0:
        found.nodes.add(exchange.node)
    found.recorded.played.add(exchange.origin.session)
    if withheld is not None:
        found.withheld[api, withheld.reason.value] += 1
        return
    found.sent[api] += 1
    if exchange.principal is not None:
        found.principals.add(exchange.principal)
    try:
        _add_names(found, exchange)
    except WireError:
        return


def _add_names(found: Survey, exchange: Exchange) -> None:
    key = exchange.api_key
    named = named_by(key, exchange.version, exchange.frame or b"")
    for name in named.topics:
        if key not in _OWN_TOPICS:
            _count(found.used, name, key)
    for name in named.groups:
        _count(found.groups, name, key)
        if key in COMMITS:
            found.committing.add(name)
    for name in named.transactions:
        _count(found.transactions, name, key)
    if key == PRODUCE and exchange.awaits:
        found.beginnings.add_produce(exchange, named.places, next(iter(named.transactions), None))
    for topic, index in named.places:
        known = found.topic_ids.get(topic) if isinstance(topic, bytes) else topic
        if known:
            found.topics[known] = max(found.topics.get(known, 0), index + 1)


def _count(names: dict[Any, NameUse], name: Any, key: int) -> None:
    one = names.get(name)
    if one is None:
        one = names[name] = NameUse()
    one.requests += 1
    # all APIs that are not known to read only
    one.is_written |= key not in READ_ONLY
    one.is_produced |= key == PRODUCE


def _add_beginning(found: Survey, exchange: Exchange) -> None:
    """Adds what a request begins, chosen or not: what is recorded is not from before."""
    key, version, frame = exchange.api_key, exchange.version, exchange.frame or b""
    if key in beginnings.READ:
        found.beginnings.add_request(exchange)
    elif key == PRODUCE and not exchange.awaits:
        found.beginnings.add_silent(exchange)
    elif key == PRODUCE and not found.beginnings.is_adding(exchange.origin):
        places, name = None, None
        with suppress(WireError):
            named = named_by(key, version, frame)
            places, name = named.places, next(iter(named.transactions), None)
        found.beginnings.add_produce(exchange, places, name)


def _named(found: Survey, told: Mapping[Place, int], both: Callable[[int, int], int]) -> dict[TopicPartition, int]:
    """Offsets by the names of topics, as far as answers name them. `both`: joins those of a name and of its ids."""
    named: dict[TopicPartition, int] = {}
    for (topic, index), offset in told.items():
        name = found.topic_ids.get(topic) if isinstance(topic, bytes) else topic
        if name is not None:
            named[name, index] = both(named[name, index], offset) if (name, index) in named else offset
    return named


def _add_answer(found: Survey, row: AnswerRecorded, has_begun: bool) -> None:
    if row.frame is None or row.api_key < 0:
        return
    try:
        if row.api_key in beginnings.ANSWERED and has_begun:
            found.beginnings.add_answer(row.origin, row.api_key, row.ns, _values(row))
        if row.api_key == METADATA:
            _add_metadata(found, _values(row))
        elif row.api_key != PRODUCE and marked("response", row.api_key, row.version, "topic_id"):
            _add_ids(found, _values(row))
            _add_internal(found, _values(row))
    except WireError:
        return


def _values(row: AnswerRecorded) -> dict[str, Any]:
    assert row.frame is not None
    return answer_values(row.api_key, row.version, row.frame)


def _add_metadata(found: Survey, values: dict[str, Any]) -> None:
    found.nodes.update(broker["node_id"] for broker in values.get("brokers", ()))
    _add_internal(found, values)
    for topic in values.get("topics", ()):
        if not topic["error_code"] and topic["name"]:
            found.topics[topic["name"]] = max(found.topics.get(topic["name"], 0), len(topic["partitions"]))
            if any(topic.get("topic_id", b"")):
                found.topic_ids[topic["topic_id"]] = topic["name"]


def _add_internal(found: Survey, values: dict[str, Any]) -> None:
    found.internal |= {topic["name"] for topic in values.get("topics") or () if topic.get("is_internal")} - {None}


def _add_offsets(bases: dict[Place, int], row: AnswerRecorded) -> None:
    """Adds the offsets of records that the answer to a Produce tells."""
    if row.frame is None:
        return
    with suppress(WireError):
        for each in partitions.in_answer(PRODUCE, _values(row)):
            if not each.values["error_code"] and each.values["base_offset"] >= 0:
                bases.setdefault((each.topic, each.partition), each.values["base_offset"])


def _new_topics(found: Survey, exchange: Exchange) -> set[str]:
    """The topics that a request creates, unless they exist: those that nothing has used before."""
    with suppress(WireError):
        if not exchange.request.get("validate_only"):
            return {topic["name"] for topic in exchange.request["topics"]} - found.used_topics().keys()
    return set()


def _add_created(found: Survey, new: set[str], row: AnswerRecorded) -> None:
    if new and row.frame is not None:
        with suppress(WireError):
            made = {topic["name"] for topic in _values(row).get("topics", ()) if not topic["error_code"]}
            found.created |= made & new


def _add_sharing(sharing: dict[Origin, str], exchange: Exchange) -> None:
    """Remembers the group of a ShareFetch until it is answered: the answer doesn't name it."""
    if exchange.api_key == SHARE_FETCH and exchange.fault is None:
        with suppress(WireError):
            sharing[exchange.origin] = exchange.request["group_id"] or ""
            exchange.forget_values()


def _add_acquired(acquired: dict[str, dict[Place, int]], group: str | None, row: AnswerRecorded) -> None:
    if group is None or row.frame is None:
        return
    starts = acquired.setdefault(group, {})
    with suppress(WireError):
        for each in partitions.in_answer(SHARE_FETCH, _values(row)):
            place = each.topic, each.partition
            for batch in each.values["acquired_records"]:
                starts[place] = min(batch["first_offset"], starts.get(place, batch["first_offset"]))


def _add_ids(found: Survey, values: Any) -> None:
    """Pairs of a topic's id and name in one struct, at any depth."""
    if isinstance(values, list):
        for each in values:
            _add_ids(found, each)
    elif isinstance(values, dict):
        name = values.get("name") or values.get("topic_name")
        if isinstance(name, str) and name and any(values.get("topic_id") or b""):
            found.topic_ids[values["topic_id"]] = name
        for each in values.values():
            if isinstance(each, (list, dict)):
                _add_ids(found, each)


class Named(NamedTuple):
    """What a request names, each once. `places`: topics, by name or id, with the indices of their partitions."""

    topics: frozenset[Name]
    groups: frozenset[str]
    transactions: frozenset[str]
    places: tuple[tuple[Name, int], ...]


_NOTHING = Named(frozenset(), frozenset(), frozenset(), ())


def named_by(key: int, version: int, frame: bytes) -> Named:
    """What a request names. Errors: WireError."""
    rest = repeatable(key, frame)
    # no name stands in a correlation id
    return _remembered(key, version, rest) if rest is not None else _named_by(key, version, frame)


@lru_cache(MOST_MESSAGES)
def _remembered(key: int, version: int, rest: bytes) -> Named:
    return _named_by(key, version, without_correlation(key, version, rest))


def _named_by(key: int, version: int, frame: bytes) -> Named:
    known = _paths(key, version)
    at = request_head(frame).body
    if known is None:
        return _NOTHING
    reader, paths, (topics, groups, transactions), (own_topics, indices) = known
    spans = reader.project(paths)(frame, at) if paths else {}
    # a partition's index is declared behind its topic
    starts = sorted((start, value) for path in own_topics for value, start, _ in spans.get(path, ()))
    places = tuple(
        ([name for where, name in starts if where < start][-1], value)
        for path in indices
        for value, start, _ in spans.get(path, ())
    )
    return Named(_names(spans, topics), _names(spans, groups), _names(spans, transactions), places)


# where names stand in a request, all together and by mark; topics that have partitions, and the indices of these
_Paths = tuple[Codec, tuple[str, ...], tuple[tuple[str, ...], ...], tuple[tuple[str, ...], tuple[str, ...]]]


@cache
def _paths(key: int, version: int) -> _Paths | None:
    reader = codec("request", key, version)
    if reader is None:
        return None
    marks = [
        marked("request", key, version, *each)
        for each in (("topic_name", "topic_id"), ("group_id",), ("transactional_id",))
    ]
    topics: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    if key in _NUMBERS_PARTITIONS:
        paths = marked("request", key, version, "topic_name", "topic_id", "partition")
        *of_topics, index = (path for path in paths if not path.startswith(FORGOTTEN))
        topics, indices = tuple(of_topics), (index,)
    wanted = tuple(dict.fromkeys(path for each in (*marks, indices) for path in each))
    return reader, wanted, tuple(marks), (topics, indices)


def _names(spans: Any, paths: tuple[str, ...]) -> frozenset[Any]:
    """The names at some paths. None, an empty one and an id of zeros are none."""
    values = (value for path in paths for found, _, _ in spans.get(path, ()) for value in _each(found))
    return frozenset(value for value in values if value and (isinstance(value, str) or any(value)))


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
