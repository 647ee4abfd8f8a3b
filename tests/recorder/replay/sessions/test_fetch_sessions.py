"""Tests of fetch sessions: random histories played to nodes with sessions of their own, and each rule alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import FETCH
from proxy.wire.records import Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.plan import Exchange, Peer, Reason, Resend, Values, Withheld
from recorder.replay.sessions.fetch_sessions import LARGEST_EPOCH, FetchSessions, epoch_after
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, Broker, Place, exchange, names, passed

PLACES = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
BY_ID = 13
BY_NAME = 11


def named(place: Place, version: int) -> Values:
    return {"topic_id": TOPIC_IDS[place[0]]} if version >= BY_ID else {"topic": place[0]}


def fetch(
    session: int,
    epoch: int,
    version: int,
    asked: dict[Place, int],
    forgotten: list[Place] | None = None,
) -> Values:
    """A Fetch of partitions from these offsets on."""
    values: Values = {"max_wait_ms": 1, "min_bytes": 1, "isolation_level": 0, "rack_id": ""}
    values |= {"session_id": session, "session_epoch": epoch}
    values["topics"] = [
        {**named(place, version), "partitions": [{"partition": place[1], "fetch_offset": at, "partition_max_bytes": 9}]}
        for place, at in asked.items()
    ]
    values["forgotten_topics_data"] = [{**named(place, version), "partitions": [place[1]]} for place in forgotten or ()]
    return values


def told(answer: Values) -> dict[Any, Values]:
    """Returns a response's partitions."""
    return {
        (topic.get("topic", topic.get("topic_id")), each["partition_index"]): each
        for topic in answer["responses"]
        for each in topic["partitions"]
    }


