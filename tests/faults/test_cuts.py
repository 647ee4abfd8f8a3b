"""Tests of a client or broker that is killed at any byte of a frame, by an end of stream or by a reset.

For each byte, these must hold:

- The other side has received exactly the bytes so far, except a beginning that the proxy holds (a head; a response to
  rewrite, which is sent whole or not at all).
- The connection ends with its cause. Each request counts once, as answered, one-way or unanswered.
- The capture has every byte that arrived, once, and says how many are missing. It has no password.
- Another client is served afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation import Cause
from proxy.wire import catalog
from recorder.capture import session as sessions
from recorder.capture.compactor import compact
from tests.faults.cuts import (
    ANSWERED,
    DIALOGUES,
    PASSWORD,
    WALKED,
    Dialogue,
    Ending,
    Expected,
    Stage,
    Turn,
    cuts,
    dial_before_the_first_byte,
    go,
    has_unread,
    stage,
)
from tests.proxy.rewrite.responses import replaced_slowly
from tests.recorder.capture.looks import event_rows, frame_rows, log_bytes, session_folder

pytestmark = [pytest.mark.real, pytest.mark.sweep]

ENDINGS = pytest.mark.parametrize("ending", Ending, ids=lambda ending: ending.value)
CLIENT_GONE = {Ending.FIN: Cause.CLIENT_CLOSED, Ending.RESET: Cause.CLIENT_RESET}
BROKER_GONE = {Ending.FIN: Cause.BROKER_CLOSED, Ending.RESET: Cause.BROKER_RESET}


def dialogues(some: dict[str, Dialogue]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dialogue", some.values(), ids=some)


@pytest.fixture(autouse=True)
def _broker_before_the_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    dial_before_the_first_byte(monkeypatch)


@asynccontextmanager
async def playing(folder: Path) -> AsyncIterator[Stage]:
    """Yields a stage; checks all that was played on it afterwards."""
    async with stage(folder) as play:
        yield play
    assert Counter(play.running.closes()) == Counter(told.cause and told.cause.value for told in play.told)
    assert_counted(play)
    (session,) = sessions.sessions(folder)
    assert PASSWORD[:4] not in log_bytes(session_folder(folder, session))
    compact(folder)
    assert_captured(folder, play)


def assert_counted(play: Stage) -> None:
    rows = play.running.cluster.traffic.rows.values()
    for name, counted in (("exchanges", "answered"), ("one_way", "one_way"), ("unanswered", "unanswered")):
        assert sum(getattr(row, name) for row in rows) == sum(getattr(told, counted) for told in play.told), name


def assert_captured(folder: Path, play: Stage) -> None:
    found = {number: list(rows) for number, rows in groupby(frame_rows(folder), lambda row: row["connection"])}
    for number, told in enumerate(play.told, 1):
        rows = found.pop(number, [])
        assert [row["sequence"] for row in rows] == list(range(len(rows)))
        assert [seen(row, expected) for row, expected in zip(rows, told.rows, strict=True)] == told.rows
    assert not found
    assert [row["cause"] for row in closings(folder)] == [told.cause and told.cause.value for told in play.told]


def closings(folder: Path) -> list[dict[str, Any]]:
    return sorted(event_rows(folder, "closed"), key=lambda row: row["connection"])


def seen(row: dict[str, Any], expected: Expected) -> Expected:
    """Returns a row's content in the form of the expected one, whose secrets may be masked."""
    frame = bytearray(row["frame"])
    if expected.secret:
        for start, length in row["masked"] or ():
            assert not any(frame[start : start + length])
            frame[start : start + length] = expected.bytes[start : start + length]
    else:
        assert row["masked"] is None
    never_came = row["note"].split()[1] if (row["note"] or "").startswith("cut: ") else 0
    return Expected(row["kind"], bytes(frame), int(never_came), expected.secret)


def body_of(frame: bytes, key: int, version: int) -> dict[str, Any]:
    decoded = catalog.decode_response(frame, key, version)
    assert isinstance(decoded, tuple)
    return decoded[1]


