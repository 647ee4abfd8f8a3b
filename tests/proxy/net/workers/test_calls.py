from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.workers.calls import Calls, ProcessGone
from proxy.net.workers.channel import Channel, ChannelMessage, channel_pair


class Side:
    """One side of the channel: it notes calls, and answers as scripted."""

    def __init__(self, channel: Channel) -> None:
        self.heard: list[dict[str, Any]] = []
        self.calls = Calls(channel, self._now, self._handle)
        self.may_answer = trio.Event()
        self.may_answer.set()
        self._life = trio.CancelScope()

    async def run(self) -> None:
        with self._life:
            await self.calls.run()

    def end(self) -> None:
        self._life.cancel()

    def _now(self, message: ChannelMessage) -> bool:
        self.heard.append(message.payload)
        return "at once" in message.payload

    async def _handle(self, message: ChannelMessage) -> dict[str, Any] | None:
        await self.may_answer.wait()
        match message.payload.get("do"):
            case "double":
                return {"doubled": 2 * message.payload["number"]}
            case "fail":
                raise OSError(errno.EADDRINUSE, "in use")
            case "break":
                raise ZeroDivisionError
        return None


@pytest.fixture
async def sides(nursery: trio.Nursery) -> AsyncIterator[tuple[Side, Side]]:
    here, there = channel_pair()
    both = Side(here), Side(Channel(there))
    for side in both:
        nursery.start_soon(side.run)
    yield both
    nursery.cancel_scope.cancel()


async def test_a_question_is_answered(sides):
    assert (await sides[0].calls.ask({"do": "double", "number": 21}).wait())["doubled"] == 42
    assert (await sides[1].calls.ask({"do": "double", "number": 4}).wait())["doubled"] == 8


async def test_each_question_gets_its_own_answer(sides):
    asked = [sides[0].calls.ask({"do": "double", "number": number}) for number in range(20)]
    assert [(await answer.wait())["doubled"] for answer in asked] == [2 * number for number in range(20)]


async def test_a_notification_arrives_before_the_answer_to_a_later_call(sides):
    sides[1].calls.tell({"at once": 1})
    await sides[1].calls.ask({"at once": 2}).wait()
    assert [said["at once"] for said in sides[0].heard] == [1, 2]


async def test_a_call_that_is_handled_at_once_is_answered(sides):
    answer = sides[0].calls.ask({"at once": True})
    assert not answer.is_done
    await answer.settled()
    assert answer.is_done


async def test_the_callees_os_error_is_raised_by_the_call(sides):
    with pytest.raises(OSError, match="in use") as caught:
        await sides[0].calls.ask({"do": "fail"}).wait()
    assert caught.value.errno == errno.EADDRINUSE


async def test_a_fault_is_logged_and_answered(sides, caplog):
    with pytest.raises(OSError, match="fault"):
        await sides[0].calls.ask({"do": "break"}).wait()
    assert "fault between the proxy's processes" in caplog.text
    assert (await sides[0].calls.ask({"do": "double", "number": 1}).wait())["doubled"] == 2


async def test_a_pending_call_raises_process_gone_when_the_peer_ends(sides, nursery):
    sides[1].may_answer = trio.Event()
    answer = sides[0].calls.ask({"do": "double", "number": 1})
    await wait_all_tasks_blocked()
    sides[1].end()
    with pytest.raises(ProcessGone):
        await answer.wait()
    await answer.settled()


async def test_a_call_to_an_ended_process_raises_process_gone(sides):
    sides[1].end()
    await wait_all_tasks_blocked(0.01)
    with pytest.raises(ProcessGone):
        await sides[0].calls.ask({"do": "double", "number": 1}).wait()
