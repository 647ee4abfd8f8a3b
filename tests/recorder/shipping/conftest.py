"""Provides captures to ship, and a bucket behind a store that can fail."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.capture.compactor import compact
from recorder.capture.fact_maker import make_missing
from tests.faulty_s3 import Front, front
from tests.recorder.capture.test_compaction import record
from tests.recorder.shipping.shipped import BUCKET
from tests.s3 import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with facts, which no test changes."""
    folder = tmp_path_factory.mktemp("made")
    record(folder, random.Random(3), 3, 12, 9000)
    compact(folder)
    assert make_missing(folder) == []
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A capture with facts."""
    return Path(shutil.copytree(made, tmp_path / "capture"))


@pytest.fixture
def store_front(s3: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """A store with an empty bucket, which the environment leads to; it fails as the test says."""
    system = s3.system()
    system.create_dir(BUCKET)
    system.delete_dir_contents(BUCKET)
    with front(s3) as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        yield opened
