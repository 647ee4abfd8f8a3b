"""Provides a terminal to the tests of commands, and a store to the tests of captures in buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.s3 import Store


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commands take standard output and error for terminals."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(scope="module")
def s3_server() -> Iterator[Store]:
    """An S3 server for a file's tests."""
    # few tests need it, and it takes long to import
    from tests.s3 import store

    with store() as opened:
        yield opened


@pytest.fixture
def s3(s3_server: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The S3 server, which captures behind `s3://` lead to."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server