def assert_whole(turn: Turn, heard: bytes, play: Stage) -> None:
    """Asserts that the client gets the whole response, with addresses rewritten."""
    if turn.through is None:
        assert heard == turn.response
        return
    assert turn.response is not None
    key, version = (int.from_bytes(turn.request[at : at + 2], "big") for at in (4, 6))
    told, sent = (body_of(frame[4:], key, version) for frame in (heard, turn.response))
    # padding for a changed length
    told.pop("_tags", None)
    nodes = play.running.cluster.nodes
    assert told == replaced_slowly(sent, {row.node_id: nodes.advertised(row.node_id) for row in nodes.listeners()})
    assert heard[: turn.through] == turn.response[: turn.through]


@dialogues(DIALOGUES)
@ENDINGS
async def test_a_client_killed_at_any_byte_of_its_request(dialogue: Dialogue, ending: Ending, tmp_path: Path) -> None:
    *before, turn = dialogue
    async with playing(tmp_path) as play:
        for cut in cuts(turn.request):
            client, broker, told = await play.connect()
            await play.talk(client, broker, told, before)
            await client.say(turn.request[:cut])
            await go(client, ending)
            # a peer that ends in order has sent all its bytes
            await broker.hears(turn.request[:cut] if ending is Ending.FIN else turn.request_through(cut))
            told.saw(turn, 0, cut)
            if ending is Ending.FIN and cut == len(turn.request) and turn.response is not None:
                # the broker's side ends once it has answered, though nobody takes the response
                await broker.say(turn.response)
                told.saw(turn, 1, len(turn.response))
            await broker.hears_the_end()
            broker.close()
            told.cause = CLIENT_GONE[ending] if cut or before else Cause.PROBE


@dialogues(DIALOGUES)
@ENDINGS
async def test_a_broker_killed_at_any_byte_of_a_request(dialogue: Dialogue, ending: Ending, tmp_path: Path) -> None:
    *before, turn = dialogue
    async with playing(tmp_path) as play:
        for cut in cuts(turn.request)[1:]:
            client, broker, told = await play.connect()
            await play.talk(client, broker, told, before)
            await client.say(turn.request)
            await broker.hears(turn.request[:cut])
            if cut < len(turn.request):
                await has_unread(broker)
            await go(broker, ending)
            await client.hears_the_end()
            client.close()
            told.saw(turn, 0, len(turn.request))
            # a close with unread bytes is a reset
            told.cause = BROKER_GONE[ending if cut == len(turn.request) else Ending.RESET]


@dialogues(ANSWERED | {"walked-fetch": WALKED})
@ENDINGS
async def test_a_broker_killed_at_any_byte_of_its_response(dialogue: Dialogue, ending: Ending, tmp_path: Path) -> None:
    *before, turn = dialogue
    assert turn.response is not None
    async with playing(tmp_path) as play:
        for cut in cuts(turn.response, turn.through):
            client, broker, told = await play.connect()
            await play.talk(client, broker, told, before)
            await client.say(turn.request)
            await broker.hears(turn.request)
            await broker.say(turn.response[:cut])
            await go(broker, ending)
            heard = await client.hear_all()
            client.close()
            if cut == len(turn.response):
                assert_whole(turn, heard, play)
            elif cut < turn.held and ending is Ending.FIN:
                assert heard == turn.response[:cut]
            else:
                assert heard == turn.response_through(cut)
            told.saw(turn, 0, len(turn.request))
            told.saw(turn, 1, cut)
            told.cause = BROKER_GONE[ending]


@dialogues(ANSWERED)
@ENDINGS
async def test_a_client_killed_at_any_byte_of_a_response(dialogue: Dialogue, ending: Ending, tmp_path: Path) -> None:
    *before, turn = dialogue
    assert turn.response is not None
    async with playing(tmp_path) as play:
        for cut in cuts(turn.response)[1:]:
            client, broker, told = await play.connect()
            await play.talk(client, broker, told, before)
            await client.say(turn.request)
            await broker.hears(turn.request)
            await broker.say(turn.response)
            await client.hear(cut)
            if cut < len(turn.response):
                await has_unread(client)
            await go(client, ending)
            await broker.hears_the_end()
            broker.close()
            told.saw(turn, 0, len(turn.request))
            told.saw(turn, 1, len(turn.response))
            told.cause = CLIENT_GONE[ending if cut == len(turn.response) else Ending.RESET]
