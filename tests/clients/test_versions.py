"""Tests of brokers from 0.8 to the newest, with clients of their time and with today's that still support them.

In addition to `harness.proxied`, the catalog reads each frame and writes it again byte for byte, its records are found
in the format of its time, and no frame was opaque.

Some pairs don't work even without a proxy: Kafka's own clients require 2.1 since 4.0; aiokafka needs ApiVersions, which
brokers have since 0.10, and sends 0.10 the records of 0.11. Of 4.4.0 Maven Central has the broker and the clients, but
not the tools.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.wire import catalog, records
from proxy.wire.headers import request_head, response_head
from proxy.wire.keys import CONTROLLED_SHUTDOWN, FETCH, LEADER_AND_ISR, PRODUCE, UPDATE_METADATA
from tests.brokers.jars import VERSION
from tests.brokers.kafka import KafkaCluster
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients.checks import captured_connections, decoded, decoded_request
from tests.clients.harness import proxied
from tests.clients.streams import Conversation
from tests.clients.workloads import CODECS, round_trip
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

BEFORE_ZSTD = ("none", "gzip", "snappy", "lz4")
NEWEST = "4.4.0"
WITHOUT_ZOOKEEPER = (VERSION, NEWEST)

# today's clients; a release stands for Kafka's own Java clients of it
PYTHON = ("librdkafka", "kafka_python", "aiokafka")
TODAY = (*PYTHON, VERSION)
TALK = {
    "0.8.2.2": ("own", *PYTHON[:2]),
    "0.10.2.2": ("own", *PYTHON[:2]),
    "0.11.0.3": ("own", *PYTHON),
    "2.8.2": ("own", *TODAY),
    "3.9.2": ("own", *TODAY),
    VERSION: ("own", *PYTHON),
    NEWEST: ("own", *TODAY),
}
# Differs most from the release of all other tests. The releases between differ in the format of records, or in their
# setup.
OLDEST = "0.8.2.2"
# Java clients older or newer than the broker; those before 2.1 support brokers up to 3.9, which convert their records
ACROSS = {
    "2.8.2": ("0.10.2.2", NEWEST),
    "3.9.2": ("0.10.2.2", "0.11.0.3", "2.8.2", NEWEST),
    VERSION: ("2.8.2", NEWEST),
    NEWEST: ("2.8.2",),
}
# the format that clients and brokers write, up to that release
MAGIC = {"0.8.2.2": 0, "0.10.2.2": 1}

# sends records, and returns their values
Work = Callable[[str], set[bytes]]


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker, and its clients' work."""

    cluster: KafkaCluster | ZookeeperCluster
    release: str

    def work(self, client: str) -> Work:
        codecs = BEFORE_ZSTD if {self.release, client} & {*MAGIC, "0.11.0.3"} else CODECS
        if client == "own" and self.release == "0.8.2.2":
            assert isinstance(self.cluster, ZookeeperCluster)
            return partial(round_trip.tools_of_0_8, self.cluster, codecs=codecs)
        if client in PYTHON:
            return partial(getattr(round_trip, client), release=self.release, codecs=codecs)
        of = self.release if client == "own" else client
        return partial(round_trip.kafka_clients, of, codecs=codecs)

    def magic(self, client: str) -> int:
        return min(MAGIC.get(self.release, 2), MAGIC.get(client, 2))


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    release, folder = request.param, tmp_path_factory.mktemp("kafka") / request.param
    if release == VERSION:
        yield Broker(request.getfixturevalue("kafka_one"), release)
    elif release in WITHOUT_ZOOKEEPER:
        with KafkaCluster(1, folder=folder, release=release) as cluster:
            yield Broker(cluster, release)
    else:
        with ZookeeperCluster(release, folder=folder) as cluster:
            yield Broker(cluster, release)


