"""What tests with sockets share: a broker, and a clock."""

import pytest
import trio
from trio.testing import MockClock

from tests.proxy.conversation.script import response
from tests.proxy.net.cluster import Broker

# real seconds in which nothing happens before time jumps: what the kernel has not delivered yet is no silence
SILENCE = 0.02


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=SILENCE)


@pytest.fixture
async def broker(nursery: trio.Nursery) -> Broker:
    broker = Broker()
    await broker.start(nursery)
    return broker


@pytest.fixture
def withheld(broker: Broker) -> trio.Event:
    """The broker answers when this is set."""
    may_answer = trio.Event()

    async def answer(key: int, version: int, correlation_id: int) -> bytes:
        await may_answer.wait()
        return response(correlation_id, b"pong")

    broker.answer = answer
    return may_answer
