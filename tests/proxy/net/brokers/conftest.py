"""Fixtures for tests of the cluster's nodes and brokers."""

from collections.abc import AsyncIterator

import pytest

from tests.proxy.net.relays import Listeners


@pytest.fixture
async def listeners() -> AsyncIterator[Listeners]:
    listeners = Listeners()
    yield listeners
    listeners.close()
