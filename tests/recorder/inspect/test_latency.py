"""Tests of `inspect latency`."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import keys, records
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.inspect.commands import inspect
from recorder.inspect.latency import latency
from recorder.reading.exchanges import Pair
from recorder.reading.heads import of_exchange
from tests.recorder.running import run as command
from tests.recorder.small_capture import fetch_values

Make = Callable[..., dict[str, Any]]
MS = 1_000_000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(inspect, ["latency", *map(str, arguments)])


def objects(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


@pytest.fixture
def measured(folder: Path, written: Callable[..., None], make_request: Make, make_response: Make) -> Path:
    """The small capture, and Fetches that have waited and that have not; several clients, nodes and topics."""
    batch = records.write_batch([records.Record(0, 1_000, b"k", b"v")])
    rows: list[dict[str, Any]] = []

    def add(key: int, version: int, values: Any, told: Any, latency_ns: int, **other: Any) -> None:
        number = len(rows) // 2
        rows.append(make_request(10 + number, 7, 2 * number, key, version, values=values, **other))
        rows.append(
            make_response(10.5 + number, 7, 2 * number + 1, key, version, values=told, latency_ns=latency_ns, **other)
        )

    for number in range(30):
        full = fetch_values(0, batch)
        full["responses"][0]["partitions"][0] |= {"high_watermark": 100 if number % 3 else 1}
        who = {"client_id": f"reader-{number % 2}", "node": number % 3}
        add(keys.FETCH, 11, {"max_wait_ms": 500}, full, (number + 1) * MS, **who)
        topics = [{"name": name, "partition_data": [{"index": 0, "records": batch}]} for name in ("a", "b")]
        add(keys.PRODUCE, 8, {"acks": 1, "topic_data": topics[: 1 + number % 2]}, {}, (number + 1) ** 2 * 1_000)
    written(folder, "frames", rows, first=2)
    return folder


def test_percentiles_are_those_of_the_nearest_rank_and_waits_stand_apart(measured: Path) -> None:
    found = {(line["api"], line["wait"]): line for line in objects(measured, "--connection", 7)}
    assert found.keys() == {("Fetch", None), ("Fetch", "wait"), ("Produce", None)}
    produce = found["Produce", None]
    assert produce["count"] == 30
    assert [produce[f"p{share}_ns"] for share in (50, 95, 99)] == [15**2 * 1000, 29**2 * 1000, 30**2 * 1000]
    assert produce["max_ns"] == 30**2 * 1000
    # at its log's end a Fetch may have waited
    assert (found["Fetch", "wait"]["count"], found["Fetch", None]["count"]) == (10, 20)


@pytest.mark.parametrize(
    ("by", "column", "counts"),
    [
        ("client", "client_id", {"reader-0": 15, "reader-1": 15}),
        ("node", "node", {0: 10, 1: 10, 2: 10}),
    ],
)
def test_lines_are_of_clients_and_nodes(measured: Path, by: str, column: str, counts: dict[Any, int]) -> None:
    found = dict.fromkeys(counts, 0)
    for line in objects(measured, "--connection", 7, "--api", "Fetch", "--by", by):
        found[line[column]] += line["count"]
    assert found == counts


def test_an_exchange_counts_for_each_of_its_topics(measured: Path) -> None:
    found = objects(measured, "--api", "Produce", "--connection", 7, "--by", "topic")
    assert [(line["topic"], line["count"]) for line in found] == [("a", 30), ("b", 15)]
    only = objects(measured, "--api", "Produce", "--topic", "b", "--by", "topic")
    assert [(line["topic"], line["count"]) for line in only] == [("b", 15)]


def test_forms_and_an_empty_list(measured: Path) -> None:
    header, *lines = run(measured, "--api", "Produce", "--connection", 7, "--csv").stdout.splitlines()
    assert header == "api,wait,count,p50_ns,p95_ns,p99_ns,max_ns"
    assert lines == ["Produce,,30,225000,841000,900000,900000"]
    assert "no answered exchange passes --api Heartbeat" in run(measured, "--api", "Heartbeat").stderr
    assert "p99 ms" in run(measured).stdout


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300), st.randoms())
def test_percentiles_equal_the_plain_twin(latencies: list[int], rng: Any) -> None:
    def paired(latency_ns: int) -> Pair:
        shared = {c.API: "Produce", c.API_KEY: 0, c.AT_NS: 1, c.SIZE: 1, c.MADE_BY: "broker", c.KIND: "response"}
        rest = dict.fromkeys([name for name, _ in c.FRAME_COLUMNS if name not in shared])
        return Pair(None, {**rest, **shared, c.LATENCY_NS: latency_ns})

    (line,) = latency(map(paired, latencies), None, of_exchange, lambda pair: (), most=1 << 30)
    ordered = sorted(latencies)
    for share in (0.5, 0.95, 0.99):
        assert line[f"p{share * 100:.0f}_ns"] == ordered[max(ceil(round(share * len(ordered), 9)), 1) - 1]
    assert (line["count"], line["max_ns"]) == (len(ordered), ordered[-1])
    with pytest.raises(OverBudget, match="keeping latencies"):
        latency(map(paired, latencies), None, of_exchange, lambda pair: (), most=1000)


@pytest.mark.real
@pytest.mark.parametrize(("by", "of_analyze"), [(None, "api"), ("client", "client_id"), ("node", "node")])
def test_it_says_what_analyze_says(measured: Path, by: str | None, of_analyze: str) -> None:
    names = ("api",) if by is None else ("api", of_analyze)
    done = command("analyze", measured, "--engine", "embedded", "--by", ",".join(names), "--format", "json")
    assert done.exit_code == 0, done.output
    table = json.loads(done.stdout)["latency_by_api"]
    of = (*names, "wait")
    theirs = {
        tuple(row[name] for name in of): [row[f"p{share}_ms"] for share in (50, 95, 99)]
        for row in table
        if row["p50_ms"] is not None
    }
    ours = {
        tuple(line[name] for name in of): [line[f"p{share}_ns"] / 1e6 for share in (50, 95, 99)]
        for line in objects(measured, *(() if by is None else ("--by", by)))
    }
    assert ours == theirs
    assert len(ours) > 3
