"""Tests of `inspect --follow` beside a proxy that records a client's traffic."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.brokers import children
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import READY_SECONDS
from tests.faults.live import ROOT, LiveProxy

pytestmark = pytest.mark.real
# no segment is compacted while a test runs
SLOW = {"KAFKA_WIRETAP_CAPTURE__SEGMENT_AGE": "1h"}


@contextmanager
def inspecting(command: str, capture: Path, *more: str) -> Iterator[list[dict[str, Any]]]:
    """What a command prints that follows a topic of a capture; the list grows."""
    program = [sys.executable, "-c", "from proxy.cli import main; main()", "inspect"]
    child, _, said = children.spoken_with(
        [*program, command, str(capture), "--follow", "--json", "--topic", "followed", *more], cwd=ROOT
    )
    seen: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: seen.extend(map(json.loads, said)))
    reader.start()
    try:
        yield seen
    finally:
        children.stop(child)
        reader.join()
        children.close_pipes(child)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_produce_and_its_answer_are_seen_before_their_segment_is_compacted(tmp_path: Path, workers: str) -> None:
    capture = tmp_path / "capture"
    with MockCluster(1) as cluster:
        where = ("127.0.0.1", int(cluster.bootstrap.rpartition(":")[2]))
        with LiveProxy(where, capture, tmp_path / "log", "--workers", workers, env=SLOW) as proxy:
            bootstrap = "{}:{}".format(*proxy.listening)
            producer = Producer({"bootstrap.servers": bootstrap, "client.id": "writer", "linger.ms": 0})
            with inspecting("exchanges", capture, "--api", "Produce") as seen, inspecting("records", capture) as found:

                def are_shown() -> bool:
                    # what comes before the commands have started is not new
                    producer.produce("followed", b"value", b"key")
                    assert producer.flush(READY_SECONDS) == 0
                    return bool(seen and found)

                wait_for(are_shown, "lines of both commands")
            assert (seen[0]["api"], seen[0]["client_id"], seen[0]["outcome"]) == ("Produce", "writer", "answered")
            assert seen[0]["errors"] == {}
            told = found[0]
            assert (told["topic"], told["key"], told["value"]) == ("followed", "key", "value")
            assert told["produced"]["client_id"] == "writer"
            assert told["offset"] is not None
            assert not list(capture.glob("frames/*/*/*.parquet"))
