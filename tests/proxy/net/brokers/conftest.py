"""Fixtures for tests of the cluster's nodes and brokers."""

from collections.abc import AsyncIterator

import pytest

from proxy.config import ClusterSettings
from proxy.net.brokers.nodes import Nodes
from proxy.net.state.file import KnownNode, SavedState
from tests.proxy.net.brokers.node_tables import Make
from tests.proxy.net.relays import Listeners, Watcher, settings


@pytest.fixture
async def listeners() -> AsyncIterator[Listeners]:
    listeners = Listeners()
    yield listeners
    listeners.close()


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def make(listeners: Listeners, watcher: Watcher) -> Make:
    """Makes tables of nodes, whose events go to the watcher."""

    def make(chosen: ClusterSettings | None = None, known: dict[int, KnownNode] | None = None) -> Nodes:
        return Nodes(chosen or settings(), listeners.serve, SavedState(known or {}), watcher)

    return make
