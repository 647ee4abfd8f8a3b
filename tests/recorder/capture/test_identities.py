"""Tests that each part of a capture tells what its clusters can be known by."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.schema.addresses import Address
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.merging import merge
from recorder.capture.reader import files, row_groups
from recorder.capture.session import RecordSettings
from recorder.capture.spool import LONGEST_NAME
from recorder.capture.tap import Tap, open_tap
from recorder.replay.recorded_clusters import recorded_clusters
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import kill, segment_path, segments, spool_of
from tests.recorder.capture.traffic import Player

ALL = {"ids": ["an-id"], "upstreams": ["broker:9092", "10.0.0.1:9092"], "listeners": ["0.0.0.0:19092"]}
EVERY_HOUR = 2


def recording(folder: Path, **settings: Any) -> Tap:
    """Records a talk over some hours, in small segments; what its cluster can be known by, before and amid it."""
    tap = open_tap(folder, RecordSettings(segment=2000, **settings), "s")
    player, rng = Player(tap), random.Random(3)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 12, traffic.KINDS), 300)
    tap.identified("main", ids=["an-id"], listeners=["0.0.0.0:19092"])
    tap.identified("main", upstreams=["broker:9092"])
    player.open(talk, cluster="main")
    for number, chunk in enumerate(talk.chunks):
        if number == 1:
            tap.identified("main", ids=["an-id"], upstreams=["10.0.0.1:9092"])
        later = number * EVERY_HOUR * c.HOUR_NS // len(talk.chunks)
        player.play(1, chunk._replace(at_ns=chunk.at_ns + later))
        tap.flush()
    player.close(1)
    return tap


def told(folder: Path, table: str = c.EVENTS_FOLDER) -> dict[tuple[str, int, str], list[Any]]:
    """What each file of each hour tells of clusters; of other tables: nothing."""
    found: dict[tuple[str, int, str], list[Any]] = {}
    for file in files(folder, table):
        rows = found.setdefault((file.date, file.hour, file.path.name), [])
        for group in row_groups(file, (c.KIND, c.CLUSTER, c.DETAIL, c.AT_NS)) if table == c.EVENTS_FOLDER else ():
            for row in group.to_pylist():
                if row[c.KIND] == c.EVENT_CLUSTER:
                    assert file.hour_ns <= row[c.AT_NS] < file.hour_ns + c.HOUR_NS
                    rows.append((row[c.CLUSTER], json.loads(row[c.DETAIL])))
    return found


def test_an_id_of_any_length_damages_no_capture(tmp_path: Path) -> None:
    tap = recording(tmp_path)
    tap.identified("main", ids=["x" * 2**15])
    tap.close()
    assert not compact(tmp_path).damaged
    ((_, last), *_), *_ = reversed(told(tmp_path).values())
    assert last["ids"] == ["an-id", "x" * LONGEST_NAME]


def end_in_order(tap: Tap) -> None:
    tap.close()


@pytest.mark.parametrize("end", [end_in_order, kill])
@pytest.mark.parametrize("settings", [{}, {"apis": ("Heartbeat",)}, {"listeners": ("nowhere:1",)}], ids=str)
def test_each_file_of_frames_and_events_has_it_whatever_is_left_out(
    end: Callable[[Tap], None], settings: dict[str, Any], tmp_path: Path
) -> None:
    end(recording(tmp_path, **settings))
    compact(tmp_path)
    events = told(tmp_path)
    assert told(tmp_path, c.FRAMES_FOLDER).keys() <= events.keys()
    assert len({place[:2] for place in events}) > 1 or settings
    assert all(rows == [("main", ALL)] for rows in [*events.values()][1:])
    (first,) = next(iter(events.values()))
    assert (first[0], first[1]["ids"]) == ("main", ["an-id"])


def test_a_cluster_whose_connections_are_left_out_is_not_told_of_until_they_are_recorded(tmp_path: Path) -> None:
    tap = open_tap(tmp_path, RecordSettings(clusters=("main",)), "s")
    tap.identified("other", ids=["its-id"])
    tap.node(1, "broker:9092", "0.0.0.0:19092", "other")
    tap.identified("main", ids=["an-id"])
    tap.flush()
    assert recorded_clusters(tmp_path).ids == {("s", "main"): {"an-id"}}
    select, _ = tap.selection_change(RecordSettings())
    select()
    tap.close()
    compact(tmp_path)
    found = recorded_clusters(tmp_path)
    assert found.ids == {("s", "main"): {"an-id"}, ("s", "other"): {"its-id"}}
    assert Address("broker", 9092) in found.addresses


def test_a_lost_segment_takes_it_from_no_later_file(tmp_path: Path) -> None:
    tap = recording(tmp_path)
    tap.close()
    spool = spool_of(tmp_path, tap)
    lost = segments(spool)[:2]
    for number in lost:
        segment_path(spool, number).unlink()
    compact(tmp_path)
    assert told(tmp_path)
    assert all(rows == [("main", ALL)] for rows in told(tmp_path).values())


def test_a_compaction_that_resumes_still_has_it(tmp_path: Path) -> None:
    tap = recording(tmp_path)
    compact(tmp_path)
    before = told(tmp_path).keys()
    tap.close()
    compact(tmp_path)
    assert told(tmp_path).keys() > before
    assert all(("main", ALL) in rows for place, rows in told(tmp_path).items() if place not in before)


def test_merged_files_have_it(tmp_path: Path) -> None:
    recording(tmp_path / "a").close()
    compact(tmp_path / "a")
    merge(tmp_path / "a", tmp_path / "b", now_ns=time.time_ns() + 24 * c.HOUR_NS)
    assert {hour[:2] for hour in told(tmp_path / "b")} == {hour[:2] for hour in told(tmp_path / "a")}
    assert all(("main", ALL) in rows for rows in told(tmp_path / "b").values())
