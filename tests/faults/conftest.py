"""Provides a bucket behind a store that can fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.faulty_s3 import Front
    from tests.s3 import Store


@pytest.fixture
def server() -> Iterator[Store]:
    """The store, with the bucket, which nothing fails."""
    # few tests need it, and it takes long to import
    from tests.recorder.shipping.shipped import BUCKET
    from tests.s3 import store

    with store() as opened:
        opened.system().create_dir(BUCKET)
        yield opened


@pytest.fixture
def store_front(server: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """The store as the environment leads to it; it fails as the test says."""
    from tests.faulty_s3 import front

    with front(server) as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        yield opened
