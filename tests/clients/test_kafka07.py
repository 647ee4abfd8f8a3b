"""Tests of Kafka 0.7 behind the proxy: replayed frames of old clients get the same responses with and without it.

Capture and metrics have all of them.
"""

import json
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from proxy.cli import main
from proxy.wire.kafka07 import Fetch, MultiFetch, MultiProduce, Offsets, Produce, Request, encode_request, messages
from recorder.capture.compactor import compact
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.checks import check_facts
from tests.clients.kafka07 import NAMES, brokers, recording
from tests.faults.live import OWN_PORT, LiveProxy
from tests.proxy.wire.kafka07.clients import FRAMES
from tests.recorder.capture.looks import event_rows, frame_rows

NEVER_ANSWERED = (0, 3)
NULLS = ("node", "principal", "api_version", "correlation_id", "client_id", "masked", "omitted", "note")

Talk = list[bytes]


def built_by(client: str) -> Talk:
    """Returns the frames of an old client, without the damaged one, at which a broker ends the connection."""
    rows = [row for row in FRAMES["built"] if row["client"] == client and "'old'" not in row["call"]]
    return [bytes.fromhex(row["frame"]) for row in rows]


def multi() -> Talk:
    """Returns requests that neither client has, with errors in them."""
    data = messages.message_set([b"one", b"two"])
    requests: tuple[Request, ...] = (
        MultiProduce((Produce("multi", 0, data), Produce("multi", 1, data))),
        MultiFetch((Fetch("multi", 0, 0, 1000), Fetch("multi", 9, 0, 1000), Fetch("multi", 1, 999, 1000))),
        Fetch("multi", 0, 13, 10),
        Produce("multi", 0, data),
        Offsets("multi", 0, -1, 5),
    )
    return [struct.pack(">i", len(frame)) + frame for frame in map(encode_request, requests)]


# a message with a wrong checksum, and an unknown type: a broker ends the connection
(DAMAGED,) = [bytes.fromhex(row["frame"]) for row in FRAMES["built"] if "'old'" in row["call"]]
UNKNOWN = struct.pack(">ih", 2, 18)
# a broker answers these with a length of 1, which no frame has
FEWER_THAN_NONE = struct.pack(">i", 25) + encode_request(Fetch("multi", 0, 0, -1))


