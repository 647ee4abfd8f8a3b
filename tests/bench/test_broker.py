"""Tests of the fake broker's responses to the queries of a starting proxy, read by the proxy's own wire package."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.contenders import LISTENING
from bench.processes import build, running
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, FETCH, HEARTBEAT, METADATA, PRODUCE


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("broker")
    with running([build(folder).broker], folder / "broker.log", LISTENING) as child:
        yield int(child.said[2])


def ask(port: int, key: int, version: int, values: dict[str, object]) -> dict[str, object]:
    """Returns the decoded response; every byte of it must be read."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(framed(catalog.encode_request(key, version, 77, "bench", values)))
        with connection.makefile("rb") as stream:
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
    answer = catalog.decode_response(frame, key, version)
    assert isinstance(answer, tuple), answer
    head, body = answer
    assert head.correlation_id == 77
    return body


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_what_it_speaks(port: int, version: int) -> None:
    software = {"client_software_name": "bench", "client_software_version": "1"} if version >= 3 else {}
    body = ask(port, API_VERSIONS, version, software)
    assert {api["api_key"] for api in body["api_keys"]} == {PRODUCE, FETCH, METADATA, HEARTBEAT, API_VERSIONS}


@pytest.mark.parametrize("version", range(8))
def test_metadata_names_itself_as_the_only_node(port: int, version: int) -> None:
    asked = {"topics": [], "allow_auto_topic_creation": False} if version >= 4 else {"topics": []}
    (broker,) = ask(port, METADATA, version, asked)["brokers"]
    assert (broker["node_id"], broker["host"], broker["port"]) == (0, "127.0.0.1", port)


@pytest.mark.parametrize("version", [12, 18])
def test_fetch_is_answered_with_one_mib_of_records(port: int, version: int) -> None:
    asked = {"max_wait_ms": 500, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
    (topic,) = ask(port, FETCH, version, asked)["responses"]
    (partition,) = topic["partitions"]
    assert partition["error_code"] == 0
    assert len(partition["records"]) == 1024 * 1024


def test_produce_and_heartbeat_are_answered_without_an_error(port: int) -> None:
    produced = ask(port, PRODUCE, 11, {"acks": -1, "timeout_ms": 1000, "topic_data": []})
    assert produced["responses"][0]["partition_responses"][0]["error_code"] == 0
    produced = ask(port, PRODUCE, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": []})
    assert produced["responses"][0]["partition_responses"][0]["error_code"] == 0
    asked = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert ask(port, HEARTBEAT, 4, asked)["error_code"] == 0
