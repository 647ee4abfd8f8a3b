"""Tests of the tables of groups against Kafka's own tool at the same moment, without traffic."""

import json
import subprocess
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.workloads import confluent, fresh, values
from tests.clients.workloads.group_members import copies_exactly_once, described, have_read, member

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]
PARTITIONS = 2


def asked(*arguments: str) -> str:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_offsets_lag_and_members_are_those_that_kafkas_tool_tells(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    names = {name: fresh(name) for name in ("classic", "newer", "behind", "gone", "exact")}
    with proxied(kafka_one, tmp_path) as proxy, ExitStack() as stack:
        to = proxy.bootstrap
        topic = confluent.create_topic(to, "groups", partitions=PARTITIONS)
        confluent.produce(to, topic, values("first", 40), partitions=PARTITIONS)
        with member(to, names["gone"], topic, most=4) as gone:
            wait_for(lambda: len(gone.read) == 40, "the first records")
        groups = (
            (member(to, names["classic"], topic), member(to, names["classic"], topic)),
            (member(to, names["newer"], topic, "consumer"),),
            (member(to, names["behind"], topic, most=6),),
        )
        readers = [[stack.enter_context(one) for one in group] for group in groups]
        confluent.produce(to, topic, values("second", 30), partitions=PARTITIONS)
        copies_exactly_once(to, names["exact"], topic)
        for group in readers:
            wait_for(partial(have_read, group, 71), "all")
        offsets, members = described(kafka_one, "--offsets"), described(kafka_one, "--members")
        until = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    compact(proxy.capture)
    mine = {row["GROUP"] for row in offsets} & set(names.values())
    assert mine == set(names.values())
    check_offsets(str(proxy.capture), until, [row for row in offsets if row["GROUP"] in mine])
    check_members(str(proxy.capture), until, [row for row in members if row["GROUP"] in mine], mine)


def check_offsets(capture: str, until: str, told: list[dict[str, str]]) -> None:
    lines = asked("analyze", capture, "--table", "lag", "--format", "json", "--until", until).splitlines()
    last: dict[tuple[str, str, str], dict[str, object]] = {}
    for row in sorted(map(json.loads, lines), key=lambda row: row["window_end"]):
        last[row["group_id"], row["topic"], str(row["partition"])] = row
    found = {
        place: (row["committed_offset"], row["end_offset"], row["lag"])
        for place, row in last.items()
        if row["committed_offset"] is not None
    }
    assert found == {
        (row["GROUP"], row["TOPIC"], row["PARTITION"]): tuple(
            int(row[name]) for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
        )
        for row in told
        if row["CURRENT-OFFSET"] != "-"
    }


def check_members(capture: str, until: str, told: list[dict[str, str]], groups: set[str]) -> None:
    report = json.loads(asked("report", capture, "--format", "json", "--until", until))
    found = {row["group"]: row["members"] or 0 for row in report["groups"]["groups"]["rows"]}
    assert found == {group: sum(row["GROUP"] == group for row in told) for group in groups}
