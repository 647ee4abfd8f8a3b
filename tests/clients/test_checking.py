"""Tests of `kafka-wiretap check` with real brokers: nodes, logins, a record there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy import cli
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.clients.tap import Tap
from tests.clients.workloads import confluent, fresh

pytestmark = pytest.mark.real


def run(code: int, *arguments: object) -> str:
    result = CliRunner().invoke(cli.main, ["check", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def steps(code: int, *arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(code, *arguments, "--json").splitlines()]


def outcomes(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(step["step"], step["outcome"]) for step in found]


@pytest.fixture
def login_server(kafka_three: KafkaCluster, tmp_path: Path) -> Iterator[str]:
    """The first broker's listener for logins, which is reached through a tap, as all that it advertises."""
    with Tap(kafka_three.tap_routes, tmp_path / "tap"):
        yield kafka_three.login_bootstrap.split(",")[0]


@pytest.fixture
def login(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "login.toml").write_text(
        f'[login."*"]\nmechanism = "PLAIN"\nusername = "{USER}"\npassword_file = "password"\n'
    )
    return tmp_path / "login.toml"


def test_a_cluster_is_examined_to_its_last_node(kafka_three: KafkaCluster) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "checked")
    server = kafka_three.bootstrap.split(",")[0]
    found = steps(0, "--upstream", server, "--topic", topic, "--produce", "--consume")
    assert outcomes(found) == [
        (name, "ok") for name in ("tcp", "versions", "nodes", "node", "node", "node", "produce", "consume")
    ]
    facts = {step["step"]: step["facts"] for step in found}
    assert [node["node"] for node in facts["nodes"]["nodes"]] == [*kafka_three.nodes]
    assert facts["nodes"]["cluster_id"]
    assert facts["versions"]["features"]["metadata.version"] > 0
    assert facts["versions"]["limited"] == {}
    assert facts["consume"]["offset"] == facts["produce"]["offset"] == 0
    # a second record is read back at its own offset, and the oldest one where nothing is written
    *_, wrote, read = steps(0, "--upstream", server, "--topic", topic, "--produce", "--consume")
    assert wrote["facts"]["offset"] == read["facts"]["offset"] == 1
    assert steps(0, "--upstream", server, "--topic", topic, "--consume")[-1]["facts"]["offset"] == 0


def test_a_topic_without_records_is_noted_and_one_that_is_not_there_is_wrong(kafka_three: KafkaCluster) -> None:
    empty, absent = confluent.create_topic(kafka_three.bootstrap, "empty"), fresh("absent")
    assert outcomes(steps(0, "--upstream", kafka_three.bootstrap, "--topic", empty, "--consume"))[-1] == (
        "consume",
        "note",
    )
    wrong = steps(1, "--upstream", kafka_three.bootstrap, "--topic", absent, "--produce")[-1]
    assert (wrong["step"], wrong["outcome"]) == ("produce", "wrong")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in wrong["said"]


def test_brokers_that_demand_a_login_are_told_with_their_mechanisms(login_server: str) -> None:
    nodes = steps(0, "--upstream", login_server)[-1]
    assert (nodes["step"], nodes["outcome"]) == ("nodes", "note")
    assert "PLAIN" in nodes["said"]
    assert "--login" in nodes["right"]


def test_a_login_is_made_on_every_connection(kafka_three: KafkaCluster, login_server: str, login: Path) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "checked")
    found = steps(0, "--upstream", login_server, "--login", login, "--topic", topic, "--produce", "--consume")
    names = ("tcp", "versions", "login", "nodes", "node", "node", "node", "produce", "consume")
    assert outcomes(found) == [(name, "ok") for name in names]


def test_a_refused_login_is_wrong_and_its_secret_is_never_told(login_server: str, login: Path) -> None:
    (login.parent / "password").write_text("not-this-one")
    arguments = ("--upstream", login_server, "--login", login)
    refused = steps(1, *arguments)[-1]
    assert (refused["step"], refused["outcome"]) == ("login", "wrong")
    assert "PLAIN" in refused["right"]
    assert "not-this-one" not in run(1, *arguments)


def test_a_listener_without_logins_refuses_one(kafka_three: KafkaCluster, login: Path) -> None:
    refused = steps(1, "--upstream", kafka_three.bootstrap.split(",")[0], "--login", login)[-1]
    assert (refused["step"], refused["outcome"]) == ("login", "wrong")
    assert "ILLEGAL_SASL_STATE" in refused["said"]
