"""Tests that events tell what brokers told clients of their cluster: nodes with racks, finalized features."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture.looks import event_rows
from tests.recorder.capture.traffic import Chunk, Player, Talk

NODES = [
    {"node_id": 1, "host": "one", "port": 9092, "rack": "east"},
    {"node_id": 2, "host": "two", "port": 9093, "rack": None},
]
DESCRIBED = [{"broker_id": node["node_id"]} | {name: node[name] for name in ("host", "port", "rack")} for node in NODES]
FEATURES = [{"name": "metadata.version", "min_version_level": 27, "max_version_level": 27}]
ANSWERS = [
    (METADATA, 12, {"brokers": NODES}),
    (API_VERSIONS, 3, {"finalized_features_epoch": 1, "finalized_features": FEATURES}),
]


def record_answers(folder: Path, answers: Any = ANSWERS, **settings: Any) -> None:
    tap = open_tap(folder, RecordSettings(**settings), "s")
    tap.identified("main", ids=["an-id"])
    player, clock = Player(tap), count(1)
    player.open(Talk(1, []), next(clock))
    for number, (key, version, told) in enumerate(answers):
        request = framed(catalog.encode_request(key, version, number, "c", {}))
        response = framed(catalog.encode_response(key, version, number, told))
        player.play(1, Chunk(Direction.REQUEST, request, next(clock)))
        player.play(1, Chunk(Direction.RESPONSE, response, next(clock)))
    player.close(1)
    tap.close()
    compact(folder)


def cluster_event(folder: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(event_rows(folder, "cluster")[0]["detail"])
    return event


def test_nodes_with_racks_and_features_are_in_the_clusters_event(tmp_path: Path) -> None:
    record_answers(tmp_path)
    event = cluster_event(tmp_path)
    assert event["nodes"] == NODES
    assert event["features"] == {"metadata.version": 27}
    assert event["ids"] == ["an-id"]


def test_controllers_name_their_nodes_in_describe_cluster(tmp_path: Path) -> None:
    record_answers(tmp_path, [(DESCRIBE_CLUSTER, 1, {"cluster_id": "c", "brokers": DESCRIBED})])
    assert cluster_event(tmp_path)["nodes"] == NODES


def test_the_oldest_answers_name_nodes_without_racks(tmp_path: Path) -> None:
    nodes = [{name: node[name] for name in ("node_id", "host", "port")} for node in NODES]
    record_answers(tmp_path, [(METADATA, 0, {"brokers": nodes})])
    assert cluster_event(tmp_path)["nodes"] == [node | {"rack": None} for node in nodes]


@pytest.mark.parametrize("settings", [{"bodies": "head"}, {}], ids=["cut", "nothing told"])
def test_what_is_not_told_is_not_there(settings: dict[str, Any], tmp_path: Path) -> None:
    answers = ANSWERS if settings else [(METADATA, 0, {}), (API_VERSIONS, 0, {})]
    record_answers(tmp_path, answers, **settings)
    assert {*cluster_event(tmp_path)} == {"ids", "upstreams", "listeners"}
