"""A disk that fails as long as a test wants, under a tap."""

import errno
import random
import threading
from collections.abc import Callable

import pytest

from recorder.capture.tap import Tap
from tests.brokers.waiting import PATIENCE
from tests.recorder.capture.traffic import Player, Talk


def stall(tap: Tap, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the tap's disk fail; the returned function mends it."""
    monkeypatch.setattr("recorder.capture.writer.RETRY_SECONDS", 0.001)
    log = tap._writer.log
    real = log._writev

    def fails(descriptor: int, buffers: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log._writev = fails

    def mend() -> None:
        log._writev = real
        while tap._writer.queue:
            tap.flush()

    return mend


def wait_for_room(tap: Tap) -> None:
    freed = threading.Event()
    tap.when_not_full(freed.set)
    assert freed.wait(PATIENCE)


def play_on_a_bad_disk(tap: Tap, talks: list[Talk], rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays a chunk of each talk in turn. Now and then the disk accepts everything, and then nothing again."""
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    mend = stall(tap, monkeypatch)
    for turn in range(max(len(talk.chunks) for talk in talks)):
        for talk in talks:
            if turn < len(talk.chunks):
                player.play(talk.connection, talk.chunks[turn])
        if rng.random() < 0.05:
            mend()
            mend = stall(tap, monkeypatch)
    for talk in talks:
        player.close(talk.connection)
    mend()
