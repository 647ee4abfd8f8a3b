"""Tests that a replay writes nothing where its capture was recorded, whichever way leads there."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy import ips
from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
)
from recorder.capture.compactor import compact
from recorder.capture.frames import frames_schema
from recorder.capture.session import RecordSettings
from recorder.capture.spool import decode_head
from recorder.capture.tap import open_tap
from recorder.replay.choice import Choice
from recorder.replay.options import Options
from recorder.replay.plan import Values
from recorder.replay.player import guard
from recorder.replay.player.run import Job, run
from recorder.replay.recorded_clusters import RecordedClusters, recorded_clusters
from recorder.replay.refused import Refused
from recorder.replay.stream import RequestRecorded, happenings
from tests.recorder.replay.captures import SESSION, Row, event, request, response, write
from tests.recorder.replay.player.kafka_node import NOT_LEADER, OFFERS, TOPIC, Node
from tests.recorder.replay.simple import batch, produce, produced

OTHER_SESSION = "20261121T130000Z-def"
COMMIT = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "topics": [
        {
            "name": TOPIC,
            "partitions": [
                {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
            ],
        }
    ],
}
COMMITTED = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": 0}]}]}
SECOND = 10**9


def frames(connection: int = 1, **columns: Any) -> list[Row]:
    """Two Produces, a commit, and a Produce."""
    rows = []
    for number in range(4):
        of = OFFSET_COMMIT, 7, COMMIT, COMMITTED
        if number != 2:
            of = PRODUCE, 9, produce(topic=TOPIC), produced(base=number, topic=TOPIC)
        key, version, asked, answer = of
        rows.append(request(2 * number, connection, number, key, version, asked, **columns))
        rows.append(response(2 * number + 1, connection, number, key, version, answer, **columns))
    return rows


def known_by(*ids: str, upstreams: Sequence[str] = (), listeners: Sequence[str] = (), **columns: Any) -> Row:
    detail = {"ids": ids, "upstreams": upstreams, "listeners": listeners}
    return event(9, None, "cluster", detail=json.dumps(detail), **columns)


@pytest.fixture
def started() -> Iterator[Callable[[Node], Node]]:
    """Starts a node, which ends with the test."""
    with ExitStack() as stack:
        yield lambda node: stack.enter_context(node.running())


@pytest.fixture
def recorded(started: Callable[[Node], Node]) -> Node:
    """A node of the recorded cluster. Nothing may be written to it."""
    return started(Node("recorded"))


@pytest.fixture
def job(tmp_path: Path, recorded: Node) -> Callable[..., Any]:
    """Makes a job of a capture of `recorded`, by default one without Metadata whose events tell everything."""

    def made(
        to: Node | str,
        *,
        rows: list[Row] | None = None,
        events: list[Row] | None = None,
        yes: bool = True,
        dry_run: bool = False,
        sessions: tuple[str, ...] = (),
        cluster: str | None = None,
        **options: Any,
    ) -> Job:
        told = [known_by("recorded", upstreams=(f"127.0.0.1:{recorded.port}",))] if events is None else events
        capture = write(tmp_path / "capture", frames() if rows is None else rows, told)
        given = Options(**({"speed": None, "wait": 10 * SECOND, "drain": 0} | options))
        host, port = (to.host, to.port) if isinstance(to, Node) else (to.rpartition(":")[0], int(to.rpartition(":")[2]))
        return Job(
            capture, ((host, port),), given, Choice(given), sessions, cluster, dry_run=dry_run, yes=yes, partial=100
        )

    return made


def ending(job: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """Plays to where the replay ends itself; returns why."""
    assert run(job) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "a connection led where nothing may be written" in told
    return told


def refusal(job: Any) -> str:
    with pytest.raises(Refused) as refused:
        run(job)
    return refused.value.message


def test_another_cluster_gets_all_that_was_recorded(
    job: Callable[..., Any], started: Callable[[Node], Node], recorded: Node
) -> None:
    target = started(Node())
    assert run(job(target)) == 0
    assert (target.asked["Produce"], target.asked["OffsetCommit"], *recorded.asked) == (3, 1)


@pytest.mark.real
@pytest.mark.parametrize("dry_run", [False, True], ids=["played", "dry run"])
def test_another_way_to_the_recorded_cluster_is_refused_by_its_id(
    job: Callable[..., Any], started: Callable[[Node], Node], dry_run: bool
) -> None:
    # another proxy before it, or the broker's second listener
    way = started(Node("recorded"))
    for options in ({}, {"same_address": True}, {"target_is_another": True}, {"create_topics": True}):
        told = refusal(job(way, dry_run=dry_run, **options))
        assert told.startswith("the target is the recorded cluster (cluster recorded): right would be another cluster")
    assert not way.written


@pytest.mark.real
def test_the_recorded_cluster_is_played_to_only_if_that_is_asked_for(job: Callable[..., Any], recorded: Node) -> None:
    assert run(job(recorded, onto_recorded=True)) == 0
    assert recorded.asked["Produce"] == 3


@pytest.mark.parametrize(
    "spelled",
    ["localhost", "LOCALHOST", "127.0.0.1", "127.1", "0", "::ffff:127.0.0.1", "127.0.0.2"],
)
@pytest.mark.parametrize("is_node", [False, True], ids=["bootstrap", "node"])
def test_a_recorded_address_is_refused_however_it_is_spelled(
    job: Callable[..., Any], started: Callable[[Node], Node], spelled: str, is_node: bool
) -> None:
    there = started(Node("target", host="0.0.0.0"))
    events = [known_by("recorded", upstreams=(f"127.0.0.1:{there.port}",))]
    to: Node | str = f"{spelled}:{there.port}"
    if is_node:
        to = started(Node("target"))
        to.nodes = {1: (spelled, there.port)}
    told = refusal(job(to, events=events))
    assert told.startswith("the target is the recorded cluster (")
    assert told.endswith("an address of the recording): right would be another cluster, or --same-address")
    assert not there.asked


@pytest.mark.parametrize("listener", ["0.0.0.0", "[::]", "*", "127.0.0.1", "localhost", "LocalHost."])
def test_a_listener_of_the_recording_is_refused_at_each_of_its_addresses(
    job: Callable[..., Any], started: Callable[[Node], Node], listener: str
) -> None:
    proxy = started(Node("target", host="0.0.0.0"))
    told = refusal(
        job(f"127.0.0.1:{proxy.port}", events=[known_by("recorded", listeners=(f"{listener}:{proxy.port}",))])
    )
    assert "an address of the recording" in told
    assert not proxy.asked


def test_an_address_of_this_machine_is_each_of_them(job: Callable[..., Any], started: Callable[[Node], Node]) -> None:
    there = started(Node("target", host="0.0.0.0"))
    events = [known_by("recorded", upstreams=(f"127.0.0.1:{there.port}",))]
    # in some containers loopback's alone
    for here in (address for address in ips.of_this_machine() if address.version == 4):
        assert "an address of the recording" in refusal(job(f"{here}:{there.port}", events=events))
    assert not there.asked


def test_an_equal_address_is_allowed_alone_and_an_equal_id_is_not(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    events = [known_by("recorded", listeners=(f"127.0.0.1:{target.port}",))]
    assert run(job(target, events=events, same_address=True)) == 0
    assert target.asked["Produce"] == 3
    target.cluster_id, target.asked = "recorded", type(target.asked)()
    assert "(cluster recorded)" in refusal(job(target, events=events, same_address=True))
    assert not target.written


@pytest.mark.real
@pytest.mark.parametrize("id_of_node", ["recorded", "a third", None])
@pytest.mark.parametrize("way", ["leader", "coordinator", "metadata"])
def test_a_node_that_appears_while_playing_gets_nothing_unless_it_is_of_the_target(
    job: Callable[..., Any],
    started: Callable[[Node], Node],
    capsys: pytest.CaptureFixture[str],
    id_of_node: str | None,
    way: str,
) -> None:
    target, other = started(Node("target")), started(Node(id_of_node))
    other.nodes = target.nodes = {1: (target.host, target.port)}

    def move() -> int:
        if way == "coordinator":
            target.coordinator = 2, other.host, other.port
            return 0
        target.nodes = {1: (target.host, target.port), 2: (other.host, other.port)}
        target.leader = 2 if way == "leader" else 1
        if way == "metadata":
            # the same node, elsewhere from now on
            target.nodes = {1: (other.host, other.port)}
            target.hang_up = True
        return NOT_LEADER

    target.on_produce = move
    ending(job(target), capsys)
    assert not other.written


@pytest.mark.real
@pytest.mark.parametrize("way", ["leader", "coordinator"])
def test_a_recorded_address_that_appears_while_playing_is_sent_not_a_byte(
    job: Callable[..., Any],
    started: Callable[[Node], Node],
    capsys: pytest.CaptureFixture[str],
    recorded: Node,
    way: str,
) -> None:
    target = started(Node("target"))

    def move() -> int:
        target.coordinator = 2, "localhost", recorded.port
        if way == "leader":
            target.nodes = {1: (target.host, target.port), 2: ("localhost", recorded.port)}
            target.leader = 2
        return NOT_LEADER if way == "leader" else 0

    target.on_produce = move
    assert f"localhost:{recorded.port} leads to 127.0.0.1:{recorded.port}, an address" in ending(job(target), capsys)
    assert not recorded.asked


@pytest.mark.real
def test_a_reconnect_that_leads_elsewhere_gets_nothing(
    job: Callable[..., Any], started: Callable[[Node], Node], capsys: pytest.CaptureFixture[str]
) -> None:
    target = started(Node("target", hang_up=True))

    written: list[str] = []

    def noted() -> int:
        written.append("Produce")
        return 0

    def repoint() -> int:
        target.cluster_id, target.on_produce = "recorded", noted
        return 0

    target.on_produce = repoint
    assert "(cluster recorded)" in ending(job(target), capsys)
    assert not written
    assert not target.asked["OffsetCommit"]


@pytest.mark.real
def test_a_name_that_leads_elsewhere_later_gets_nothing(
    job: Callable[..., Any],
    started: Callable[[Node], Node],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = started(Node("target", host="127.0.0.2", hang_up=True))
    there = started(Node("recorded", host="127.0.0.3", port=target.port))
    target.nodes = {1: ("moving.test", target.port)}
    look_up, now = socket.getaddrinfo, ["127.0.0.2"]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **more: look_up(*now if host == "moving.test" else [host], *rest, **more),
    )

    def move() -> int:
        now[:] = ["127.0.0.3"]
        return 0

    target.on_produce = move
    assert "(cluster recorded)" in ending(job(f"moving.test:{target.port}", same_address=True), capsys)
    assert (target.asked["Produce"], *there.written) == (1,)


def test_no_topic_is_made_before_all_nodes_are_known_to_be_the_targets(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target, other = started(Node("target")), started(Node("recorded"))
    target.nodes = {1: (target.host, target.port), 2: (other.host, other.port)}
    assert "(cluster recorded)" in refusal(job(target, create_topics=True))
    assert not target.written | other.written


NO_ID = "the recording has no cluster id"
METADATA_ANSWER = {
    "brokers": [{"node_id": 1, "host": "kafka.test", "port": 9092}],
    "cluster_id": "recorded",
    "topics": [],
}


def old(**columns: Any) -> list[Row]:
    """The frames of a capture of an earlier version, with Metadata."""
    asked = {"topics": None}
    told = [request(8, 2, 0, METADATA, 9, asked, **columns), response(9, 2, 0, METADATA, 9, METADATA_ANSWER, **columns)]
    return [*frames(**columns), *told]


@pytest.mark.real
@pytest.mark.parametrize(
    ("told", "unsaid"),
    [
        (Node("target"), (NO_ID,)),
        (Node(None), (NO_ID, "the target has no cluster id")),
        (Node("target", newest={METADATA: 1}), (NO_ID, "the target has no cluster id")),
    ],
    ids=["the capture", "null", "a version without ids"],
)
def test_where_an_id_is_missing_only_the_users_word_counts(
    job: Callable[..., Any], started: Callable[[Node], Node], told: Node, unsaid: tuple[str, ...]
) -> None:
    target = started(told)
    for options in ({}, {"same_address": True}, {"dry_run": True}, {"yes": False}):
        found = refusal(job(target, events=[], **options))
        assert all(each in found for each in unsaid)
        assert "right would be --target-is-another" in found
    assert not target.written | target.made
    assert run(job(target, events=[], target_is_another=True)) == 0
    assert target.asked["Produce"] == 3


@pytest.mark.parametrize("events", [None, []], ids=["events", "metadata"])
def test_a_target_without_an_id_is_asked_about(
    job: Callable[..., Any], started: Callable[[Node], Node], events: list[Row] | None
) -> None:
    target = started(Node(None))
    found = refusal(job(target, rows=old() if events == [] else None, events=events))
    assert found.startswith("the target has no cluster id, so the target may be the recorded cluster")
    assert not target.written


@pytest.mark.real
def test_people_are_asked_and_yes_does_not_answer_for_them(
    job: Callable[..., Any], started: Callable[[Node], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, asked = started(Node("target")), list[str]()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def answer(is_another: bool) -> None:
        def confirm(text: str, **_: Any) -> None:
            asked.append(text)
            if not is_another:
                raise click.Abort

        monkeypatch.setattr(click, "confirm", confirm)

    answer(False)
    with pytest.raises(click.Abort):
        run(job(target, events=[], yes=True))
    assert not target.written
    answer(True)
    assert run(job(target, events=[], yes=True)) == 0
    assert len(asked) == 2
    assert all(f"{NO_ID} (session {SESSION})" in text and text.endswith("Is it another cluster?") for text in asked)


def test_a_session_that_tells_no_id_is_asked_about_beside_one_that_does(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    rows = [*frames(), *frames(session=OTHER_SESSION)]
    assert f"{NO_ID} (session {OTHER_SESSION})" in refusal(job(target, rows=rows))
    assert not target.written


def test_an_unplayed_sessions_cluster_is_refused(job: Callable[..., Any], started: Callable[[Node], Node]) -> None:
    target = started(Node("target"))
    rows = [*frames(), *frames(session=OTHER_SESSION)]
    events = [known_by("recorded"), known_by("target", session=OTHER_SESSION)]
    told = refusal(job(target, rows=rows, events=events, sessions=(SESSION,)))
    assert f"(cluster target, of session {OTHER_SESSION}, which is not played)" in told
    assert told.endswith("--onto-recorded, which alone allows an equal id, even one that two clusters were given")


@pytest.mark.parametrize("is_old", [False, True], ids=["events", "metadata"])
def test_a_cluster_that_is_not_played_is_refused(
    job: Callable[..., Any], started: Callable[[Node], Node], is_old: bool
) -> None:
    target = started(Node("recorded"))
    rows = [*frames(cluster="one", session=OTHER_SESSION), *(old if is_old else frames)(cluster="two")]
    events = [known_by("first", cluster="one", session=OTHER_SESSION)]
    events += [] if is_old else [known_by("recorded", cluster="two")]
    told = refusal(job(target, rows=rows, events=events, cluster="one"))
    assert f"(cluster recorded, of session {SESSION}, which is not played)" in told
    assert not target.written


def test_an_id_of_one_cluster_is_not_taken_for_anothers(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    rows = [*frames(cluster="one"), *[each | {"connection": 2} for each in frames(cluster="two")]]
    events = [known_by("first", cluster="two")]
    assert NO_ID in refusal(job(target, rows=rows, events=events, cluster="one"))


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "opened", "connection": 1, "detail": '{{"upstream": "{0}", "listener": "x:1"}}'},
        {"kind": "opened", "connection": 1, "detail": '{{"upstream": "x:1", "listener": "{0}"}}'},
        {"kind": "node", "connection": None, "detail": '{{"node_id": 1, "upstream": "{0}", "listener": "x:1"}}'},
        {"kind": "node", "connection": None, "detail": '{{"node_id": 1, "upstream": "unknown", "listener": "{0}"}}'},
        None,
    ],
    ids=["dialled", "arrived at", "node", "node's listener", "frames alone"],
)
def test_a_capture_of_earlier_versions_tells_addresses(
    job: Callable[..., Any], started: Callable[[Node], Node], told: Mapping[str, Any] | None
) -> None:
    target = started(Node("target", host="0.0.0.0"))
    events = []
    rows = frames()
    if told is None:
        rows = frames(listener=f"0.0.0.0:{target.port}")
    else:
        detail = told["detail"].format(f"127.0.0.1:{target.port}")
        events = [event(1, told["connection"], told["kind"], detail=detail)]
    found = refusal(job(f"localhost:{target.port}", rows=rows, events=events, target_is_another=True))
    assert "an address of the recording" in found
    assert not target.asked


def test_brokers_that_recorded_metadata_names_are_addresses_of_the_recording(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    broker = {"node_id": 1, "host": "localhost", "port": target.port}
    answer = {"brokers": [broker], "cluster_id": "recorded", "topics": []}
    rows = [*frames(), request(8, 2, 0, METADATA, 9, {"topics": None}), response(9, 2, 0, METADATA, 9, answer)]
    assert "an address of the recording" in refusal(job(target, rows=rows, events=[]))
    assert not target.asked


def test_a_session_of_kafka_0_7_has_no_id_and_is_asked_about(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    nameless = {"api_key": 0, "api": "0.7/produce", "api_version": None, "dialect": "kafka-0.7"}
    old_dialect = [each | nameless for each in frames(session=OTHER_SESSION)]
    assert f"{NO_ID} (session {OTHER_SESSION})" in refusal(job(target, rows=[*frames(), *old_dialect]))


@pytest.mark.real
@pytest.mark.parametrize("metadata", [0, 1, 3, 9])
def test_a_dry_run_makes_no_topic_by_asking(
    job: Callable[..., Any], started: Callable[[Node], Node], metadata: int
) -> None:
    target = started(Node("target", newest={METADATA: metadata}))
    for options in ({}, {"prefix": "new-"}, {"prefix": "new-", "create_topics": True}):
        run(job(target, dry_run=True, target_is_another=True, **options))
        assert not target.made
    assert not target.asked["FindCoordinator"]


def test_what_a_dry_run_may_ask_it_asks(job: Callable[..., Any], started: Callable[[Node], Node]) -> None:
    target = started(Node("target", has_groups=True))
    assert run(job(target, dry_run=True)) == 0
    assert target.asked["FindCoordinator"]
    assert not target.made


def test_nothing_is_made_before_people_have_said_yes(
    job: Callable[..., Any], started: Callable[[Node], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = started(Node("target", newest={METADATA: 3}))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    made = list[set[str]]()
    monkeypatch.setattr(click, "confirm", lambda *_, **__: made.append({*target.made}))
    assert run(job(target, yes=False)) == 0
    assert made == [set()]
    assert target.made == {"__consumer_offsets"}


def test_an_old_target_makes_no_topic_that_it_lacks(job: Callable[..., Any], started: Callable[[Node], Node]) -> None:
    target = started(Node("target", newest={METADATA: 3}))
    assert "the target lacks 1 topic (new-orders" in refusal(job(target, prefix="new-"))
    assert "new-orders" not in target.made


def test_an_id_that_a_connection_tells_later_is_looked_at_before_the_replay(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("recorded", told_ids=("target",)))
    assert "(cluster recorded)" in refusal(job(target, create_topics=True))
    assert not target.written


@pytest.mark.real
@pytest.mark.parametrize("then", ["recorded", "a third", None])
def test_an_id_that_a_connection_tells_later_ends_the_replay_at_once(
    job: Callable[..., Any], started: Callable[[Node], Node], capsys: pytest.CaptureFixture[str], then: str | None
) -> None:
    target = started(Node("target"))

    def turn() -> int:
        target.cluster_id = then
        # the replay asks for the leader, on this connection or the next
        return NOT_LEADER

    target.on_produce = turn
    told = ending(job(target), capsys)
    assert ("(cluster recorded)" if then == "recorded" else "is a node of") in told
    assert not target.asked["OffsetCommit"]
    # at most one for each connection, and none again
    assert target.asked["Produce"] <= 2


class Transactions(Node):
    """A node that takes one transaction. Once it has the Produce, it tells new connections the recorded id."""

    def values_of(self, key: int) -> dict[str, Any]:
        if key == INIT_PRODUCER_ID:
            return {"error_code": 0, "producer_id": 77, "producer_epoch": 0}
        if key == ADD_PARTITIONS_TO_TXN:
            partition = {"partition_index": 0, "partition_error_code": 0}
            return {"results_by_topic_v3_and_below": [{"name": TOPIC, "results_by_partition": [partition]}]}
        return {"error_code": 0} if key == END_TXN else super().values_of(key)


@pytest.mark.real
def test_no_transaction_ends_at_an_address_where_a_new_connection_was_refused(
    job: Callable[..., Any],
    started: Callable[[Node], Node],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for key, newest in ((INIT_PRODUCER_ID, 4), (ADD_PARTITIONS_TO_TXN, 3), (END_TXN, 3)):
        monkeypatch.setitem(OFFERS, key, newest)
    begun = {"transactional_id": "tx", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    of_tx = {"v3_and_below_transactional_id": "tx", "v3_and_below_producer_id": 5, "v3_and_below_producer_epoch": 0}
    topics = [{"name": TOPIC, "partitions": [0]}]
    added = {"name": TOPIC, "results_by_partition": [{"partition_index": 0, "partition_error_code": 0}]}
    data = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0)
    talk: list[tuple[int, int, Values, Values]] = [
        (INIT_PRODUCER_ID, 4, begun, {"error_code": 0, "producer_id": 5, "producer_epoch": 0}),
        (
            ADD_PARTITIONS_TO_TXN,
            3,
            {**of_tx, "v3_and_below_topics": topics},
            {"results_by_topic_v3_and_below": [added]},
        ),
        (PRODUCE, 9, produce(topic=TOPIC, data=data) | {"transactional_id": "tx"}, produced(topic=TOPIC)),
    ]
    rows = []
    for number, (key, version, asked, answer) in enumerate(talk):
        rows.append(request(2 * number, 1, number, key, version, asked))
        rows.append(response(2 * number + 1, 1, number, key, version, answer))
    # a connection that is dialled once the Produce is answered
    rows.append(request(2 * SECOND, 2, 0, PRODUCE, 9, produce(topic=TOPIC)))
    rows.append(response(2 * SECOND + 1, 2, 0, PRODUCE, 9, produced(base=1, topic=TOPIC)))
    target = started(Transactions("target"))

    def moved() -> int:
        if target.asked["Produce"] > 1:
            target.cluster_id = "recorded"
            return 0
        # the replay asks for the leader on a connection of its own, where it would also end the transaction
        return NOT_LEADER

    target.on_produce = moved
    assert "(cluster recorded)" in ending(job(target, rows=rows, speed=1), capsys)
    assert (target.asked["Produce"], target.asked["EndTxn"]) == (2, 0)


def test_an_unplayed_session_of_an_earlier_version_tells_its_id_and_addresses(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("recorded"))
    rows = [*frames(), *old(session=OTHER_SESSION)]
    told = refusal(job(target, rows=rows, events=[known_by("mine")], sessions=(SESSION,)))
    assert f"(cluster recorded, of session {OTHER_SESSION}, which is not played)" in told
    rows[-1] = broker_at(target, session=OTHER_SESSION)
    told = refusal(job(target, rows=rows, events=[known_by("mine")], sessions=(SESSION,)))
    assert f"an address of the recording, of session {OTHER_SESSION}, which is not played)" in told
    assert not target.written


def broker_at(node: Node, **columns: Any) -> Row:
    answer = {"brokers": [{"node_id": 1, "host": node.host, "port": node.port}], "cluster_id": "first", "topics": []}
    return response(9, 2, 0, METADATA, 9, answer, **columns)


@pytest.mark.parametrize("way", ["session", "cluster"])
def test_what_is_not_played_and_tells_no_id_is_asked_about(
    job: Callable[..., Any], started: Callable[[Node], Node], way: str
) -> None:
    target = started(Node("target"))
    if way == "session":
        rows, chosen = [*frames(), *frames(session=OTHER_SESSION)], {"sessions": (SESSION,)}
        assert f"{NO_ID} (session {OTHER_SESSION})" in refusal(job(target, rows=rows, **chosen))
    else:
        rows = [*frames(cluster="one"), *[each | {"connection": 2} for each in frames(cluster="two")]]
        events = [known_by("first", cluster="one"), known_by(cluster="two", upstreams=("192.0.2.1:9092",))]
        assert NO_ID in refusal(job(target, rows=rows, events=events, cluster="one"))
    assert not target.written


@pytest.mark.parametrize("kind", ["events", "frames"])
def test_what_a_damaged_file_of_an_unplayed_session_may_tell_is_asked_about(
    job: Callable[..., Any], started: Callable[[Node], Node], kind: str
) -> None:
    target = started(Node("target"))
    rows = [*frames(), *frames(session=OTHER_SESSION)]
    events = [known_by("mine"), known_by("recorded", session=OTHER_SESSION)]
    damaged = job(target, rows=rows, events=events, sessions=(SESSION,))
    (file,) = damaged.folder.glob(f"{kind}/*/*/{OTHER_SESSION}*")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = refusal(damaged)
    assert found.startswith(f"what session {OTHER_SESSION} tells of its cluster can't be read, so the target may be")
    assert found.endswith("right would be --target-is-another, if it is another one")
    assert not target.written


def test_an_hour_whose_events_are_missing_is_asked_about(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target = started(Node("target"))
    played = job(target)
    later = played.folder / "frames" / "date=2026-11-21" / "hour=13"
    later.mkdir()
    rows = [each | {"connection": 5} for each in frames()]
    pq.write_table(pa.Table.from_pylist(rows, frames_schema()), later / f"{SESSION}-2-2.parquet")
    assert f"{NO_ID} (session {SESSION})" in refusal(played)
    assert not target.written


@pytest.mark.parametrize("named", ["frames", "events"])
def test_a_row_without_a_clusters_name_is_of_the_sessions_only_cluster(
    job: Callable[..., Any], started: Callable[[Node], Node], named: str
) -> None:
    target = started(Node("target"))
    nameless: dict[str, Any] = {"cluster": None}
    rows, known = frames(**({} if named == "frames" else nameless)), {} if named == "events" else nameless
    assert run(job(target, rows=rows, events=[known_by("recorded", **known)], dry_run=True)) == 0


@pytest.mark.parametrize("key", [FETCH, PRODUCE])
def test_endpoints_in_recorded_answers_are_addresses_of_the_recording(
    job: Callable[..., Any], started: Callable[[Node], Node], key: int
) -> None:
    target = started(Node("target"))
    endpoints = {"node_endpoints": [{"node_id": 1, "host": "localhost", "port": target.port, "rack": None}]}
    if key == PRODUCE:
        told = request(8, 2, 0, key, 10, produce(topic=TOPIC)), response(9, 2, 0, key, 10, produced() | endpoints)
    else:
        asked = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
        answer = {"error_code": 0, "session_id": 0, "responses": []} | endpoints
        told = request(8, 2, 0, key, 16, asked), response(9, 2, 0, key, 16, answer)
    assert "an address of the recording" in refusal(job(target, rows=[*frames(), *told], events=[]))
    assert not target.asked


@pytest.mark.parametrize("ids", [[], ["other"], ["target"]], ids=["no id", "another", "the target's"])
def test_a_session_that_is_not_compacted_yet_counts(
    job: Callable[..., Any], started: Callable[[Node], Node], ids: list[str]
) -> None:
    target = started(Node("target"))
    played = job(target, dry_run=True)
    tap = open_tap(played.folder, RecordSettings())
    try:
        tap.identified("main", ids=ids, listeners=["192.0.2.1:9092"])
    finally:
        tap.close()
    if ids == ["other"]:
        assert run(played) == 0
    else:
        found = refusal(played)
        assert (f"(cluster target, of session {tap.session}" if ids else f"{NO_ID} (session {tap.session})") in found
    assert not target.written


def test_each_cluster_of_a_session_that_is_not_compacted_yet_counts(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    played = job(started(Node("target")), dry_run=True)
    tap = open_tap(played.folder, RecordSettings())
    try:
        tap.identified("one", ids=["other"], listeners=["192.0.2.1:9092"])
        tap.identified("two", listeners=["192.0.2.1:9093"])
    finally:
        tap.close()
    assert f"{NO_ID} (session {tap.session})" in refusal(played)


@pytest.mark.parametrize(
    "detail",
    [None, "", "[1]", '{"ids": ["sec', '{"ids": "second", "upstreams": [], "listeners": []}', '{"ids": [2]}', "{}"],
)
def test_an_event_of_a_cluster_that_cannot_be_read_may_hide_its_id(job: Callable[..., Any], detail: str | None) -> None:
    told = [known_by("first", upstreams=("192.0.2.1:9092",)), event(9, None, "cluster", detail=detail)]
    assert recorded_clusters(job("127.0.0.1:1", events=told).folder).unreadable == {SESSION}


def test_a_later_segment_that_tells_no_id_is_of_an_unknown_cluster(job: Callable[..., Any]) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    write(folder, frames(connection=2), [known_by(listeners=("192.0.2.1:9092",))], segment=2)
    assert recorded_clusters(folder).without_id == [SESSION]


@pytest.mark.parametrize("error", [0, 129])
def test_an_id_counts_whatever_error_stands_beside_it(error: int) -> None:
    known = RecordedClusters(ids={("s", None): {"recorded"}})
    with pytest.raises(guard.Forbidden, match="cluster recorded"):
        guard.Guard(known).check_answer("h", 1, METADATA, {"cluster_id": "recorded", "error_code": error})
    # a node that refuses to tell an id has told none
    guard.Guard(known).check_answer("h", 1, METADATA, {"cluster_id": "", "error_code": 129})


def damaged(log: Path, what: bytes) -> None:
    """Flips a bit of the last entry that holds `what`."""
    content = bytearray(log.read_bytes())
    content[content.rindex(what)] ^= 1
    log.write_bytes(content)


@pytest.mark.parametrize("behind", [0, 1], ids=["at its end", "within"])
def test_a_damaged_log_may_have_told_another_cluster(job: Callable[..., Any], behind: int) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    tap = open_tap(folder, RecordSettings(), OTHER_SESSION)
    tap.identified("main", ids=["second"])
    tap.flush()
    tap.identified("main", ids=["third"])
    if behind:
        tap.identified("main", ids=["fourth"])
    tap.flush()
    (log,) = (folder / "_spool" / OTHER_SESSION).glob("*.log")
    assert recorded_clusters(folder).unreadable == set()
    kept = log.read_bytes()
    damaged(log, b"third")
    found = recorded_clusters(folder)
    assert (found.unreadable, bool(found.sessions_of("fourth"))) == ({OTHER_SESSION}, bool(behind))
    log.write_bytes(kept)
    # a write that is on its way is no damage
    log.write_bytes(kept[:-1])
    assert recorded_clusters(folder).unreadable == set()
    log.write_bytes(kept)
    tap.close()


def test_a_log_that_was_damaged_before_it_was_compacted_may_have_told_another_cluster(
    job: Callable[..., Any],
) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    tap = open_tap(folder, RecordSettings(), OTHER_SESSION)
    tap.identified("main", ids=["second"])
    tap.flush()
    tap.identified("main", ids=["third"])
    tap.close()
    (log,) = (folder / "_spool" / OTHER_SESSION).glob("*.log")
    damaged(log, b"third")
    assert compact(folder).damaged
    assert recorded_clusters(folder).unreadable == {OTHER_SESSION}


def test_an_id_that_is_longer_than_a_capture_keeps_is_known_by_its_beginning(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    name = "x" * 1025
    target = started(Node(name))
    assert refusal(job(target, events=[known_by(name[:1024])])).startswith("the target is the recorded cluster")
    assert refusal(job(target, events=[known_by(name)])).startswith("the target is the recorded cluster")


def test_a_row_without_a_clusters_name_is_of_any_of_them(job: Callable[..., Any]) -> None:
    told = [known_by("first", cluster="one"), known_by(upstreams=("192.0.2.1:9092",), cluster="two")]
    assert recorded_clusters(job("127.0.0.1:1", rows=frames(cluster=None), events=told).folder).without_id == [SESSION]


def test_brokers_that_told_no_id_may_be_of_another_cluster_than_those_that_did(job: Callable[..., Any]) -> None:
    assert recorded_clusters(job("127.0.0.1:1", events=[known_by("first")]).folder).without_id == []
    assert recorded_clusters(job("127.0.0.1:1", events=[known_by("first", "")]).folder).without_id == [SESSION]


def test_a_spool_that_is_a_link_is_refused_in_a_sentence(job: Callable[..., Any], tmp_path: Path) -> None:
    played = job("127.0.0.1:1", events=[known_by("first")])
    (played.folder / "_spool").symlink_to(tmp_path)
    assert refusal(played) == f"{played.folder / '_spool'} is a symbolic link, not a folder"


def test_a_node_that_is_down_is_no_reason_to_refuse(job: Callable[..., Any], started: Callable[[Node], Node]) -> None:
    target = started(Node("target"))
    with socket.socket() as free:
        # bound, but nobody listens
        free.bind(("127.0.0.1", 0))
        target.nodes = {1: (target.host, target.port), 2: free.getsockname()}
        assert run(job(target, dry_run=True)) == 0


def test_a_node_without_an_id_beside_one_with_an_id_is_told_in_whole_sentences(
    job: Callable[..., Any], started: Callable[[Node], Node]
) -> None:
    target, other = started(Node(None)), started(Node("other"))
    target.nodes = {1: (target.host, target.port), 2: (other.host, other.port)}
    told = refusal(job(target, target_is_another=True))
    assert told.startswith(
        f"{other.host}:{other.port} is a node of cluster other, the target is a cluster without an id: right would be"
    )


@pytest.mark.real
@pytest.mark.parametrize(("session", "segment"), [(OTHER_SESSION, 1), (SESSION, 2)], ids=["a session", "a part of one"])
def test_what_arrives_behind_the_check_is_not_played(
    job: Callable[..., Any],
    started: Callable[[Node], Node],
    monkeypatch: pytest.MonkeyPatch,
    session: str,
    segment: int,
) -> None:
    target = started(Node("second"))
    # a session that reaches later times, so that times alone keep nothing out
    later = [row | {"session": "20261121T140000Z-ghi", "at_ns": row["at_ns"] + SECOND} for row in frames()]
    played = job(
        target, rows=[*frames(), *later], events=[known_by("first"), known_by("first", session=later[0]["session"])]
    )
    check = guard.Guard.look_up

    async def arrives(self: guard.Guard) -> None:
        told = [known_by("first", "second", session=session)]
        write(played.folder, frames(session=session, connection=9), told, segment=segment)
        await check(self)

    monkeypatch.setattr(guard.Guard, "look_up", arrives)
    assert run(played) == 0
    assert target.asked["Produce"] == 6


def test_files_that_were_merged_behind_the_check_are_played(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    for segment in (1, 2):
        write(folder, frames(connection=segment), [known_by("first")], segment=segment)
    before = recorded_clusters(folder).listing
    shutil.rmtree(folder)
    rows = [*frames(connection=1), *frames(connection=2)]
    for file in (*write(folder, rows, [known_by("first")]).glob("*/*/*/*.parquet"),):
        file.rename(file.with_name(f"{SESSION}-1-2.parquet"))
    asked = [one for one in happenings(folder, listing=before) if isinstance(one, RequestRecorded)]
    assert len(asked) == len(rows) // 2
    for file in folder.glob("frames/*/*/*.parquet"):
        file.rename(file.with_name(f"{SESSION}-1-3.parquet"))
    assert [*happenings(folder, listing=before)] == []


def test_a_segment_without_its_inventory_may_have_told_another_cluster(job: Callable[..., Any]) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    tap = open_tap(folder, RecordSettings(), OTHER_SESSION)
    tap.close()
    (log,) = (folder / "_spool" / OTHER_SESSION).glob("*.log")
    content = log.read_bytes()
    begin = decode_head(content).begin
    for kept in (content[:begin], content[: begin + 20], content[:begin] + bytes(len(content) - begin)):
        log.write_bytes(kept)
        assert recorded_clusters(folder).unreadable == {OTHER_SESSION}


def test_what_was_recorded_before_the_id_was_known_is_of_the_cluster_that_told_it(
    job: Callable[..., Any],
) -> None:
    folder = job("127.0.0.1:1", events=[known_by(listeners=("192.0.2.1:9092",))]).folder
    assert recorded_clusters(folder).without_id == [SESSION]
    write(folder, frames(connection=2), [known_by("first")], segment=2)
    assert recorded_clusters(folder).without_id == []


def test_an_hour_without_the_events_in_its_middle_has_no_id(job: Callable[..., Any]) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    (of_events,) = folder.glob("events/*/*/*.parquet")
    (of_frames,) = folder.glob("frames/*/*/*.parquet")
    for number in (2, 3):
        shutil.copy(of_frames, of_frames.with_name(f"{SESSION}-{number}-{number}.parquet"))
    assert recorded_clusters(folder).without_id == [SESSION]
    shutil.copy(of_events, of_events.with_name(f"{SESSION}-3-3.parquet"))
    assert recorded_clusters(folder).without_id == [SESSION]
    shutil.copy(of_events, of_events.with_name(f"{SESSION}-2-2.parquet"))
    assert recorded_clusters(folder).without_id == []


def test_a_session_that_is_a_link_may_hide_a_cluster(job: Callable[..., Any], tmp_path: Path) -> None:
    folder = job("127.0.0.1:1", events=[known_by("first")]).folder
    (folder / "_spool").mkdir()
    (folder / "_spool" / OTHER_SESSION).symlink_to(tmp_path)
    assert recorded_clusters(folder).unreadable == {OTHER_SESSION}
