"""Tests of the cache of decoded values: a replay with it does the same as one without."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import Codec, decode_request, decode_response, encode_request, encode_response
from proxy.wire.catalog import UnknownMessage
from proxy.wire.keys import HEARTBEAT
from recorder.replay import messages
from recorder.replay.consumers import records
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, Origin, Peer, Values
from tests.recorder.replay.fake_kafka import Kafka, recorded
from tests.recorder.replay.simulation import Simulation
from tests.strategies import messages as any_message
from tests.sweeps import examples

# the module's cached functions
REMEMBERING = ("remembered_request", "remembered_answer", "remembered_batches")
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def request_values(key: int, version: int, frame: bytes) -> Values:
    """The values of a recorded request."""
    return Exchange(Origin("s", 1, 0), key, version, frame, 0, 0, Peer("host", "client")).request


def play(seed: int, *, is_like: bool) -> Simulation:
    """Plays a random recording to one of the two fakes."""
    random = Random(seed)
    first = Kafka.like(is_v2=True)
    target = Kafka.like(is_v2=True) if is_like else Kafka.other(random, is_v2=True)
    recording = recorded(random, first, 40, is_timed=False)
    found = Simulation(
        recording, target.of_replay, Options(speed=None), cluster=target.cluster(), prepared=target.prepared()
    )
    found.run()
    found.world.close(found.engine.progress, 0)
    return found


def without_memory(patch: pytest.MonkeyPatch) -> None:
    for name in REMEMBERING:
        patch.setattr(messages, name, getattr(messages, name).__wrapped__)
    patch.setattr(records, "_remembered_digests", records._remembered_digests.__wrapped__)
    patch.setattr(messages, "repeatable", lambda api_key, frame: None)


@examples(20, derandomize=True)
@given(seed=st.integers(0, 2**32), is_like=st.booleans())
def test_a_replay_that_remembers_sends_and_finds_the_same(seed: int, is_like: bool) -> None:
    mine = play(seed, is_like=is_like)
    with pytest.MonkeyPatch.context() as patch:
        without_memory(patch)
        other = play(seed, is_like=is_like)
    assert mine.got == other.got
    assert mine.world.result == other.world.result


def written(value: Any) -> Any:
    """Returns a copy of values, with records as bytes."""
    if isinstance(value, messages.RememberedRequest):
        return written(value.values)
    if isinstance(value, dict):
        return {name: written(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [written(inner) for inner in value]
    return bytes(value) if isinstance(value, memoryview) else value


class Kept:
    """A function that caches every result, with a copy made at the first call."""

    def __init__(self, made: Callable[..., Any]) -> None:
        self.made = made
        self.found: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def __call__(self, *key: Any) -> Any:
        if key not in self.found:
            value = self.made(*key)
            self.found[key] = value, written(value)
        return self.found[key][0]


@examples(20, derandomize=True)
@given(seed=st.integers(0, 2**32), is_like=st.booleans())
def test_remembered_values_are_never_changed(seed: int, is_like: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept = [Kept(getattr(messages, name).__wrapped__) for name in REMEMBERING]
        for name, each in zip(REMEMBERING, kept, strict=True):
            patch.setattr(messages, name, each)
        play(seed, is_like=is_like)
    assert all(each.found for each in kept)
    for each in kept:
        assert all(written(now) == before for now, before in each.found.values())


@given(message=any_message())
def test_values_are_those_of_the_frame(message: tuple[Codec, dict[str, Any]]) -> None:
    codec, values = message
    key, version = codec.message.key, codec.version
    assert key is not None
    read: tuple[object, dict[str, Any]] | UnknownMessage
    if codec.message.kind == "request":
        frame = encode_request(key, version, 7, "client", values)
        found, read = request_values(key, version, frame), decode_request(frame)
    else:
        frame = encode_response(key, version, 7, values)
        found, read = messages.answer_values(key, version, frame), decode_response(frame, key, version)
    assert isinstance(read, tuple)
    assert repr(written(found)) == repr(written(read[1]))


def test_a_small_message_that_comes_again_is_decoded_once() -> None:
    frames = [encode_request(HEARTBEAT, 4, number, "client", BEAT) for number in (1, 2)]
    first, second = (request_values(HEARTBEAT, 4, frame) for frame in frames)
    assert first is second


def test_a_message_from_another_client_or_in_another_version_is_another_one() -> None:
    asked = [(4, "client"), (4, "other"), (3, "client")]
    frames = [(version, encode_request(HEARTBEAT, version, 1, name, BEAT)) for version, name in asked]
    found = [request_values(HEARTBEAT, version, frame) for version, frame in frames]
    assert len({id(each) for each in found}) == len(asked)
