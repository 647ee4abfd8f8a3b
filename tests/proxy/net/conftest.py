"""Fixtures for tests with sockets: brokers, certificates, and clocks."""

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.proxy.conversation.script import response
from tests.proxy.net.cluster import Broker
from tests.proxy.net.tls_clusters import TlsBroker
from tests.proxy.net.tls_peers import Certificates, broker_context, certificates

# real seconds without events before time jumps: bytes that the kernel has yet to deliver are no silence
SILENCE = 0.02


@pytest.fixture
def jumping_clock() -> MockClock:
    """A clock that jumps even while threads work, for tests in which they hang."""
    return MockClock(autojump_threshold=SILENCE)


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """A clock that stands still while a thread works, because a busy machine may start it late."""
    clock = MockClock(autojump_threshold=SILENCE)
    in_thread, working = trio.to_thread.run_sync, 0

    async def run_sync(*work: Any, **options: Any) -> Any:
        nonlocal working
        working += 1
        clock.autojump_threshold = math.inf
        try:
            return await in_thread(*work, **options)
        finally:
            working -= 1
            if not working:
                clock.autojump_threshold = SILENCE

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    return clock


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


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def plain(broker: Broker) -> Broker:
    """The broker, which speaks no TLS."""
    return broker


@pytest.fixture
async def secure(nursery: trio.Nursery, signed: Certificates) -> TlsBroker:
    """A broker that requires a certificate."""
    broker = TlsBroker(broker_context(signed.broker, signed.ca))
    await broker.start(nursery)
    return broker
