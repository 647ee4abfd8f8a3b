"""Adds the records of Fetches to the streams, and polls at the end for records that the target still owes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

from proxy.wire.errors import WireError
from proxy.wire.keys import FETCH
from proxy.wire.places import NO_ID, Partition
from proxy.wire.primitives import Buffer
from recorder.replay import partitions
from recorder.replay.cluster import Cluster
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.consumers.readers import Consumer
from recorder.replay.consumers.records import Streams, count_from
from recorder.replay.messages import batches
from recorder.replay.names import Names
from recorder.replay.outcome import Stream
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Exchange, MadeRequest, Origin, ToLeader, Values
from recorder.replay.translator import Translator

Named = Callable[[str | bytes], str | None]
PURPOSE = "reads the rest of what the recording had read"
_COMMITTED = 1
# the limits of Kafka's own consumers
_MAX_BYTES, _WAIT_MS = 50 << 20, 500


class FetchedRecords(Translator):
    """Adds the records of one replay's Fetches to the streams. `offsets` tells consumers apart."""

    def __init__(
        self,
        names: Names,
        cluster: Cluster,
        offsets: Offsets,
        streams: Streams,
        is_from_before: Callable[[tuple[str, int]], bool] = lambda connection: False,
    ) -> None:
        """`is_from_before`: recorded connection -> True if its fetch session began before the recording."""
        self._is_from_before = is_from_before
        self._names, self._cluster, self._offsets, self._streams = names, cluster, offsets, streams
        self._asked: dict[Origin, dict[TopicPartition, int]] = {}
        self._isolation: dict[tuple[Hashable, str, int], int] = {}

    # translator, which changes nothing

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room looks at."""
        return api_key == FETCH

    def request(self, exchange: Exchange, values: Values, now: int) -> None:
        """Remembers the recorded offsets that a Fetch asks for. `values`: all of its session, in recorded terms."""
        if exchange.api_key == FETCH:
            asked = _named(partitions.in_request(FETCH, values), self._names.topic)
            self._asked[exchange.origin] = {(name, one.partition): one.values["fetch_offset"] for name, one in asked}

    def owes(self, exchange: Exchange) -> bool:
        """True if a poll may wait for records that the recording has given its consumer, this answer's too."""
        asked = self._asked.get(exchange.origin, {})
        given = {
            (name, one.partition): one.values.get("records") or b""
            for name, one in self._told(exchange.answer or {}, self._names.topic)
        }
        owed = {
            place: count_from(max(at, self._streams.first(*place)), given.get(place, b""))
            for place, at in asked.items()
        }
        return any(self._streams.lacks(self._consumer(exchange, place), *place, more) for place, more in owed.items())

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Adds the records of both answers. `values`: as sent, of the whole session."""
        if exchange.api_key != FETCH:
            return
        recorded = self._asked.pop(exchange.origin, {})
        for name, one in self._told(exchange.answer or {}, self._names.topic):
            place = name, one.partition
            data = one.values.get("records")
            if data and place not in recorded:
                self._begin_unasked(exchange, place, data, recorded)
            if data and place in recorded:
                self._streams.add_recorded(self._consumer(exchange, place), *place, data, recorded[place])
        isolation = values.get("isolation_level", 0)
        sent = {(name, one.partition): one.values["fetch_offset"] for name, one in self._asked_of_target(values)}
        has_waited = not answer.get("error_code")
        for name, one in self._told(answer, self._recorded):
            place = name, one.partition
            has_waited &= not (one.values["error_code"] or one.values.get("records"))
            if place in sent and not one.values["error_code"]:
                consumer, data = self._consumer(exchange, place), one.values.get("records") or b""
                self._isolation[consumer, name, one.partition] = isolation
                end, begins_at = _end(one.values, isolation), self._offsets.begins_at(exchange.origin, place)
                self._streams.add_replayed(consumer, *place, data, sent[place], end, begins_at)
        # answers of a session that began before the recording need not name each partition once
        for place in recorded if self._is_from_before(exchange.connection) else ():
            asked_at = self._offsets.asked_at(exchange.origin, place)
            if asked_at is not None:
                self._streams.asked(self._consumer(exchange, place), *place, asked_at)
        if has_waited:
            for place in recorded:
                self._streams.waited(self._consumer(exchange, place), *place)

    def _begin_unasked(
        self, exchange: Exchange, place: TopicPartition, data: Buffer, recorded: dict[TopicPartition, int]
    ) -> None:
        """A consumer reads a partition of a fetch session that began before the recording."""
        with suppress(WireError):
            begins = next((batch.base_offset for batch in batches(data)), None)
            if begins is not None:
                recorded[place] = begins
                self._offsets.begin_unasked(exchange, place, begins)

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The target owes the records of the recorded answer."""
        recorded = self._asked.pop(exchange.origin, {})
        for name, one in self._told(exchange.answer or {}, self._names.topic) if recorded else ():
            place = name, one.partition
            if one.values.get("records") and place in recorded:
                self._streams.add_recorded(
                    self._consumer(exchange, place), *place, one.values["records"], recorded[place]
                )

    def _consumer(self, exchange: Exchange, place: TopicPartition) -> Consumer:
        return self._offsets.consumer(exchange.origin, place) or Consumer(exchange.peer, 0)

    def _told(self, answer: Values, named: Named) -> list[tuple[str, Partition]]:
        return _named(partitions.in_answer(FETCH, answer), named)

    def _asked_of_target(self, values: Values) -> list[tuple[str, Partition]]:
        return _named(partitions.in_request(FETCH, values), self._recorded)

    def _recorded(self, topic: str | bytes) -> str | None:
        """The recorded name of a topic of the target."""
        name = self._cluster.topic_names.get(topic) if isinstance(topic, bytes) else topic
        return None if name is None else self._names.recorded_topic(name)

    def owed(self) -> list[MadeRequest]:
        """Fetches of records that are owed, where the target's next offset is known."""
        return [self._more(*key, owed.at) for key, owed in self._streams.owing() if owed.at is not None]

    def _more(self, consumer: Hashable, topic: str, partition: int, at: int) -> MadeRequest:
        name = self._names.target_topic(topic)
        isolation = self._isolation.get((consumer, topic, partition), 0)
        wanted = {"partition": partition, "fetch_offset": at, "partition_max_bytes": _MAX_BYTES}
        wanted |= {"current_leader_epoch": -1, "log_start_offset": -1}
        values = {
            "max_wait_ms": _WAIT_MS,
            "min_bytes": 1,
            "max_bytes": _MAX_BYTES,
            "isolation_level": isolation,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {"topic": name, "topic_id": self._cluster.topic_ids.get(name, NO_ID), "partitions": [wanted]},
            ],
        }

        def done(answer: Values | None) -> None:
            for one in partitions.in_answer(FETCH, answer or {}):
                data, end = one.values.get("records") or b"", _end(one.values, isolation)
                if not one.values["error_code"]:
                    self._streams.add_replayed(consumer, topic, partition, data, at, end)

        return MadeRequest(FETCH, values, ToLeader(name, partition), PURPOSE, done)


