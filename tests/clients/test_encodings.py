"""Tests of the study of a recorded capture: with fixed integers, each body has the size that was sent."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.wire.apis import api_name
from proxy.wire.headers import request_head, response_head
from proxy.wire.integers import Encoding
from tests.brokers.kafka import KafkaCluster
from tests.clients.checks import is_own_question
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.streams import Conversation
from tests.clients.workloads import confluent

pytestmark = [pytest.mark.real, pytest.mark.long]


def test_totals_of_fixed_encodings_are_the_sent_bytes(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_one, tmp_path) as proxy:
        confluent.administers(proxy.bootstrap)
        confluent.keeps_its_transactions(proxy.bootstrap)
    compact(proxy.capture)
    found = studied(proxy.capture)
    # the recording has the brokers' bytes, before addresses were replaced
    _, far = proxy.conversations()
    of_clients = [one for one in far if not is_own_question(one)]
    assert found["unread"] == {}
    assert {(one["api"], one["side"]): one["sizes"]["fixed"] for one in found["bodies"]} == sent(of_clients)
    assert all(one["sent"] == one["sizes"]["fixed"] for one in (*found["bodies"], found["total"]))
    for one in (*found["bodies"], *found["fields"]):
        others = [one["sizes"][encoding.value] for encoding in Encoding]
        assert one["sizes"]["best"] <= min(others) <= max(others) <= one["sizes"]["worst"]
    assert {one["api"] for one in found["times"]} <= {one["api"] for one in found["bodies"]}


def studied(capture: Path) -> Any:
    done = subprocess.run(
        [*PROGRAM, "encodings", str(capture), "--format", "json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sent(conversations: Sequence[Conversation]) -> dict[tuple[str, str], int]:
    """Returns the bytes of the bodies that passed a tap, by api and side."""
    found: Counter[tuple[str, str]] = Counter()
    for one in conversations:
        for asked in one.requests:
            head = request_head(asked.frame)
            found[api_name(head.api_key) or "", "request"] += len(asked.frame) - head.body
        for told in one.responses:
            body = response_head(told.frame, told.api_key, told.api_version).body
            found[api_name(told.api_key) or "", "response"] += len(told.frame) - body
    return dict(found)
