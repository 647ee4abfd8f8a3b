"""Builds a capture with losses of every kind: gaps, frames and bodies left out by the settings, a dead session."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from recorder.missing import Gaps, LostOfApi, Missing
from tests.recorder.capture import traffic
from tests.recorder.capture.bad_disk import play_on_a_bad_disk
from tests.recorder.capture.looks import event_rows, frame_rows, kill
from tests.recorder.capture.traffic import Player, some_talks

CHOSEN = ("Produce", "Metadata")


@dataclass(frozen=True)
class Lossy:
    """The capture's folder, and its losses by a plain count of what arrived and what is stored."""

    folder: Path
    missing: Missing


def make_lossy(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> Lossy:
    """Makes two sessions: one on a bad disk, with chosen APIs and cut bodies, and one whose proxy was killed."""
    rng = random.Random(seed)
    talks = some_talks(rng, 3, 120, 300)
    tap = open_tap(folder, RecordSettings(queue=6_000, apis=CHOSEN, bodies=100))
    with monkeypatch.context() as bad_disk:
        play_on_a_bad_disk(tap, talks, rng, bad_disk)
    tap.close()
    compact(folder)
    died = _die(folder, rng)
    return Lossy(folder, _counted(folder, sum(len(traffic.expected(talk)) for talk in talks), died))


def _die(folder: Path, rng: random.Random) -> str:
    """Ends a session with the log's last byte, as when its proxy is killed."""
    tap = open_tap(folder, RecordSettings())
    talk = traffic.cut(rng, traffic.talk(rng, 9, 5), 500)
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(9, chunk)
    kill(tap)
    compact(folder)
    return tap.session


def _counted(folder: Path, came: int, died: str) -> Missing:
    rows = [row for row in frame_rows(folder) if row["session"] != died]
    gaps = event_rows(folder, "gap")
    lost: Counter[tuple[str, str]] = Counter()
    for gap in gaps:
        for api, told in json.loads(gap["detail"])["lost"].items():
            lost[api, "frames"] += sum(told.get(name, 0) for name in ("requests", "responses", "frames"))
            lost[api, "bytes"] += sum(told.get(name, 0) for name in ("request_bytes", "response_bytes"))
    frames, size = (sum(gap[name] for gap in gaps) for name in ("frames", "bytes"))
    gone = [row["size"] - row["stored"] for row in rows]
    return Missing(
        [Gaps("queue_full", len(gaps), 0, frames, size)],
        [
            LostOfApi("queue_full", api, lost[api, "frames"], lost[api, "bytes"])
            for api in sorted({one for one, _ in lost})
        ],
        left_out=came - len(rows) - frames,
        cut_frames=sum(size > 0 for size in gone),
        cut_bytes=sum(gone),
        died=[died],
    )