def _named(found: list[Partition], name: Named) -> list[tuple[str, Partition]]:
    """Partitions with the recorded names of their topics, without those of unknown ids."""
    named = [(name(one.topic), one) for one in found]
    return [(topic, one) for topic, one in named if topic is not None]


def stream_results(streams: Streams, *, is_whole: bool = True) -> list[Stream]:
    """Counts of records, by peer and partition.

    Args:
        is_whole: the replay was played to its end; else records that the target lacks might have come, and are unread.
    """
    found: dict[tuple[str, str, int], list[int]] = {}
    for one in streams.counts():
        missing, unread = (one.missing, one.unread) if is_whole else (0, one.missing + one.unread)
        counts = one.equal, missing, one.extra, one.reordered, unread, one.before
        key = str(counted_as(one.consumer)), one.topic, one.partition
        found[key] = [*map(sum, zip(found.get(key, [0] * len(counts)), counts, strict=True))]
    return [Stream(*key, *each) for key, each in found.items()]


def counted_as(consumer: Hashable) -> Hashable:
    """The name under which a report counts a consumer's records: readers of one peer count together."""
    return consumer.peer if isinstance(consumer, Consumer) else consumer


def _end(partition: Values, isolation: int) -> int:
    """The end of the log for a reader of this isolation level."""
    stable: int = partition.get("last_stable_offset", -1)
    high: int = partition["high_watermark"]
    return stable if isolation == _COMMITTED and stable >= 0 else high
