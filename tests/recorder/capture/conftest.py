"""Provides captures in a test's own folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.files import Folder
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Folder]:
    """An empty session folder."""
    with Folder.at(tmp_path) as opened:
        yield opened


@pytest.fixture
def tap_of(tmp_path: Path) -> Iterator[Callable[..., Tap]]:
    """Opens a tap into `tmp_path`, which is closed when the test ends."""
    taps: list[Tap] = []

    def opened(**settings: object) -> Tap:
        taps.append(open_tap(tmp_path, RecordSettings(**settings)))  # type: ignore[arg-type]
        return taps[-1]

    yield opened
    for tap in taps:
        tap.close()
