"""Builds a small recording, as a proxy and its compactor leave it."""

import random
from pathlib import Path

from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Player


def two_sessions(folder: Path) -> Path:
    """Makes two sessions of some segments each."""
    for seed in range(2):
        rng = random.Random(seed)
        talk = traffic.cut(rng, traffic.talk(rng, seed, 20), 400)
        tap = open_tap(folder, RecordSettings(segment=8_000), f"s{seed}")
        player = Player(tap)
        player.open(talk)
        for chunk in talk.chunks:
            player.play(seed, chunk)
            tap.flush()
        player.close(seed)
        tap.close()
    compact(folder)
    return folder
