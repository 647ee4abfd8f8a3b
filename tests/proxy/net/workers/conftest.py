"""Fixtures for tests with several workers: the workers, and a log with all levels."""

import logging
from collections.abc import AsyncIterator

import pytest
import trio

from tests.proxy.net.workers.scripted import Team


@pytest.fixture
async def team(nursery: trio.Nursery) -> AsyncIterator[Team]:
    yield Team(nursery)
    nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kafka-wiretap")
