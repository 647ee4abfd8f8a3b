"""Tests of exchanges counted by topic, client and error, through the commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.wire.keys import API_VERSIONS, HEARTBEAT, PRODUCE
from recorder.inspect.commands import inspect
from tests.recorder.small_capture import request, response, write


def produced(second: float, number: int, code: int = 0, *, client: str = "writer") -> list[dict[str, Any]]:
    """An exchange that produces to two partitions of orders, and to one of payments that the code is about."""
    places = [("orders", 0, 0), ("orders", 1, 0), ("payments", 0, code)]
    topics = [{"name": name, "partition_data": [{"index": at, "records": b""}]} for name, at, _ in places]
    codes = [{"name": name, "partition_responses": [{"index": at, "error_code": each}]} for name, at, each in places]
    facts = {"client_id": client, "exchange": number, "principal": "alice"}
    return [
        request(second, 5, 2 * number, PRODUCE, 9, values={"acks": 1, "topic_data": topics}, **facts),
        response(second + 0.1, 5, 2 * number + 1, PRODUCE, 9, values={"responses": codes}, **facts),
    ]


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    library = {"client_software_name": "old-client", "client_software_version": "0.9"}
    beat = request(9, 6, 0, HEARTBEAT, 4, values={"group_id": "g"}, client_id="reader")
    told = response(9.5, 6, 1, HEARTBEAT, 4, values={"error_code": 27}, client_id="reader")
    hello = request(0, 5, 0, API_VERSIONS, 3, values=library, client_id="writer", exchange=0)
    frames = [hello, *produced(1, 1), *produced(2, 2, 6), *produced(3, 3, 6), beat, told]
    asked = {"acks": 1, "topic_data": []}
    frames += [
        request(4, 7, at, PRODUCE, version, client_id="ancient", values=asked) for at, version in ((0, 2), (2, 3))
    ]
    write(tmp_path, "frames", frames)
    return tmp_path


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(inspect, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_topics_are_counted_by_who_produces_to_them(counted: Path) -> None:
    found = {line["topic"]: line for line in objects("topics", counted)}
    assert {name: (line["exchanges"], line["errors"]) for name, line in found.items()} == {
        "orders": (3, 0),
        "payments": (3, 2),
    }
    assert (found["orders"]["client_id"], found["orders"]["principal"]) == ("writer", "alice")
    assert found["orders"]["first"] == "2026-11-21T12:00:01.000000Z"
    assert [line["topic"] for line in objects("topics", counted, "--topic", "pay*")] == ["payments"]


def test_errors_are_counted_by_the_partition_that_has_them(counted: Path) -> None:
    (line,) = objects("errors", counted)
    assert (line["error"], line["topic"], line["partition"]) == ("NOT_LEADER_OR_FOLLOWER", "payments", 0)
    assert (line["client_id"], line["times"]) == ("writer", 2)
    both = objects("errors", counted, "--all-errors")
    assert [(each["error"], each["group"]) for each in both] == [
        ("NOT_LEADER_OR_FOLLOWER", None),
        ("REBALANCE_IN_PROGRESS", "g"),
    ]
    assert objects("errors", counted, "--client", "reader") == []
    nothing = CliRunner().invoke(inspect, ["errors", str(counted), "--client", "reader"])
    assert nothing.stderr.startswith("note: no exchange with an error passes --client reader: ")


def test_clients_tell_their_library_and_what_kafka_4_does_not_take(counted: Path) -> None:
    found = {(line["client_id"], line["principal"]): line for line in objects("clients", counted)}
    writer, ancient = found["writer", "alice"], found["ancient", None]
    assert (writer["software"], writer["exchanges"], writer["errors"]) == ("old-client", 3, 2)
    assert writer["too old"] == []
    assert ancient["too old"] == ["Produce 2 (from 3)"]
    assert ancient["connections"] == 1


def test_counts_are_csv_with_a_header_and_tables(counted: Path) -> None:
    done = CliRunner().invoke(inspect, ["errors", str(counted), "--csv"])
    header, line = csv.reader(done.stdout.splitlines())
    assert dict(zip(header, line, strict=True))["error"] == "NOT_LEADER_OR_FOLLOWER"
    shown = CliRunner().invoke(inspect, ["topics", str(counted)], env={"COLUMNS": "60"}).stdout
    assert max(map(len, shown.splitlines()[1:4])) <= 60
    assert "payments" in shown


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_at_any_width_clients_tell_who_is_too_old(columns: int, counted: Path) -> None:
    shown = CliRunner().invoke(inspect, ["clients", str(counted)], env={"COLUMNS": str(columns)}).stdout
    assert "too old" in shown
    assert "None is" not in shown
    assert "Produce 2" in shown


def test_a_capture_without_clients_that_are_too_old_says_so(counted: Path) -> None:
    shown = CliRunner().invoke(inspect, ["clients", str(counted), "--client", "writer"]).stdout
    assert shown.splitlines()[-1] == "None is too old for Kafka 4.0."


def test_the_day_of_all_times_stands_in_the_title_alone(counted: Path) -> None:
    title, *lines = CliRunner().invoke(inspect, ["topics", str(counted)], env={"COLUMNS": "160"}).stdout.splitlines()
    assert title.endswith(", 2026-11-21 (UTC)")
    assert not any("2026-11-21" in line for line in lines)


def test_the_csv_of_exchanges_tells_their_errors(counted: Path) -> None:
    shown = CliRunner().invoke(inspect, ["exchanges", str(counted), "--errors", "--csv"]).stdout
    assert [line["error"] for line in csv.DictReader(shown.splitlines())] == ["NOT_LEADER_OR_FOLLOWER"] * 2


def test_counts_are_bounded(counted: Path) -> None:
    done = CliRunner().invoke(inspect, ["topics", str(counted), "--budget", "1500"])
    assert done.exit_code == 3
    assert "--budget raises that" in done.stderr