@dataclass
class Consumer:
    """A client with a fetch session, like Java's: it names partitions that moved, and forgets those that it left."""

    broker: Broker
    version: int
    session: int = 0
    epoch: int = 0
    at: dict[Place, int] = field(default_factory=dict)
    known: dict[Place, int] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    read: dict[Place, list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def poll(self) -> None:
        """One Fetch of the assigned partitions."""
        if self.epoch:
            moved = {place: at for place, at in self.at.items() if self.known.get(place) != at}
            gone = [place for place in self.known if place not in self.at]
        else:
            moved, gone = dict(self.at), []
        values = fetch(self.session, self.epoch, self.version, moved, gone)
        number = len(self.exchanges)
        request = exchange(number, FETCH, self.version, values, None).decoded()
        answer = {"throttle_time_ms": 0, **self.broker.answer(FETCH, self.version, request)}
        self.exchanges.append(exchange(number, FETCH, self.version, values, answer, node=1))
        self.known = dict(self.at)
        self.session = answer["session_id"]
        self.epoch = self.epoch + 1 if self.session else 0
        names_of = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
        for (topic, index), each in told(answer).items():
            place = names_of.get(topic, topic), index
            for batch in records.batches(each["records"] or b""):
                self.at[place] = batch.last_offset + 1

    def close(self) -> None:
        """Ends the session."""
        if self.session:
            number = len(self.exchanges)
            values = fetch(self.session, -1, self.version, {})
            answer = {"throttle_time_ms": 0, **self.broker.answer(FETCH, self.version, values)}
            self.exchanges.append(exchange(number, FETCH, self.version, values, answer, node=1))
            self.session = self.epoch = 0


class Target:
    """Nodes with one log, and the engine's part for Fetch: it translates, splits by leader, joins responses."""

    def __init__(
        self, nodes: int, first_offset: int, has_sessions: bool, starts: dict[Place, int] | None = None
    ) -> None:
        topics = {topic_id: name for name, topic_id in TARGET_IDS.items()}
        self.nodes = [
            Broker(
                first_offset=first_offset,
                topics=topics,
                has_sessions=has_sessions,
                session_ids=lambda number, node=node: 1000 * (node + 1) + number,  # type: ignore[misc]
            )
            for node in range(nodes)
        ]
        for each in self.nodes[1:]:
            each.log, each.ends = self.nodes[0].log, self.nodes[0].ends
        self.names = names("", Cluster())
        self.sessions = FetchSessions(lambda key, version: version)
        first = dict.fromkeys(PLACES, 0)
        self.offsets = Offsets(
            self.names, dict.fromkeys(PLACES, first_offset), dict.fromkeys(PLACES, first_offset), first
        )
        self.read: dict[Place, list[bytes]] = defaultdict(list)
        self.again = 0
        self.sent: list[Values] = []

    def play(self, each: Exchange) -> Withheld | None:
        """Plays one exchange."""
        for _ in range(3):
            values = each.decoded()
            for room in (self.sessions, self.offsets):
                refused = room.request(each, values, 0)
                if refused is not None:
                    room.lost(each, None)
                    assert isinstance(refused, Withheld)
                    return refused
            values["topics"] = [self.rename(topic) for topic in values["topics"]]
            if not self.round(each, values):
                return None
            self.again += 1
        raise AssertionError("no end of sending again")

    def rename(self, topic: Values) -> Values:
        found = topic.get("topic_id")
        return topic | {"topic_id": self.names.target_id(found)} if found else topic

    def round(self, each: Exchange, values: Values) -> bool:
        """Sends the parts; returns True if they are sent again."""
        parts = self.parts(each, values)
        written = {node: self.sessions.for_node(each, node, part) for node, part in parts.items()}
        for room in (self.sessions, self.offsets):
            room.sent(each, values, 0)
        responses: list[Values] = []
        for node, part in written.items():
            self.sent.append(part)
            request = exchange(0, FETCH, each.version, part, None).decoded()
            answer = passed(
                FETCH, each.version, {"throttle_time_ms": 0, **self.nodes[node].answer(FETCH, each.version, request)}
            )
            answer = self.sessions.answered_by(each, node, part, answer)
            responses += answer["responses"]
        joined = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": responses}
        found = [room.answered(each, values, joined, 0) for room in (self.sessions, self.offsets)]
        if any(isinstance(one, Resend) for one in found):
            return True
        self.keep(joined)
        return False

    def parts(self, each: Exchange, values: Values) -> dict[int, Values]:
        split: dict[int, list[Values]] = defaultdict(list)
        for topic in values["topics"]:
            for one in topic["partitions"]:
                split[one["partition"] % len(self.nodes)].append(topic | {"partitions": [one]})
        nodes = split or dict.fromkeys(self.sessions.nodes(each.connection) or [0])
        return {node: values | {"topics": split.get(node, [])} for node in nodes}

    def keep(self, answer: Values) -> None:
        for (topic, index), each in told(answer).items():
            assert not each["error_code"]
            name = self.names.recorded_topic(topic)
            assert name is not None
            self.read[name, index] += [record.value or b"" for record in records.read(each["records"] or b"")]


@given(
    st.integers(0, 10**9),
    st.sampled_from([BY_NAME, BY_ID]),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 0, 3]),
)
def test_nodes_take_what_is_made_of_any_recorded_session_and_the_consumer_reads_the_same(
    seed: int, version: int, nodes: int, had_sessions: bool, has_sessions: bool, losses: int
) -> None:
    random = Random(seed)
    source = Broker(topics={topic_id: name for name, topic_id in TOPIC_IDS.items()}, has_sessions=had_sessions)
    target = Target(nodes, 700, has_sessions)
    consumer = Consumer(source, version)
    written = 0
    for _ in range(30):
        step = random.choice(["write", "write", "poll", "poll", "poll", "assign", "leave", "close"])
        place = random.choice(PLACES)
        if step == "write":
            data = write_batch([Record(n, 5, None, b"%d" % (written + n)) for n in range(random.randint(1, 3))])
            written += 3
            for broker in (source, target.nodes[0]):
                broker.write(place, data, next(iter(records.batches(data))).count or 0)
        elif step == "assign":
            consumer.at.setdefault(place, 0)
        elif step == "leave" and len(consumer.at) > 1:
            consumer.at.pop(place, None)
        elif step == "close":
            consumer.close()
        else:
            consumer.poll()
        if losses and random.randrange(losses * 3) == 0:
            # the target forgets a session, as after a restart
            target.nodes[random.randrange(nodes)].sessions.clear()
        for each in consumer.exchanges:
            refused = target.play(each)
            assert refused is None or (refused.reason is Reason.NO_SESSION and not has_sessions)
        consumer.exchanges.clear()
        if not losses:
            assert not target.again
    for place in consumer.at:
        expected = [
            r.value for base, data in source.log[place] if base < consumer.at[place] for r in records.read(data)
        ]
        assert target.read[place][-len(expected) :] == expected or not expected


