"""Tests of timing messages in each encoding; the durations depend on the machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.wire import catalog, sizes
from proxy.wire.integers import Encoding
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, METADATA
from recorder.encodings import times
from recorder.encodings.times import WAYS, Chosen, measure
from recorder.facts.frame import Frame

BODY = {"topics": [{"name": "t", "partitions": [{"partition_index": at, "leader_id": -1} for at in range(9)]}]}
LEADER = "topics.partitions.leader_id"


def answer(key: int, version: int, values: dict[str, Any], **other: Any) -> Frame:
    frame = Frame("response", "kafka", key, version, catalog.encode_response(key, version, 1, values))
    return replace(frame, **other)


@pytest.mark.real
def test_each_api_is_timed_in_each_encoding_as_ratios_to_fixed() -> None:
    frames = [answer(METADATA, 12, BODY), answer(METADATA, 9, BODY), answer(HEARTBEAT, 4, {"error_code": 0})]
    said: list[str] = []
    found = measure(frames, {}, said.append)
    assert [(one.api, one.side, one.messages) for one in found] == [
        ("Heartbeat", "response", 1),
        ("Metadata", "response", 2),
    ]
    assert said == ["Heartbeat", "Metadata"]
    for one in found:
        assert one.serialize.keys() == one.deserialize.keys() == {*WAYS}
        assert one.serialize["fixed"] == one.deserialize["fixed"] == 1
        assert min(*one.serialize.values(), *one.deserialize.values()) > 0


def test_frames_that_cant_be_read_are_left_out() -> None:
    masked = answer(METADATA, 12, BODY, masked_from=0)
    assert measure([masked, answer(METADATA, 12, BODY, api_version=99)], {}) == []


@pytest.mark.real
def test_a_best_encoding_is_that_of_the_fields_of_the_messages_version(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    real = sizes.reencoded

    def reencoded(message: Any, encodings: Any) -> Any:
        used.append(encodings)
        return real(message, encodings)

    monkeypatch.setattr(times, "reencoded", reencoded)
    pick = {("Metadata", "response", 12): Chosen({LEADER: "signed"}, {LEADER: "unsigned"})}
    measure([answer(METADATA, 12, BODY)], pick)
    assert used == [*Encoding, {LEADER: Encoding.SIGNED}, {LEADER: Encoding.UNSIGNED}]


@pytest.mark.real
def test_an_answer_in_another_version_than_asked_for_is_timed_in_its_own() -> None:
    frame = answer(API_VERSIONS, 0, {"error_code": 35}, api_version=4)
    assert [one.messages for one in measure([frame], {})] == [1]
