"""A clock for tests with sockets: what the kernel has not delivered yet shall not be taken for silence."""

import pytest
from trio.testing import MockClock

# real seconds in which nothing happens before time jumps
SILENCE = 0.02


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=SILENCE)
