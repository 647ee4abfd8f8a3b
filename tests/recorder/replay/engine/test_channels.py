"""Tests of one connection to the target: each answer finds its request."""

from __future__ import annotations

import pytest

from proxy.wire import encode_response, request_head
from proxy.wire.keys import METADATA
from recorder.replay.engine.channels import Channel, OutgoingRequest
from tests.tables import each_row

VERSION = 9
LARGEST = 2**31 - 1


class Asker:
    """Ignores what becomes of its request."""

    def answered(self, answer: object, frame: bytes | None, now: int) -> None: ...
    def left(self, given: int, began: int) -> None: ...
    def unsent(self, now: int) -> None: ...


def asks(*, awaits: bool = True) -> OutgoingRequest:
    return OutgoingRequest(METADATA, VERSION, {"topics": None}, "app", awaits, Asker())


def sent(channel: Channel, out: OutgoingRequest) -> int:
    """Sends a request. Returns its correlation id, as a broker reads it."""
    action = channel.send(out, 0)
    assert action is not None
    return request_head(bytes(action.data)[4:]).correlation_id


@each_row("last", [0, 7, LARGEST - 2, LARGEST - 1, LARGEST])
def test_each_answer_finds_its_request_however_many_a_channel_has_sent(last: int) -> None:
    channel = Channel(1, 1, None, is_open=True, _last=last)
    requests = [asks() for _ in range(4)]
    numbers = [sent(channel, out) for out in requests]
    assert len({*numbers}) == len(requests)
    for number, out in zip(numbers, requests, strict=True):
        found = channel.receive(encode_response(METADATA, VERSION, number, {}))
        assert found is not None
        assert found[0] is out


@pytest.mark.parametrize("last", [0, LARGEST - 1, LARGEST])
def test_an_answer_to_a_request_that_needs_none_is_ignored(last: int) -> None:
    channel = Channel(1, 1, None, is_open=True, _last=last)
    number = sent(channel, asks(awaits=False))
    assert channel.receive(encode_response(METADATA, VERSION, number, {})) is None