BEGINS, ENDS = 0, -1


def recorded(
    number: int,
    session: int,
    epoch: int,
    asked: dict[Place, int],
    forgotten: list[Place] | None = None,
    *,
    given: int = 77,
    data: dict[Place, bytes] | None = None,
    version: int = BY_NAME,
    connection: int = 1,
    code: int = 0,
) -> Exchange:
    """A recorded Fetch and its response."""
    responses = [
        {
            **named(place, version),
            "partitions": [{"partition_index": place[1], "error_code": 0, "high_watermark": 9, "records": found}],
        }
        for place, found in (data or {}).items()
    ]
    for each in responses:
        each["partitions"][0] |= {"last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None}
        each["partitions"][0] |= {"preferred_read_replica": -1}
    answer = {"throttle_time_ms": 0, "error_code": code, "session_id": given, "responses": responses}
    values = fetch(session, epoch, version, asked, forgotten)
    return exchange(number, FETCH, version, values, answer, connection=connection, node=1)


def asked_of(values: Values) -> set[Place]:
    return {(topic["topic"], each["partition"]) for topic in values["topics"] for each in topic["partitions"]}


A0, A1, B0 = PLACES[:3]


def test_a_request_names_all_partitions_of_the_recorded_session_and_a_part_what_changed_in_the_replays() -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0, A1: 0}))
    target.play(recorded(1, 77, 1, {B0: 0}, [A1]))
    first, second = target.sent
    assert (first["session_id"], first["session_epoch"], asked_of(first)) == (0, 0, {A0, A1})
    assert (second["session_id"], second["session_epoch"], asked_of(second)) == (1001, 1, {B0})
    assert second["forgotten_topics_data"] == [{"topic": "a", "partitions": [1]}]


def test_a_partition_that_moved_on_the_target_alone_is_named_again() -> None:
    target = Target(1, 0, True)
    data = write_batch([Record(0, 5, None, b"1")])
    target.nodes[0].write(A0, data, 1)
    target.play(recorded(0, 0, BEGINS, {A0: 0}))
    target.play(recorded(1, 77, 1, {}))
    assert target.read[A0] == [b"1"]
    assert [each["topics"][0]["partitions"][0]["fetch_offset"] for each in target.sent] == [0, 1]


def test_a_session_whose_beginning_is_missing_has_what_its_requests_name_or_data_came_from() -> None:
    target = Target(1, 0, True)
    data = write_batch([Record(5, 5, None, b"1")])
    target.play(recorded(0, 77, 8, {A0: 3}, data={B0: data}))
    target.play(recorded(1, 77, 9, {}))
    assert [asked_of(each) for each in target.sent] == [{A0, B0}, set()]
    assert [each["session_epoch"] for each in target.sent] == [0, 1]


def test_a_client_that_connects_anew_continues_with_its_session() -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0, A1: 0}))
    target.play(recorded(1, 77, 1, {}))
    target.play(recorded(2, 77, 2, {}, connection=2))
    assert asked_of(target.sent[2]) == {A0, A1}


@pytest.mark.parametrize("code", [70, 71, 106])
def test_a_session_that_the_target_does_not_know_begins_anew(code: int) -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0}))
    each = recorded(1, 77, 1, {})
    values = each.decoded()
    assert target.sessions.request(each, values, 0) is None
    part = target.sessions.for_node(each, 0, values)
    target.sessions.sent(each, values, 0)
    answer = {"error_code": code, "session_id": 0, "responses": []}
    assert target.sessions.answered_by(each, 0, part, answer) == answer
    assert isinstance(target.sessions.answered(each, values, answer, 0), Resend)
    values = each.decoded()
    assert target.sessions.request(each, values, 0) is None
    part = target.sessions.for_node(each, 0, values)
    assert (part["session_id"], part["session_epoch"], asked_of(part)) == (0, 0, {A0})
    # a second time is a mismatch: a new session can't be unknown
    target.sessions.sent(each, values, 0)
    target.sessions.answered_by(each, 0, part, answer)
    assert target.sessions.answered(each, values, answer, 0) is None


