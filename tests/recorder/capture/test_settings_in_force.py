"""Tests that a session tells what was in force: settings, versions; in each hour, after losses and over restarts."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from proxy.files import Folder
from recorder.capture.compactor import compact, compact_session
from recorder.capture.segments import segments
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import event_rows, segment_path, session_folder
from tests.recorder.capture.traffic import Player

SETTINGS = {
    ("log", "level"): '"info"',
    ("clusters", "main", "upstream"): '["localhost:9092"]',
    ("clusters", "a b", "listen"): '"127.0.0.1:1"',
}
SHOWN = {
    "log.level": '"info"',
    "clusters.main.upstream": '["localhost:9092"]',
    'clusters."a b".listen': '"127.0.0.1:1"',
}


def tap_of(folder: Path, **others: Any) -> Tap:
    return open_tap(folder, RecordSettings(**{"in_force": SETTINGS, **others}), "s")


def told(folder: Path) -> list[tuple[str | None, dict[str, Any]]]:
    return [(row["cause"], json.loads(row["detail"])) for row in event_rows(folder, "settings")]


def play(tap: Tap, number: int) -> None:
    random = Random(number)
    talk = traffic.cut(random, traffic.talk(random, number, 5), 400)
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(number, chunk)
    player.close(number)
    tap.flush()


def test_a_session_begins_with_the_settings_and_versions_in_force(tmp_path: Path) -> None:
    tap = tap_of(tmp_path)
    tap.close()
    compact(tmp_path)
    (cause, detail), *repeated = told(tmp_path)
    assert cause == "started"
    assert detail["settings"] == SHOWN
    assert detail["versions"]["python"] == platform.python_version()
    assert {*detail["versions"]} == {"kafka-wiretap", "python"}
    assert [each for each, _ in repeated] == [None] * len(repeated)


def test_a_program_without_settings_tells_its_versions_alone(tmp_path: Path) -> None:
    open_tap(tmp_path, RecordSettings(), "s").close()
    compact(tmp_path)
    assert {*told(tmp_path)[0][1]} == {"versions"}


def test_a_change_is_an_event_that_names_the_keys_and_what_is_undone_is_one_too(tmp_path: Path) -> None:
    tap = tap_of(tmp_path)
    changed = {**SETTINGS, ("log", "level"): '"debug"', ("drain",): "30.0"}
    apply, undo = tap.selection_change(replace(tap.settings, in_force=changed))
    apply()
    same, _ = tap.selection_change(replace(tap.settings, in_force=changed))
    same()
    undo()
    tap.close()
    compact(tmp_path)
    events = [(cause, detail) for cause, detail in told(tmp_path) if cause is not None]
    assert [cause for cause, _ in events] == ["started", "changed", "changed"]
    assert [detail.get("changed") for _, detail in events] == [None, ["drain", "log.level"], ["drain", "log.level"]]
    assert [detail["settings"]["log.level"] for _, detail in events] == ['"info"', '"debug"', '"info"']


def test_nothing_is_told_of_clusters_that_are_left_out(tmp_path: Path) -> None:
    tap_of(tmp_path, clusters=("main",)).close()
    compact(tmp_path)
    assert [*told(tmp_path)[0][1]["settings"]] == ["log.level", "clusters.main.upstream"]


def test_each_file_repeats_what_is_in_force_also_where_the_first_segment_is_lost(tmp_path: Path) -> None:
    tap = tap_of(tmp_path, segment=500)
    for number in range(4):
        play(tap, number)
    folder = session_folder(tmp_path, "s")
    first, *rest = segments_in(folder)
    assert rest
    segment_path(folder, first).unlink()
    tap.close()
    compact(tmp_path)
    found = told(tmp_path)
    assert [cause for cause, _ in found if cause is not None] == []
    assert found
    assert all(detail["settings"] == SHOWN for _, detail in found)


def segments_in(folder: Path) -> list[int]:
    with Folder.at(folder) as opened:
        return segments(opened)


def test_a_compactor_that_is_started_again_knows_what_is_in_force(tmp_path: Path) -> None:
    tap = tap_of(tmp_path, segment=500)
    for number in range(4):
        play(tap, number)
    stops = iter(["state"])

    class Stopped(Exception):
        pass

    def stop(step: str) -> None:
        if step.startswith("remove segment") and next(stops, None):
            raise Stopped

    tap.close()
    with pytest.raises(Stopped):
        compact_session(tmp_path, "s", before_step=stop)
    compact(tmp_path)
    found = told(tmp_path)
    assert [cause for cause, _ in found if cause is not None] == ["started"]
    assert all(detail["settings"] == SHOWN for _, detail in found)
