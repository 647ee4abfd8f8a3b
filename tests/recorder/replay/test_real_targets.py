"""Tests of real targets under special conditions: logins and TLS, moving leaders, Ctrl-C, other limits, gaps."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from proxy.wire import decode_response, encode_request
from proxy.wire.framing import framed
from proxy.wire.keys import END_TXN, LIST_TRANSACTIONS, SASL_AUTHENTICATE
from tests.brokers.kafka import PASSWORD, TAPPED_HOST, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.clients.harness import PROGRAM
from tests.clients.tap import Tap
from tests.clients.workloads import confluent, exactly_once, logins
from tests.recorder.replay import brokers_logs
from tests.recorder.replay.real import (
    Recording,
    check_as_recorded,
    folders_of,
    record,
    replay,
)

pytestmark = [pytest.mark.real, pytest.mark.long]

# the share of its records that the target has when Ctrl-C comes
STOPS = [0.01, 0.1, 0.25, 0.4, 0.6, 0.8, 0.95]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("target") / "kafka") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def copies(kafka_one: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Transactions and groups, for some seconds."""
    folder = tmp_path_factory.mktemp("recording")
    return record(kafka_one, folder, lambda cluster, bootstrap: exactly_once.confluent_copies(bootstrap))


def test_a_target_with_tls_and_logins_has_what_the_recorded_one_had_and_what_was_kept_plays_again(
    kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "brokers")
    secured = {
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,TAPPED:PLAINTEXT,LOGIN:SASL_SSL,QUORUM:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.signs("broker", TAPPED_HOST.format(1)).path,
    }
    (tmp_path / "password").write_text(PASSWORD)
    settings = tmp_path / "replay.toml"
    login = f'[login."*"]\nmechanism = "PLAIN"\nusername = "{USER}"\npassword_file = "password"\n'
    settings.write_text(f'[tls]\nca = "{authority.path}"\n{login}')
    recording = record(
        kafka_one, tmp_path / "recording", lambda cluster, bootstrap: confluent.keeps_its_transactions(bootstrap)
    )
    kept = tmp_path / "kept"
    with (
        KafkaCluster(1, folder=tmp_path / "kafka", settings=secured) as cluster,
        Tap(cluster.tap_routes, tmp_path / "tap"),
    ):
        secure = ["--speed", "max", "--settings", str(settings)]
        replayed = replay(recording, cluster.login_bootstrap, tmp_path, *secure, "--record", str(kept))
        check_as_recorded(recording, replayed, cluster.bootstrap, folders_of(cluster))
        assert PASSWORD.encode() not in b"".join(file.read_bytes() for file in kept.rglob("*.parquet"))
        again = replace(recording, capture=kept)
        twice = replay(again, cluster.login_bootstrap, tmp_path, *secure, "--prefix", "again-", "--onto-recorded")
        assert twice.code == 0, twice.printed
        assert not twice.report["differences"], twice.printed
        assert twice.report["totals"]["sent"] >= replayed.report["totals"]["sent"]