@pytest.mark.parametrize("broker", mostly_long(TALK, usual=OLDEST.__eq__), indirect=True)
def test_clients_of_its_time_and_of_today_pass(broker: Broker, tmp_path: Path) -> None:
    passes(broker, TALK[broker.release], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("broker", TALK, indirect=True)
def test_each_client_of_any_time_passes_alone(broker: Broker, tmp_path: Path) -> None:
    for client in (*TALK[broker.release], *ACROSS.get(broker.release, ())):
        passes(broker, [client], tmp_path / client)


def passes(broker: Broker, clients: Sequence[str], folder: Path) -> None:
    sent: set[tuple[int, bytes]] = set()
    with proxied(broker.cluster, folder) as proxy:
        for client in clients:
            sent |= {(broker.magic(client), value) for value in broker.work(client)(proxy.bootstrap)}
    for side in proxy.conversations():
        check_understood(side)
        assert written(side) == fetched(side) == sent
    notes = {row["note"] for rows in captured_connections(proxy.capture).values() for row in rows}
    assert notes == {None}


@pytest.mark.long
def test_brokers_that_advertise_the_proxy_are_found_through_zookeeper(tmp_path: Path) -> None:
    """A sidecar: consumers of 0.8 and the controller get the brokers' addresses from ZooKeeper."""
    cluster = ZookeeperCluster("0.8.2.2", folder=tmp_path / "kafka")
    with proxied(cluster, tmp_path / "proxy", sidecar=True) as proxy:
        cluster.advertised = proxy.bootstrap
        with cluster:
            sent = round_trip.consumer_of_zookeeper(cluster, proxy.bootstrap)
    near, _ = proxy.conversations()
    check_understood(near)
    assert fetched(near) == written(near) == {(0, value) for value in sent}
    assert {LEADER_AND_ISR, UPDATE_METADATA} <= {request.head[0] for talk in near for request in talk.requests}


@pytest.mark.parametrize("release", mostly_long(["3.9.2", "0.10.2.2"], usual=1))
def test_requests_between_brokers_are_decoded(release: str, tmp_path: Path) -> None:
    with ZookeeperCluster(release, folder=tmp_path / "kafka") as cluster:
        round_trip.librdkafka(cluster.direct_bootstrap, release, ["none"])
        told = [Conversation(one) for one in cluster.between_brokers()]
    check_understood(told)
    asked = {request.head[0] for talk in told for request in talk.requests}
    assert {LEADER_AND_ISR, UPDATE_METADATA, CONTROLLED_SHUTDOWN} <= asked


# --- what was understood ------------------------------------------------------------------------------


def check_understood(conversations: Sequence[Conversation]) -> None:
    """The catalog knows every frame, reads it to its end, and writes it again byte for byte."""
    for conversation in conversations:
        for request in conversation.requests:
            head = request_head(request.frame)
            codec = catalog.codec("request", head.api_key, head.api_version)
            _check_codec(codec, request.frame, head.body)
        for response in conversation.responses:
            codec = catalog.codec_of_response(response.frame, response.api_key, response.api_version)
            start = response_head(response.frame, response.api_key, response.api_version).body
            _check_codec(codec, response.frame, start)


def _check_codec(codec: catalog.Codec | None, frame: bytes, start: int) -> None:
    assert codec is not None, frame[:20]
    values, end = codec.decode(frame, start)
    assert end == len(frame), codec
    assert codec.encode(values) == frame[start:], codec


def written(conversations: Sequence[Conversation]) -> set[tuple[int, bytes | None]]:
    """Returns (magic, value) of the records in all Produce requests."""
    asked = (request for talk in conversations for request in talk.requests if request.head[0] == PRODUCE)
    return {found for request in asked for found in _records(decoded_request(request), "topic_data", "partition_data")}


def fetched(conversations: Sequence[Conversation]) -> set[tuple[int, bytes | None]]:
    """Returns (magic, value) of the records in all Fetch responses."""
    answers = (response for talk in conversations for response in talk.responses if response.api_key == FETCH)
    return {found for response in answers for found in _records(decoded(response), "responses", "partitions")}


def _records(body: dict[str, Any], topics: str, partitions: str) -> Iterator[tuple[int, bytes | None]]:
    for topic in body[topics]:
        for partition in topic[partitions]:
            data = partition["records"] or b""
            for batch in records.batches(data):
                yield from ((batch.magic, record.value) for record in records.read_batch(data, batch))