def test_an_error_that_ended_the_recorded_session_too_is_not_sent_again() -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0}))
    target.nodes[0].sessions.clear()
    target.play(recorded(1, 77, 1, {}, code=70, given=0))
    assert not target.again


def test_a_prepared_fetch_that_was_not_sent_changes_no_session() -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0}))
    each = recorded(1, 77, 1, {A1: 0})
    for _ in range(3):
        values = each.decoded()
        target.sessions.request(each, values, 0)
        part = target.sessions.for_node(each, 0, values)
        assert (part["session_epoch"], asked_of(part)) == (1, {A1})


def test_with_its_connection_a_session_is_gone() -> None:
    target = Target(2, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0, A1: 0}))
    assert target.sessions.nodes(("s", 1)) == [0, 1]
    target.sessions.closed(("s", 1), 1)
    target.play(recorded(1, 77, 1, {}))
    assert [each["session_epoch"] for each in target.sent[2:]] == [1, 0]
    target.sessions.closed(("s", 1))
    assert target.sessions.nodes(("s", 1)) == []


def test_a_request_whose_answer_never_came_leaves_no_session() -> None:
    target = Target(1, 0, True)
    each = recorded(0, 0, BEGINS, {A0: 0})
    target.play(each)
    lost = recorded(1, 77, 1, {})
    values = lost.decoded()
    target.sessions.request(lost, values, 0)
    target.sessions.for_node(lost, 0, values)
    target.sessions.sent(lost, values, 0)
    target.sessions.lost(lost, values)
    assert target.sessions.nodes(("s", 1)) == []


def test_a_session_is_closed_where_it_is_open_and_withheld_where_none_is() -> None:
    target = Target(2, 0, True)
    close = recorded(1, 77, ENDS, {}, given=0)
    assert target.play(close) == Withheld(Reason.NO_SESSION)
    target.play(recorded(2, 0, BEGINS, {A0: 0, A1: 0}))
    assert target.play(recorded(3, 77, ENDS, {}, given=0)) is None
    assert [each["session_epoch"] for each in target.sent[2:]] == [-1, -1]
    assert not any(node.sessions for node in target.nodes)


def test_a_whole_answer_to_an_incremental_request_is_reduced_to_changes() -> None:
    target = Target(1, 0, False)
    target.nodes[0].write(A0, write_batch([Record(0, 5, None, b"1")]), 1)
    target.play(recorded(0, 0, BEGINS, {B0: 0}))
    each = recorded(1, 77, 1, {A0: 0})
    values = each.decoded()
    target.sessions.request(each, values, 0)
    part = target.sessions.for_node(each, 0, values)
    assert asked_of(part) == {A0, B0}
    target.sessions.sent(each, values, 0)
    answer = target.nodes[0].answer(FETCH, BY_NAME, part)
    assert [*told(answer)] == [B0, A0]
    assert [*told(target.sessions.answered_by(each, 0, part, answer))] == [A0]


def test_before_sessions_and_without_one_requests_stay_as_they_are() -> None:
    sessions = FetchSessions(lambda key, version: 6)
    each = recorded(0, 0, BEGINS, {A0: 0})
    values = each.decoded()
    sessions.request(each, values, 0)
    part = sessions.for_node(each, 0, values)
    assert (part["session_id"], part["session_epoch"], asked_of(part)) == (0, -1, {A0})


def test_behind_the_largest_epoch_they_begin_at_one() -> None:
    assert epoch_after(LARGEST_EPOCH) == 1
    assert epoch_after(0) == 1


def test_peers_with_the_same_session_id_have_sessions_of_their_own() -> None:
    target = Target(1, 0, True)
    target.play(recorded(0, 0, BEGINS, {A0: 0}))
    target.play(recorded(1, 77, 1, {}))
    stranger = recorded(2, 77, 2, {}, connection=2)
    stranger.peer = Peer("host", "stranger")
    target.play(stranger)
    assert asked_of(target.sent[2]) == set()