def test_a_target_whose_users_log_in_by_scram_has_what_the_recorded_one_had(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path
) -> None:
    (tmp_path / "right").write_text(logins.SCRAM_PASSWORD)
    (tmp_path / "wrong").write_text(PASSWORD)

    def settings(mechanism: str, password: str) -> list[str]:
        path = tmp_path / f"{mechanism}-{password}.toml"
        told = f'mechanism = "{mechanism}"\nusername = "{logins.SCRAM_USER}"\npassword_file = "{password}"\n'
        path.write_text(f'[login."*"]\n{told}')
        return ["--speed", "max", "--settings", str(path)]

    recording = record(
        kafka_one, tmp_path / "recording", lambda cluster, bootstrap: confluent.keeps_its_transactions(bootstrap)
    )
    with Tap(target.tap_routes, tmp_path / "tap"):
        logins.makes_a_user(target, target.login_bootstrap)
        to = target.login_bootstrap
        replayed = replay(recording, to, tmp_path, *settings(logins.SCRAM_512, "right"))
        check_as_recorded(recording, replayed, target.bootstrap, folders_of(target))
        again = replay(recording, to, tmp_path, *settings(logins.SCRAM_256, "right"), "--prefix", "again-")
        assert again.code == 0, again.printed
        assert again.report["totals"]["sent"] == replayed.report["totals"]["sent"]
        command = [*PROGRAM, "replay", str(recording.capture), "--to", to, *settings(logins.SCRAM_256, "wrong")]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert refused.returncode == 2
    assert "can't be reached" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_target_that_wants_its_users_to_log_in_again_has_what_the_recorded_one_had(
    kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """A broker ends a connection that sends a request two seconds after its login: none of the replay's does."""
    settings = tmp_path / "replay.toml"
    settings.write_text(f'[login."*"]\nmechanism = "PLAIN"\nusername = "{USER}"\npassword = "{PASSWORD}"\n')
    recording = record(
        kafka_one, tmp_path / "recording", lambda cluster, bootstrap: exactly_once.confluent_copies(bootstrap)
    )
    kept = tmp_path / "kept"
    strict = {"connections.max.reauth.ms": 2000}
    with (
        KafkaCluster(1, folder=tmp_path / "kafka", settings=strict) as cluster,
        Tap(cluster.tap_routes, tmp_path / "tap"),
    ):
        # slower than recorded: its connections live for several logins
        slowly = ["--speed", "0.3", "--settings", str(settings), "--record", str(kept)]
        replayed = replay(recording, cluster.login_bootstrap, tmp_path, *slowly)
        check_as_recorded(recording, replayed, cluster.bootstrap, folders_of(cluster))
    requests, answers = frames_of(kept, "request"), frames_of(kept, "response")
    assert requests == answers
    logins = Counter(connection for connection, _, api_key in requests if api_key == SASL_AUTHENTICATE)
    assert max(logins.values()) > 2


def frames_of(capture: Path, kind: str) -> set[tuple[int, int, int]]:
    """Returns connection, exchange and API of all requests or responses."""
    tables = [pq.read_table(file, partitioning=None) for file in capture.glob("frames/**/*.parquet")]
    chosen = [table.filter(pc.equal(table["kind"], kind)) for table in tables]
    rows = [row for table in chosen for row in table.select(["connection", "exchange", "api_key"]).to_pylist()]
    return {(row["connection"], row["exchange"], row["api_key"]) for row in rows}


def test_leaders_that_move_meanwhile_cost_no_record(
    copies: Recording, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with (
        KafkaCluster(3, folder=tmp_path_factory.mktemp("target") / "kafka") as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        playing = pool.submit(replay, copies, cluster.bootstrap, tmp_path, "--speed", "0.1")
        places = sorted(copies.logs)
        # an earlier query for a topic's leader would create the topic
        wait_for(lambda: playing.done() or places_of(cluster) >= {*places}, "the topics")
        moves = 0
        while not playing.done():
            place = places[moves % len(places)]
            cluster.move_leader(*place, to_node=1 + cluster.leader(*place) % 3)
            moves += 1
        assert moves, playing.result().printed
        check_as_recorded(copies, playing.result(), cluster.bootstrap, folders_of(cluster))


@pytest.mark.parametrize("share", STOPS)
def test_ctrl_c_leaves_no_transaction_open_and_no_member(
    copies: Recording, target: KafkaCluster, tmp_path: Path, share: float
) -> None:
    prefix, report = f"stop-{uuid.uuid4().hex[:8]}-", tmp_path / "report.json"
    wanted = share * sum(map(len, copies.logs.values()))
    options = ["--create-topics", "--yes", "--prefix", prefix, "--report", str(report)]
    command = [*PROGRAM, "replay", str(copies.capture), "--to", target.bootstrap, *options]
    with (
        (tmp_path / "printed").open("wb") as printed,
        subprocess.Popen(command, stdout=printed, stderr=printed) as playing,
    ):
        wait_for(lambda: written(target, prefix) >= wanted or playing.poll() is not None, "records")
        os.kill(playing.pid, signal.SIGINT)
        assert playing.wait(PATIENCE) == 1, (tmp_path / "printed").read_text()
    found = json.loads(report.read_text())
    assert found["ending"] == "interrupted"
    assert found["left_open"] == []
    groups = {name: group for name, group in brokers_logs.groups(target.bootstrap).items() if name.startswith(prefix)}
    assert {group.state for group in groups.values()} <= {"EMPTY"}, groups
    # markers follow a moment after the response to EndTxn
    wait_for(lambda: not [each for each in unfinished(target) if each.startswith(prefix)], "transactions to end")


def places_of(cluster: KafkaCluster) -> set[tuple[str, int]]:
    return {*brokers_logs.logs(folders_of(cluster))}


def written(cluster: KafkaCluster, prefix: str) -> int:
    logs = brokers_logs.logs(folders_of(cluster))
    return sum(len(log) for (topic, _), log in logs.items() if topic.startswith(prefix))


def unfinished(cluster: KafkaCluster) -> list[str]:
    """Returns the transactional ids with a transaction that is open, or still ending."""
    states = ["Ongoing", "PrepareCommit", "PrepareAbort"]
    values = {"state_filters": states, "producer_id_filters": []}
    node = cluster.nodes[1].direct
    with socket.create_connection((node.host, node.port)) as connection:
        connection.sendall(framed(encode_request(LIST_TRANSACTIONS, 0, 1, "test", values)))
        with connection.makefile("rb") as answers:
            frame = answers.read(int.from_bytes(answers.read(4), "big"))
    decoded = decode_response(frame, LIST_TRANSACTIONS, 0)
    assert isinstance(decoded, tuple)
    return [each["transactional_id"] for each in decoded[1]["transaction_states"]]


def test_batches_that_only_the_recorded_cluster_refused_for_their_size_lose_no_other_record(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path
) -> None:
    """The producer goes on with another epoch and the same sequences: the target knows these with other bytes."""
    topic = f"small-{uuid.uuid4().hex[:8]}"
    refused: list[object] = []

    def work(cluster: KafkaCluster, bootstrap: str) -> None:
        # replays create topics with the cluster's default limits
        new = NewTopic(topic, 1, config={"max.message.bytes": "20000"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([new])[topic].result()
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        for number in range(60):
            value = bytes(50_000) if number % 10 == 5 else b"%d" % number
            producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
            producer.flush()

    recording = record(kafka_one, tmp_path / "recording", work)
    assert len(refused) == 6
    replayed = replay(recording, target.bootstrap, tmp_path, "--speed", "max")
    assert replayed.code == 0, replayed.printed
    there = [entry.content[1] for entry in brokers_logs.logs(folders_of(target))[topic, 0]]
    here = [entry.content[1] for entry in recording.logs[topic, 0]]
    assert len(here) == 54
    assert [value for value in there if value != bytes(50_000)] == here
    assert there.count(bytes(50_000)) == 6


def test_batches_that_only_the_target_refuses_for_their_size_cost_no_other_record(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path
) -> None:
    topic = f"large-{uuid.uuid4().hex[:8]}"

    def work(cluster: KafkaCluster, bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        for number in range(60):
            producer.produce(topic, bytes(50_000) if number % 10 == 5 else b"%d" % number)
            producer.flush()

    recording = record(kafka_one, tmp_path / "recording", work)
    new = NewTopic(topic, 1, config={"max.message.bytes": "20000"})
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_topics([new])[topic].result()
    replayed = replay(recording, target.bootstrap, tmp_path, "--speed", "max")
    assert replayed.code == 1
    assert replayed.report["apis"]["Produce"]["mismatches"] == {"error": 6}
    there = [entry.content[1] for entry in brokers_logs.logs(folders_of(target))[topic, 0]]
    assert there == [entry.content[1] for entry in recording.logs[topic, 0] if entry.content[1] != bytes(50_000)]


def test_behind_a_gap_inside_a_transaction_readers_of_committed_records_get_on(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path
) -> None:
    recording = record(
        kafka_one, tmp_path / "recording", lambda cluster, bootstrap: confluent.keeps_its_transactions(bootstrap)
    )
    assert forget(recording.capture, END_TXN, every=2)
    replayed = replay(recording, target.bootstrap, tmp_path, "--speed", "max", "--partial", "100")
    assert replayed.report["left_open"] == []
    for place in recording.logs:
        wait_for(partial(is_stable, target, place), "the stable part of the log to reach its end")
    check_no_record_is_missing(recording, target)


def forget(capture: Path, api_key: int, *, every: int) -> int:
    """Removes each n-th exchange of an API from a capture. Returns the number of frames."""
    gone = 0
    for file in capture.glob("frames/**/*.parquet"):
        table = pq.read_table(file, partitioning=None)
        is_api = pc.fill_null(pc.equal(table["api_key"], api_key), False)
        lost = {*sorted({*_numbers(table.filter(is_api))})[::every]}
        kept = [number not in lost for number in _numbers(table)]
        gone += len(kept) - sum(kept)
        pq.write_table(table.filter(pa.array(kept)), file)
    return gone


def _numbers(table: pa.Table) -> list[tuple[int, int]]:
    """Returns connection and exchange of each row."""
    return [*zip(table["connection"].to_pylist(), table["exchange"].to_pylist(), strict=True)]


def is_stable(cluster: KafkaCluster, place: tuple[str, int]) -> bool:
    return end_of(cluster, place, "read_committed") == end_of(cluster, place, "read_uncommitted")


def end_of(cluster: KafkaCluster, place: tuple[str, int], isolation: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "isolation.level": isolation})
    try:
        return consumer.get_watermark_offsets(TopicPartition(*place), timeout=30)[1]
    finally:
        consumer.close()


def check_no_record_is_missing(recording: Recording, target: KafkaCluster) -> None:
    there = brokers_logs.logs(folders_of(target))
    for place, log in recording.logs.items():
        assert sorted(map(repr, (entry.content for entry in there[place]))) == sorted(
            map(repr, (entry.content for entry in log))
        )
