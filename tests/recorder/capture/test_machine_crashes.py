"""Tests of crashes of the machine: what `capture.fsync` may lose, and that it is said; what is published stays."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.files import Folder
from recorder.capture.compactor import compact, compact_session
from recorder.capture.fact_files import State, state_of, stems
from recorder.capture.fact_maker import make_missing
from recorder.capture.session import Fsync, RecordSettings
from recorder.capture.spool import EntryKind
from recorder.capture.writer import Log
from tests.recorder.capture.crashing_disk import CrashingDisk, Rest, crashing_disk
from tests.recorder.capture.looks import event_rows, frame_rows, raw_entries, segments
from tests.recorder.capture.test_compaction import (
    Recorded,
    assert_all_is_accounted_for,
    assert_no_connection_is_passed_over,
    assert_rows_are_what_was_recorded,
    record,
)
from tests.sweeps import examples

SEED = st.integers(0, 1 << 32)


@contextmanager
def folders() -> Iterator[tuple[Path, Path, CrashingDisk]]:
    """An empty folder on a disk that may crash, and a path for what is left of it."""
    with tempfile.TemporaryDirectory() as around:
        live = Path(around) / "live"
        live.mkdir()
        with crashing_disk(live) as disk:
            yield live, Path(around) / "left", disk


def moved(recorded: Recorded, folder: Path) -> Recorded:
    recorded.folder = folder
    return recorded


def names_of(rows: list[dict[str, Any]]) -> set[tuple[int, int, str]]:
    return {(row["connection"], row["exchange"], row["kind"]) for row in rows if row["exchange"] is not None}


# --- the log --------------------------------------------------------------------------------------------
@pytest.mark.long
@examples(40)
@given(SEED, st.sampled_from([Fsync.CLOSE, Fsync.INTERVAL]), st.sampled_from(Rest))
def test_a_session_that_ended_loses_nothing_if_its_segments_are_synced(seed: int, fsync: Fsync, rest: Rest) -> None:
    rng = random.Random(seed)
    with folders() as (live, left, disk):
        recorded = record(live, rng, 3, 8, 4000, fsync=fsync)
        disk.crash(left, rng, rest)
        moved(recorded, left)
        compact(left)
        assert_rows_are_what_was_recorded(recorded)
        assert_all_is_accounted_for(recorded)
        assert not event_rows(left, "gap")


@pytest.mark.long
@examples(60)
@given(SEED, st.sampled_from(Rest))
def test_closed_segments_survive_and_what_the_open_one_loses_is_said(seed: int, rest: Rest) -> None:
    rng = random.Random(seed)
    with folders() as (live, left, disk):
        chunks, moment = 0, rng.randint(1, 60)
        closed = live.parent / "closed"

        def watch() -> None:
            nonlocal chunks
            chunks += 1
            if chunks == moment:
                # in this order: the log's thread may go on meanwhile, and close a segment
                disk.crash(closed, rng, Rest.ALL)
                disk.crash(left, rng, rest)
                newest = max((closed / "_spool" / "s").glob("*.log"))
                newest.unlink()

        recorded = moved(record(live, rng, 3, 8, 3000, watch=watch, fsync=Fsync.CLOSE), left)
        if chunks < moment:
            return
        compact(left)
        assert_rows_are_what_was_recorded(recorded)
        assert_no_connection_is_passed_over(recorded)
        compact(closed)
        # frames that the session's end has cut are more whole if more of the log is there
        whole = [row for row in frame_rows(closed) if not (row["note"] or "").startswith("cut")]
        assert names_of([row for row in whole if row["kind"] != "bytes"]) <= names_of(frame_rows(left))


@pytest.mark.long
@examples(60)
@given(SEED)
def test_without_syncs_anything_may_be_lost_and_is_said_as_long_as_the_session_is_there(seed: int) -> None:
    rng = random.Random(seed)
    with folders() as (live, left, disk):
        recorded = record(live, rng, 3, 8, 3000, fsync=Fsync.NEVER)
        disk.crash(left, rng, Rest.ANY_PART)
        compact(left)
        if segments(recorded.spool) and not frame_rows(left) and not event_rows(left):
            # the folder is there, and no segment: the session has died before it began
            return
        assert_rows_are_what_was_recorded(moved(recorded, left))
        assert_no_connection_is_passed_over(recorded)


def test_never_syncs_nothing_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    with crashing_disk(tmp_path / "live") as disk:
        record(tmp_path / "live", random.Random(1), 2, 8, 3000, fsync=Fsync.NEVER)
        disk.crash(tmp_path / "left", random.Random(1), Rest.NOTHING)
        assert len(segments(tmp_path / "live" / "_spool" / "s")) > 1
    assert not list((tmp_path / "left").rglob("*.log"))


def chunk(number: int) -> Any:
    return (int(EntryKind.BYTES), 0, 1, number * 100, number, bytes([number]) * 100, ())


def numbers(folder: Path) -> list[int]:
    return [entry.data[0] for entry in raw_entries(folder) if entry.kind == EntryKind.BYTES]


def test_at_an_interval_the_open_segment_is_synced_too(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    with crashing_disk(live) as disk, Folder.at(live) as session:
        log = Log(session, RecordSettings(fsync=Fsync.INTERVAL, fsync_interval=5))
        log.append([chunk(1), chunk(2)])
        log.sync_if_due(1e9)
        log.append([chunk(3)])
        log.sync_if_due(1e9 + 4)
        disk.crash(tmp_path / "early" / "live", random.Random(1), Rest.NOTHING)
        before = disk.syncs
        log.sync_if_due(1e9 + 5)
        # nothing has come since
        log.sync_if_due(1e9 + 50)
        assert disk.syncs == before + 1
        disk.crash(tmp_path / "late" / "live", random.Random(1), Rest.NOTHING)
        log.close()
    assert numbers(tmp_path / "early" / "live") == [1, 2]
    assert numbers(tmp_path / "late" / "live") == [1, 2, 3]


@pytest.mark.parametrize("fsync", [Fsync.CLOSE, Fsync.NEVER])
def test_otherwise_it_is_not(tmp_path: Path, fsync: Fsync) -> None:
    live = tmp_path / "live"
    live.mkdir()
    with crashing_disk(live) as disk, Folder.at(live) as session:
        log = Log(session, RecordSettings(fsync=fsync))
        log.append([chunk(1)])
        before = disk.syncs
        log.sync_if_due(1e9)
        assert disk.syncs == before
        log.close()


def test_a_disk_that_can_not_sync_costs_no_recording_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with Folder.at(tmp_path) as session:
        log = Log(session, RecordSettings(segment=300))
        for number in range(9):
            log.append([chunk(number)])
            log.roll_if_due(0)
        log.close()
    assert numbers(tmp_path) == [*range(9)]
    assert capsys.readouterr().err.count("the log can't be synced") <= 1


# --- what is published ----------------------------------------------------------------------------------
class Crash(BaseException):
    """The machine crashes at a step of the compaction."""


@pytest.mark.long
@examples(60)
@given(SEED, st.sampled_from(Rest))
# a segment without rows, whose removal is lost, while that of an older state is not
@example(435, Rest.ANY_PART)
def test_a_crash_of_the_machine_at_any_step_of_the_compaction_loses_no_row_and_makes_none_twice(
    seed: int, rest: Rest
) -> None:
    rng = random.Random(seed)
    with folders() as (live, left, disk):
        recorded = record(live, rng, 2, 8, 3000)
        steps = rng.randint(0, 40)

        def step(name: str) -> None:
            nonlocal steps
            steps -= 1
            if steps < 0:
                disk.crash(left, rng, rest)
                raise Crash(name)

        try:
            compact_session(live, "s", before_step=step)
        except Crash:
            pass
        else:
            disk.crash(left, rng, rest)
        compact(left)
        assert_rows_are_what_was_recorded(moved(recorded, left))
        assert_all_is_accounted_for(recorded)
        assert not event_rows(left, "gap")


@pytest.mark.long
@examples(30)
@given(SEED, st.sampled_from(Rest))
def test_facts_that_count_after_a_crash_of_the_machine_are_whole(seed: int, rest: Rest) -> None:
    rng = random.Random(seed)
    with folders() as (live, left, disk):
        record(live, rng, 2, 6, 6000)
        compact(live)
        make_missing(live, processes=1)
        disk.crash(left, rng, rest)
        for stem in stems(left):
            assert state_of(left, stem, checked=True) in (State.CURRENT, State.MISSING)
        assert make_missing(left, processes=1) == []
        assert all(state_of(left, stem, checked=True) is State.CURRENT for stem in stems(left))
