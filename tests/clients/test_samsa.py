"""Tests of samsa, a client of Kafka 0.7 with all five requests, behind the proxy.

It gets the same responses as without the proxy, everything is recorded, and `inspect show` shows its messages at the
same offsets.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import main
from recorder.capture.compactor import compact
from tests.brokers.waiting import wait_for
from tests.clients.kafka07 import NAMES, brokers, recording, talk_of_samsa
from tests.recorder.capture.looks import frame_rows

pytestmark = pytest.mark.real


def shown(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the bodies of these frames as `inspect show` has them."""
    ids = [f"{row['connection']}/{row['sequence']}" for row in rows]
    result = CliRunner().invoke(main, ["inspect", "show", str(folder), *ids, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line)["body"] for line in result.stdout.splitlines()]


def messages(told: dict[str, Any]) -> list[Any]:
    """Returns the whole messages of a FETCH response or of a MULTIFETCH's part, in the client's form."""
    return [
        [one["offset"], one["next_offset"], b64decode(one["payload"]["base64"]).decode(), one["magic"], True]
        for one in told["messages"]
        if "payload" in one
    ]


@pytest.mark.long
def test_samsa_gets_the_same_answers_as_without_the_proxy_and_inspect_shows_them(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with brokers() as (broker, twin), recording(broker, tmp_path) as proxy:
        wait_for(proxy.is_ready, "a broker that can be connected to")
        through, directly = talk_of_samsa(proxy.listening[1], twin.address[1])
        assert through == directly
        assert broker.received == twin.received
    wait_for(lambda: not compact(folder).busy, "the recording's columns")
    # connections of health checks have no frames
    rows = frame_rows(folder)
    requests = [row for row in rows if row["kind"] == "request"]
    assert [row["frame"] for row in requests] == broker.received
    assert {row["api"] for row in requests} == set(NAMES)
    assert not any(row["note"] for row in rows)
    answers = shown(folder, [row for row in rows if row["kind"] == "response"])
    answered = [one for one in through if one["gave"] is not None]
    for call, body in zip(answered, answers, strict=True):
        gave = call["gave"]
        if isinstance(gave, str):
            assert body["error_code"], call
        elif call["call"] == "fetch":
            assert messages(body) == gave, call
        elif call["call"] == "multifetch":
            assert [messages(part) for part in body["parts"]] == gave
        else:
            assert body["offsets"] == gave, call
