"""Minimal settings of clusters, and the error of wrong ones."""

from typing import Any

import pytest

from proxy.config import ClusterSettings
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting

LISTEN = Address("127.0.0.1", 19092)
BROKER = Address("broker-1", 9092)


def cluster(*upstream: Address, listen: Address = LISTEN, **others: Any) -> ClusterSettings:
    return ClusterSettings(upstream or (BROKER,), listen, **others)


def wrong(error: pytest.ExceptionInfo[BadSetting]) -> tuple[str, ...]:
    """Returns the error lines, each of which must show a correction."""
    assert all("\n" not in line and "right would be" in line for line in error.value.lines)
    return error.value.lines
