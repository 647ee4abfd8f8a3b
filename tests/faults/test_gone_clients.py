"""Tests of responses that a broker sends to a client that has gone: the proxy reads them, so the capture has them.

The client leaves after each byte that reaches it. The broker sends the rest in two parts: one before it can know that
the client has left, and one after the proxy's end of stream where the client has reset the connection.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from proxy.conversation import Cause
from recorder.capture.compactor import compact
from tests.faults.cuts import RESPONSE_HEAD, Ending, dial_before_the_first_byte, go, has_unread, stage
from tests.proxy.net.frames import ping, pong
from tests.recorder.capture.looks import event_rows, frame_rows

pytestmark = pytest.mark.real

NUMBERS = range(1, 5)
RESPONSES = b"".join(map(pong, NUMBERS))
# where the broker may pause: the proxy holds back the beginning of a head
PAUSES = [at for at in range(len(RESPONSES)) if at % len(pong(1)) not in range(1, RESPONSE_HEAD)]


@pytest.mark.parametrize("leaves_unread", [False, True], ids=["all read", "a byte unread"])
@pytest.mark.parametrize("ending", Ending, ids=lambda ending: ending.value)
async def test_all_that_a_broker_sends_to_a_client_that_has_gone_is_recorded(
    ending: Ending, leaves_unread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial_before_the_first_byte(monkeypatch)
    is_reset = ending is Ending.RESET or leaves_unread
    async with stage(tmp_path) as play:
        for sent in PAUSES[leaves_unread:]:
            client, broker, _ = await play.connect()
            await client.say(*map(ping, NUMBERS))
            await broker.hears(*map(ping, NUMBERS))
            await broker.say(RESPONSES[:sent])
            await client.hears(RESPONSES[: sent - leaves_unread])
            if leaves_unread:
                await has_unread(client)
            await go(client, ending)
            # one by one: the client's machine refuses the first of these bytes, and the proxy notices with the next
            middle = (sent + len(RESPONSES)) // 2
            for at in range(sent, middle):
                await broker.say(RESPONSES[at : at + 1])
                await trio.sleep(0)
            if is_reset:
                await broker.hears_the_end()
            await broker.say(RESPONSES[middle:])
            broker.close()
    compact(tmp_path)
    found: dict[int, list[bytes]] = {}
    for row in frame_rows(tmp_path):
        if row["kind"] == "response" and row["connection"] > 1:
            assert row["note"] is None
            found.setdefault(row["connection"], []).append(row["frame"])
    assert found == {number: [pong(each)[4:] for each in NUMBERS] for number in range(2, len(play.told) + 1)}
    causes = {row["cause"] for row in event_rows(tmp_path, "closed")}
    assert causes <= {Cause.CLIENT_RESET.value, Cause.CLIENT_CLOSED.value}