def number(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big")


def awaited(talk: Talk) -> int:
    return sum(number(frame) not in NEVER_ANSWERED for frame in talk)


class Client:
    def __init__(self, where: tuple[str, int]) -> None:
        self._socket = socket.create_connection(where, PATIENCE, OWN_PORT)
        self._stream = self._socket.makefile("rb")
        self.name = "{}:{}".format(*self._socket.getsockname())

    def ask(self, talk: Talk) -> Talk:
        """Sends all requests at once; returns the responses, with their lengths."""
        self._socket.sendall(b"".join(talk))
        return [self._frame() for _ in range(awaited(talk))]

    def _frame(self) -> bytes:
        head = self._stream.read(4)
        return head + self._stream.read(int.from_bytes(head, "big"))

    def is_ended_by(self, frame: bytes) -> bool:
        """True if nothing follows."""
        self._socket.sendall(frame)
        try:
            return self._stream.read(1) == b""
        finally:
            self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def samples(proxy: LiveProxy) -> dict[str, dict[str, float]]:
    """Returns metric without its prefix -> api -> value, for metrics with apis and versions."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(proxy.page()):
        for one in family.samples:
            if {"api", "version"} <= one.labels.keys() and "le" not in one.labels:
                assert (one.labels["cluster"], one.labels["version"]) == ("main", "0.7")
                found.setdefault(one.name.removeprefix("kafka_wiretap_"), {})[one.labels["api"]] = one.value
    return found


def rows_of(talk: Talk, answers: Talk) -> list[dict[str, Any]]:
    """Returns the capture's expected rows of a connection: each exchange's request, and its response if it has one."""
    left = iter(answers)
    rows = []
    for exchange, frame in enumerate(talk):
        shared = {"exchange": exchange, "api": NAMES[number(frame)], "api_key": number(frame), "dialect": "kafka-0.7"}
        is_awaited = number(frame) not in NEVER_ANSWERED
        rows.append(shared | {"kind": "request", "made_by": "client", "frame": frame[4:], "size": len(frame) - 4})
        rows[-1] |= {"awaits": is_awaited, "request_size": None}
        if is_awaited:
            answer = next(left)
            rows.append(shared | {"kind": "response", "made_by": "broker", "frame": answer[4:], "awaits": None})
            rows[-1] |= {"size": len(answer) - 4, "request_size": len(frame) - 4}
    return rows


def assert_recorded(rows: list[dict[str, Any]], talk: Talk, answers: Talk) -> None:
    wanted = rows_of(talk, answers)
    by_exchange = sorted(rows, key=lambda row: (row["exchange"], row["kind"]))
    assert [{name: row[name] for name in want} for row, want in zip(by_exchange, wanted, strict=True)] == wanted
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    for row in rows:
        assert {name: row[name] for name in NULLS} == dict.fromkeys(NULLS)
        assert row["stored"] == row["size"]
        assert row["first_mono_ns"] <= row["mono_ns"]
        timed = [row[name] is not None and row[name] >= 0 for name in ("latency_ns", "queued_ns", "transfer_ns")]
        assert timed == [row["kind"] == "response"] * 3


@pytest.mark.real
@pytest.mark.parametrize("workers", [1, 2])
def test_old_clients_talk_as_without_the_proxy_and_are_recorded_and_measured(workers: int, tmp_path: Path) -> None:
    talks = [built_by("brod"), built_by("prozess"), multi()]
    with brokers() as (broker, twin), recording(broker, tmp_path, "--workers", str(workers)) as proxy:
        wait_for(proxy.is_ready, "a broker that can be connected to")
        clients, answers = [Client(proxy.listening) for _ in talks], []
        for client, talk in zip(clients, talks, strict=True):
            direct = Client(twin.address)
            answers.append(client.ask(talk))
            assert answers[-1] == direct.ask(talk)
            direct.close()
        for client in clients:
            client.close()
        # each talk ends with a response, so the broker has read all of it
        sent = [frame for talk in talks for frame in talk]
        assert sorted(broker.received) == sorted(frame[4:] for frame in sent)
        counted = wait_for(lambda: all_of(samples(proxy), len(sent)), "all of it counted")
        for refused in (DAMAGED, UNKNOWN):
            assert Client(proxy.listening).is_ended_by(refused)
        wait_for(lambda: 'cause="broker_closed",cluster="main"} 2' in proxy.page(), "both ends")
        assert Client(proxy.listening).is_ended_by(FEWER_THAN_NONE)
        wait_for(lambda: 'cause="bad_length",cluster="main"} 1' in proxy.page(), "the third")
        assert proxy.metric("opaque_frames_total") == 1
    assert_measured(counted, sent, [one for talk in answers for one in talk])
    wait_for(lambda: not compact(tmp_path / "capture").busy, "the recording's columns")
    rows = frame_rows(tmp_path / "capture")
    for client, talk, got in zip(clients, talks, answers, strict=True):
        assert_recorded([row for row in rows if row["client"] == client.name], talk, got)
    noted = {(row["kind"], row["api_key"], row["awaits"], row["note"]) for row in rows if row["note"]}
    assert noted == {("request", 18, True, "unknown_api"), ("bytes", None, None, "bad_length")}
    assert {json.loads(row["detail"])["dialect"] for row in event_rows(tmp_path / "capture", "opened")} == {"kafka-0.7"}
    assert inspected(tmp_path / "capture") == [NAMES[2]]
    check_facts(tmp_path / "capture")


def assert_measured(counted: dict[str, dict[str, float]], sent: Talk, answers: Talk) -> None:
    asked = Counter(NAMES[number(frame)] for frame in sent)
    for name, value in counted["exchanges_total"].items():
        assert value == (asked[name] if name not in one_way(sent) else 0)
    assert {name: value for name, value in counted["one_way_total"].items() if value} == one_way(sent)
    assert sum(counted["request_size_bytes_sum"].values()) == sum(len(frame) - 4 for frame in sent)
    assert sum(counted["response_size_bytes_sum"].values()) == sum(len(frame) - 4 for frame in answers)
    assert sum(counted["latency_seconds_count"].values()) == len(answers)
    assert sum(counted["unanswered_total"].values()) == 0


def all_of(counted: dict[str, dict[str, float]], sent: int) -> dict[str, dict[str, float]] | None:
    """Returns the metrics, once every request is counted."""
    total = sum(sum(counted.get(name, {}).values()) for name in ("exchanges_total", "one_way_total"))
    return counted if total == sent else None


def one_way(sent: Talk) -> Counter[str]:
    return Counter(NAMES[number(frame)] for frame in sent if number(frame) in NEVER_ANSWERED)


def inspected(folder: Path) -> list[str]:
    """Returns the APIs of the exchanges with errors, by `inspect`."""
    result = CliRunner().invoke(main, ["inspect", "exchanges", str(folder), "--errors", "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line)["api"] for line in result.stdout.splitlines()]
