"""Tests of retention: what goes and what stays, in which order, through crashes, and beside readers."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files import Folder
from recorder.capture import retention
from recorder.capture.compactor import compact_session, idle_for
from recorder.capture.fact_files import State, state_of, stems
from recorder.capture.fact_maker import make_missing
from recorder.capture.frames import HOUR_NS
from recorder.capture.held import HeldFile, Lister
from recorder.capture.keep import (
    KEEP_FOLDER,
    Declared,
    Floor,
    KeepSettings,
    declare,
    without_readers,
)
from recorder.capture.partitions import hour_folders, range_name
from recorder.capture.reader import files
from recorder.capture.retention import (
    Keeper,
    Reason,
    Removed,
    Remover,
    Room,
    Round,
    Unit,
    Untold,
    due,
    removed_so_far,
    removing,
    to_tell,
)
from recorder.capture.session import RecordSettings
from recorder.capture.shipped import SHIP_FOLDER, Records, Shipped
from recorder.capture.tap import open_tap
from recorder.inspect.summary import summarize
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import event_rows
from tests.recorder.capture.recorded import two_sessions
from tests.recorder.capture.traffic import Player
from tests.sweeps import is_thorough

HOUR = 3600.0
# the hour, counted since 1970, in which the tests live
NOW = int(datetime(2026, 11, 21, 13, tzinfo=UTC).timestamp()) // 3600
TABLES = ("frames", "events", "facts/partitions")
VOLUME = 1_000_000


class Crash(Exception):
    """A kill -9 at a step."""


def remover(folder: Path, *, keeps: Declared | None = None, free: int = VOLUME, **other: Any) -> Remover:
    return Remover(folder, keeps, now_ns=lambda: NOW * HOUR_NS, volume=lambda _: (VOLUME, free), **other)


def removed(folder: Path, **options: Any) -> Round:
    done = remover(folder, **options).round()
    assert done is not None
    return done


def write(folder: Path, session: str, hours_ago: int, segment: int, size: int = 100) -> None:
    """Writes a segment's files, as large as their table says: retention never opens them."""
    for table in TABLES:
        path = folder.joinpath(table, *hour_folders(NOW - hours_ago), range_name(session, segment))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))


def keep(folder: Path, session: str, **keys: Any) -> None:
    declare(folder, session, KeepSettings(**{"keep_free": Floor(), **keys}))


def left(folder: Path, table: str = "frames") -> set[str]:
    return {path.name.removesuffix(".parquet") for path in folder.glob(f"{table}/*/*/*.parquet")}


def segments_of(session: str, *numbers: int) -> set[str]:
    return {range_name(session, number).removesuffix(".parquet") for number in numbers}


# --- what goes ------------------------------------------------------------------------------------------
def test_hours_older_than_the_age_go_whole(tmp_path: Path) -> None:
    for hours_ago, number in ((5, 1), (5, 2), (4, 3), (3, 4), (1, 5)):
        write(tmp_path, "s", hours_ago, number)
    keep(tmp_path, "s", keep_age=3 * HOUR)
    done = removed(tmp_path)
    assert [reason for _, reason in done.went] == [Reason.AGE, Reason.AGE]
    for table in TABLES:
        assert left(tmp_path, table) == segments_of("s", 4, 5)
    assert removed_so_far(tmp_path) == Removed(
        9, {Reason.AGE: 900}, (NOW - 3) * HOUR_NS, untold=(Untold(Reason.AGE, 9, 900, (NOW - 3) * HOUR_NS),)
    )


def test_an_hour_is_kept_as_long_as_the_session_that_keeps_it_longest(tmp_path: Path) -> None:
    for session, number in (("short", 1), ("long", 1)):
        write(tmp_path, session, 5, number)
    write(tmp_path, "short", 6, 2)
    write(tmp_path, "short", 1, 3)
    keep(tmp_path, "short", keep_age=HOUR)
    keep(tmp_path, "long", keep_age=10 * HOUR)
    removed(tmp_path)
    assert left(tmp_path) == segments_of("short", 1, 3) | segments_of("long", 1)


def test_the_oldest_hours_go_until_the_folder_is_small_enough(tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, "s", 6 - number, number)
    log = tmp_path / "_spool" / "s" / "00000009.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(250))
    keep(tmp_path, "s", keep_size=1150)
    # 1,500 bytes of rows and facts, and 250 of log
    assert removed(tmp_path).size == 1150
    assert left(tmp_path) == segments_of("s", 3, 4, 5)


def test_of_the_newest_hour_the_oldest_segments_go(tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, "s", 0, number)
        for table in TABLES:
            path = tmp_path.joinpath(table, *hour_folders(NOW), range_name("s", number))
            os.utime(path, ns=(0, NOW * HOUR_NS + number * 10**9))
    keep(tmp_path, "s", keep_size=700)
    removed(tmp_path)
    assert left(tmp_path) == segments_of("s", 4, 5)
    assert removed_so_far(tmp_path).whole_from_ns == NOW * HOUR_NS + 3 * 10**9


def test_below_the_highest_floor_the_oldest_hours_go_until_a_hundredth_more_is_free(tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, "s", 6 - number, number, 10_000)
    keep(tmp_path, "s", keep_free=Floor(share=0.1))
    keep(tmp_path, "other", keep_free=Floor(share=0.2))
    done = removed(tmp_path, free=170_000)
    assert {reason for _, reason in done.went} == {Reason.FREE}
    # 30,000 bytes an hour, and 210,000 are to be free
    assert left(tmp_path) == segments_of("s", 3, 4, 5)


def test_sessions_that_declare_nothing_stay(tmp_path: Path) -> None:
    write(tmp_path, "old", 9, 1)
    write(tmp_path, "s", 9, 1)
    write(tmp_path, "s", 1, 2)
    keep(tmp_path, "s", keep_age=HOUR, keep_size=1, keep_free=Floor(share=0.5))
    removed(tmp_path, free=0)
    assert left(tmp_path) == segments_of("old", 1)


def test_another_users_sessions_stay_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_age=HOUR)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    done = removed(tmp_path, keeps=Declared(age=HOUR))
    assert done.went == []
    assert done.of_others == {"s"}
    assert left(tmp_path) == segments_of("s", 1)


def test_files_of_other_names_stay(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1)
    hour = tmp_path.joinpath("frames", *hour_folders(NOW - 9))
    for name in ("notes.txt", ".s-00000002-00000002.parquet", "s-2-2.parquet"):
        (hour / name).touch()
    removed(tmp_path, keeps=Declared(age=HOUR))
    assert {path.name for path in hour.iterdir()} == {"notes.txt", ".s-00000002-00000002.parquet", "s-2-2.parquet"}


def test_the_folders_of_hours_that_went_go_too(tmp_path: Path) -> None:
    for hours_ago in (24, 3, 0):
        write(tmp_path, "s", hours_ago, 1)
    (tmp_path.joinpath("frames", *hour_folders(NOW - 3)) / "notes.txt").touch()
    keep(tmp_path, "s", keep_age=HOUR)
    removed(tmp_path)
    folders = {Path(*hour_folders(NOW))}
    assert {path.relative_to(tmp_path / "events") for path in (tmp_path / "events").glob("*/*")} == folders
    assert {path.relative_to(tmp_path / "facts/partitions") for path in tmp_path.glob("facts/*/*/*")} == folders
    assert not (tmp_path / "frames" / hour_folders(NOW - 24)[0]).exists()
    assert (tmp_path.joinpath("frames", *hour_folders(NOW - 3)) / "notes.txt").exists()


def test_hours_that_are_still_to_come_make_the_present_one_no_older(tmp_path: Path) -> None:
    for number in range(1, 4):
        write(tmp_path, "s", 0, number)
        for table in TABLES:
            path = tmp_path.joinpath(table, *hour_folders(NOW), range_name("s", number))
            os.utime(path, ns=(0, NOW * HOUR_NS + number * 10**9))
    # a clock was wrong for a while
    write(tmp_path, "s", -100, 4)
    keep(tmp_path, "s", keep_size=900)
    removed(tmp_path)
    assert left(tmp_path) == segments_of("s", 2, 3, 4)


def test_the_closed_log_of_another_user_keeps_nothing_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_age=HOUR)
    (tmp_path / "_spool" / "theirs").mkdir(parents=True)
    opened = Folder.folder

    def folder(self: Folder, name: str) -> Folder:
        if name == "theirs":
            raise PermissionError(13, "Permission denied")
        return opened(self, name)

    # root may open any
    monkeypatch.setattr(Folder, "folder", folder)
    assert len(removed(tmp_path).went) == 1


def test_what_a_session_kept_stays_if_it_ends_while_files_are_listed(tmp_path: Path) -> None:
    log = tmp_path / "_spool" / "s"
    log.mkdir(parents=True)
    keep(tmp_path, "s", keep_age=HOUR)

    def volume(_: Path) -> tuple[int, int]:
        write(tmp_path, "s", 0, 1)
        log.rmdir()
        return VOLUME, VOLUME

    Remover(tmp_path, volume=volume).round()
    assert (tmp_path / KEEP_FOLDER / "s.keep").exists()


def test_while_an_earlier_sessions_log_is_compacted_hours_go(tmp_path: Path) -> None:
    folder = two_sessions(tmp_path)
    shutil.rmtree(folder / "frames")
    write(folder, "s", 9, 1)
    keep(folder, "s", keep_age=HOUR)
    (folder / "_spool" / "earlier").mkdir()
    idle_for(folder, "s", keeper=Keeper(folder, lambda _: None, remover(folder)))()
    assert left(folder) == set()
    assert not (folder / "_spool" / "earlier").exists()


def test_a_dry_run_says_what_would_go_and_removes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1)
    done = remover(tmp_path, keeps=Declared(age=HOUR)).round(dry=True)
    assert done is not None
    assert (len(done.went), done.size) == (1, 0)
    assert left(tmp_path) == segments_of("s", 1)
    assert not (tmp_path / KEEP_FOLDER).exists()


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "s", 9, 1)
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "frames").symlink_to(tmp_path / "elsewhere" / "frames")
    with pytest.raises(OSError, match="symbolic link"):
        removed(tmp_path / "capture", keeps=Declared(age=HOUR))
    assert left(tmp_path / "elsewhere") == segments_of("s", 1)


def test_what_a_session_kept_is_forgotten_with_its_last_file(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_age=HOUR)
    (tmp_path / "_spool" / "living").mkdir(parents=True)
    keep(tmp_path, "living", keep_age=HOUR)
    one = remover(tmp_path)
    one.round()
    one.round()
    assert {path.stem for path in (tmp_path / KEEP_FOLDER).glob("*.keep")} == {"living"}


AGES = st.one_of(st.none(), st.integers(1, 9).map(lambda hours: hours * HOUR))
SIZES = st.one_of(st.none(), st.integers(0, 3000))


@st.composite
def units(draw: st.DrawFn) -> list[Unit]:
    found = []
    for hour in range(draw(st.integers(0, 8))):
        keeps = draw(st.lists(st.builds(Declared, AGES, SIZES), min_size=1, max_size=3))
        file = HeldFile("frames", "date", "hour", "x", "s", 1, draw(st.integers(0, 1000)), 0, True)
        found.append(Unit(str(hour), (NOW - 9 + hour) * HOUR_NS, (file,), tuple(keeps)))
    return found


@given(units(), st.integers(0, 3000), st.integers(0, 3000))
def test_nothing_goes_without_a_reason_and_no_bound_is_exceeded_while_something_may_go(
    every: list[Unit], free: int, enough: int
) -> None:
    size = sum(unit.size for unit in every)
    going = list(due(every, Room(size, free, enough), NOW * HOUR_NS))
    gone = [unit for unit, _ in going]
    for unit, reason in going:
        match reason:
            case Reason.AGE:
                assert all(keep.age and unit.until_ns + keep.age * 10**9 <= NOW * HOUR_NS for keep in unit.keeps)
            case Reason.SIZE:
                assert all(keep.size is not None and size > keep.size for keep in unit.keeps)
            case Reason.FREE:
                assert free < enough
        size, free = size - unit.size, free + unit.size
    for unit in every:
        if not any(unit is each for each in gone):
            ages, sizes = ([getattr(keep, name) for keep in unit.keeps] for name in ("age", "size"))
            assert None in ages or unit.until_ns + max(ages) * 10**9 > NOW * HOUR_NS
            # what went later was asked after this one, so the bounds were kept when it was asked
            older_gone = sum(each.size for each in gone if each.until_ns < unit.until_ns)
            then = sum(each.size for each in every) - older_gone
            assert None in sizes or then <= max(sizes)


# --- crashes and readers --------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of some segments each, with facts."""
    folder = two_sessions(tmp_path_factory.mktemp("capture"))
    assert make_missing(folder) == []
    return folder


def copies(recorded: Path, tmp_path: Path) -> Iterator[Path]:
    for number in count():
        yield Path(shutil.copytree(recorded, tmp_path / str(number)))


def crashing_at(step: int) -> Callable[[str], None]:
    steps = count()

    def before(_: str) -> None:
        if next(steps) == step:
            raise Crash

    return before


def test_removals_are_counted_by_reason(tmp_path: Path) -> None:
    assert removed_so_far(tmp_path) == Removed()
    with Folder.at(tmp_path) as capture, capture.make_folder(KEEP_FOLDER) as opened:
        with removing(opened, "1", Reason.AGE, 2, 100, 5):
            assert removed_so_far(tmp_path).going == ("1", "age")
        with removing(opened, "2", Reason.SIZE, 1, 10, 9):
            pass
        with suppress(InterruptedError), removing(opened, "3", Reason.AGE, 1, 1, 7):
            raise InterruptedError
        with removing(opened, "3", Reason.AGE, 1, 1, 7):
            pass
    untold = Untold(Reason.AGE, 3, 101, 7), Untold(Reason.SIZE, 1, 10, 9)
    assert removed_so_far(tmp_path) == Removed(4, {Reason.AGE: 101, Reason.SIZE: 10}, 9, untold=untold)


def test_what_is_removed_of_a_full_volume_is_counted_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_free=Floor(share=0.5))
    replaced = Folder.replace

    def replace(self: Folder, name: str, content: bytes, **options: Any) -> None:
        if left(tmp_path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replaced(self, name, content, **options)

    monkeypatch.setattr(Folder, "replace", replace)
    assert [reason for _, reason in removed(tmp_path, free=0).went] == [Reason.FREE]
    assert (removed_so_far(tmp_path).files, left(tmp_path)) == (3, set())


def removal(folder: Path, number: int, reason: Reason = Reason.AGE) -> None:
    with (
        Folder.at(folder) as capture,
        capture.make_folder(KEEP_FOLDER) as opened,
        removing(opened, str(number), reason, 1, number, number),
    ):
        pass


def told(folder: Path, *place: Any) -> list[int]:
    return [one.bytes for one in to_tell(folder, *place)]


def test_a_removal_is_told_by_one_range_also_if_that_is_made_again(tmp_path: Path) -> None:
    for session in ("s", "t"):
        (tmp_path / "_spool" / session).mkdir(parents=True)
    assert told(tmp_path, "s", 0, 1) == []
    removal(tmp_path, 1)
    removal(tmp_path, 2)
    assert told(tmp_path, "s", 0, 1) == told(tmp_path, "s", 0, 1) == [3]
    removal(tmp_path, 4)
    assert told(tmp_path, "t", 0, 1) == [4]
    removal(tmp_path, 8, Reason.SIZE)
    # the range had not told all of it, but is made again
    assert told(tmp_path, "s", 0, 1) == [3, 8]
    # its segment was lost before the range was published
    assert told(tmp_path, "s", 0, 2) == [3, 8]
    assert told(tmp_path, "s", 2, 3) == []
    assert [one.bytes for one in removed_so_far(tmp_path).untold] == [4]
    (tmp_path / "_spool" / "t").rmdir()
    removal(tmp_path, 16)
    assert told(tmp_path, "s", 3, 4) == [16]
    assert [one.bytes for one in removed_so_far(tmp_path).untold] == [16]


def test_while_another_process_removes_a_range_tells_what_it_has(tmp_path: Path) -> None:
    removal(tmp_path, 1)
    assert told(tmp_path, "s", 0, 1) == [1]
    removal(tmp_path, 2)
    with Folder.at(tmp_path) as capture, closing(capture.make_folder(KEEP_FOLDER)) as opened:
        assert opened.lock()
        assert told(tmp_path, "s", 0, 1) == [1]
        assert told(tmp_path, "s", 1, 2) == []
    assert told(tmp_path, "s", 1, 2) == [2]


def session_of(folder: Path, session: str) -> None:
    """Records a session of some segments that keeps everything."""
    rng = random.Random(1)
    talk = traffic.cut(rng, traffic.talk(rng, 0, 20), 400)
    tap = open_tap(folder, RecordSettings(segment=20_000, keep_free=Floor()), session)
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(0, chunk)
        tap.flush()
    player.close(0)
    tap.close()


def assert_removals_are_told_once(folder: Path, step: int) -> bool:
    """Kills a session's compactor at a step, while an hour ends at each step. False if there is no such step."""
    for hours_ago in range(40):
        write(folder, "old", hours_ago, 1)
    keep(folder, "old", keep_age=HOUR)
    now = NOW - 38
    crash = crashing_at(step)

    def before_step(name: str) -> None:
        nonlocal now
        now += 1
        crash(name)

    def keeper() -> Keeper:
        return Keeper(
            folder, lambda _: None, Remover(folder, now_ns=lambda: now * HOUR_NS, volume=lambda _: (VOLUME, VOLUME))
        )

    session_of(folder, "s")
    was_killed = False
    try:
        compact_session(folder, "s", before_step=before_step, keeper=keeper())
    except Crash:
        was_killed = True
        compact_session(folder, "s", before_step=before_step, keeper=keeper())
    # it tells what went after the last range of the other had begun
    session_of(folder, "t")
    compact_session(folder, "t", keeper=keeper())
    for path in folder.rglob("old-*.parquet"):
        path.unlink()
    details = [json.loads(event["detail"]) for event in event_rows(folder, "removed")]
    assert sum(detail["files"] for detail in details) == removed_so_far(folder).files > 0
    return was_killed


@pytest.mark.sweep
def test_a_compactor_killed_at_any_step_leaves_no_removal_untold_and_tells_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0)
    monkeypatch.setattr(retention, "ROUND_SECONDS", 0)
    steps = count(0, 1 if is_thorough() else 19)
    last = next(step for step in steps if not assert_removals_are_told_once(tmp_path / str(step), step))
    assert last > 20


def test_the_folder_that_root_makes_belongs_to_the_captures_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_to: list[tuple[str, int, int]] = []

    def fchown(descriptor: int, owner: int, group: int) -> None:
        given_to.append((os.readlink(f"/proc/self/fd/{descriptor}"), owner, group))

    monkeypatch.setattr(os, "fchown", fchown)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Folder, "owner", 1234)
    for _ in range(2):
        removed(tmp_path, keeps=Declared(age=HOUR))
    assert given_to == [(str(tmp_path / KEEP_FOLDER), 1234, -1)]


@pytest.mark.parametrize(
    "written",
    [
        '{"files": 3, "going": ["1", "whim"]}',
        '{"files": 3, "bytes": {"age": 18446744073709551615}}',
        '{"files": 3, "whole_from_ns": -1}',
        # no event could tell it
        '{"untold": [{"reason": "age", "files": 3, "bytes": 9223372036854775808, "until_ns": 1}]}',
    ],
)
def test_a_count_of_removals_that_nobody_wrote_counts_as_none(tmp_path: Path, written: str) -> None:
    keep(tmp_path, "s")
    (tmp_path / KEEP_FOLDER / "removed.json").write_text(written)
    assert removed_so_far(tmp_path) == Removed()
    assert to_tell(tmp_path, "s", 0, 1) == []


@pytest.mark.sweep
def test_a_kill_at_any_step_leaves_a_capture_that_reads_and_is_ended_by_the_next_round(
    recorded: Path, tmp_path: Path
) -> None:
    copied = copies(recorded, tmp_path)
    whole = next(copied)
    keeps = Declared(size=sum(path.stat().st_size for path in whole.rglob("*.parquet")) // 2)
    Remover(whole, keeps).round()
    for step in count(0, 1 if is_thorough() else 11):
        folder = next(copied)
        try:
            Remover(folder, keeps, before_step=crashing_at(step)).round()
            break
        except Crash:
            pass
        # no count is wrong in between: what is not there counts neither as left out by the settings nor as a gap
        missing = summarize(folder).losses.missing
        assert (missing.left_out, missing.gaps) == (0, [])
        for stem in stems(folder):
            assert state_of(folder, stem) in (State.CURRENT, State.MISSING)
        Remover(folder, keeps).round()
        for table in ("frames", "events", "facts/frames"):
            assert left(folder, table) == left(whole, table)
    assert step > 10
    assert left(whole) < left(recorded)


def test_frames_never_outlive_their_facts_marker_nor_events_their_frames(recorded: Path, tmp_path: Path) -> None:
    folder = next(copies(recorded, tmp_path))
    order: list[str] = []
    Remover(folder, Declared(age=0.001), now_ns=lambda: 1 << 62, before_step=order.append).round()
    kinds = [step.split()[1].split("/")[0] for step in order if step.startswith("remove")]
    assert [*dict.fromkeys(kinds)] == ["marker", "events", "frames", "facts"]
    assert files(folder) == []


def test_readers_delay_what_is_too_old_for_an_hour_and_what_fills_the_volume_not_at_all(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1, 10_000)
    write(tmp_path, "s", 8, 2)
    keep(tmp_path, "s", keep_age=HOUR)
    now = [0.0]
    one = remover(tmp_path, clock=lambda: now[0])
    with Folder.at(tmp_path) as capture, capture.make_folder(KEEP_FOLDER) as opened, without_readers(opened):
        first = one.round()
        assert first is not None
        assert (first.went, first.is_delayed) == ([], True)
        keep(tmp_path, "s", keep_free=Floor(share=0.01))
        second = removed(tmp_path, free=0)
        assert [reason for _, reason in second.went] == [Reason.FREE]
        assert left(tmp_path) == segments_of("s", 2)
        keep(tmp_path, "s", keep_age=HOUR)
        now[0] = retention.WAIT_SECONDS
        third = one.round()
        assert third is not None
        assert [reason for _, reason in third.went] == [Reason.AGE]


def test_below_the_floor_what_is_too_old_waits_for_no_reader(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1, 10_000)
    keep(tmp_path, "s", keep_age=HOUR, keep_free=Floor(share=0.01))
    with Folder.at(tmp_path) as capture, capture.folder(KEEP_FOLDER) as opened, without_readers(opened):
        assert [reason for _, reason in removed(tmp_path, free=0).went] == [Reason.FREE]
    assert left(tmp_path) == set()


def test_one_process_at_a_time_removes(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1)
    with Folder.at(tmp_path) as capture, closing(capture.make_folder(KEEP_FOLDER)) as opened:
        assert opened.lock()
        assert remover(tmp_path, keeps=Declared(age=HOUR)).round() is None
    assert left(tmp_path) == segments_of("s", 1)


def test_below_the_floor_a_keeper_hurries_only_while_something_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LOOK_SECONDS", 0)
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_free=Floor(share=0.5))
    rounds: list[Round | None] = []
    one = remover(tmp_path, free=0)
    real = one.round

    def counted() -> Round | None:
        rounds.append(real())
        return rounds[-1]

    monkeypatch.setattr(one, "round", counted)
    keeper = Keeper(tmp_path, lambda line: None, one)
    for _ in range(4):
        keeper.look()
    assert [len(done.went) for done in rounds if done] == [1, 0]


def test_a_keeper_says_what_went_and_why_nothing_goes(tmp_path: Path) -> None:
    write(tmp_path, "s", 9, 1)
    keep(tmp_path, "s", keep_age=HOUR)
    said: list[str] = []
    keeper = Keeper(tmp_path, said.append, remover(tmp_path))
    keeper.look()
    (news,) = keeper.to_tell("t", 0, 1)
    assert (news.reason, keeper.files, keeper.bytes, keeper.to_tell("t", 1, 2)) == (Reason.AGE, 3, 300, [])
    assert said == ["removed 3 files of 300 bytes, until 2026-11-21 05:00 UTC (keep.age)"]
    shutil.rmtree(tmp_path / "frames")
    (tmp_path / "frames").symlink_to(tmp_path)
    other = Keeper(tmp_path, said.append, remover(tmp_path))
    other.look()
    assert said[1:] == [f"nothing is removed: {tmp_path / 'frames'} is a symbolic link, not a folder"]


def test_of_the_newest_hour_a_keeper_says_until_when_segments_went(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, "s", 0, number)
        for table in TABLES:
            path = tmp_path.joinpath(table, *hour_folders(NOW), range_name("s", number))
            os.utime(path, ns=(0, NOW * HOUR_NS + number * 60 * 10**9))
    keep(tmp_path, "s", keep_size=400)
    said: list[str] = []
    Keeper(tmp_path, said.append, remover(tmp_path)).look()
    assert said == ["removed 3 files of 300 bytes, until 2026-11-21 13:01 UTC (keep.size)"]


# --- what is not shipped --------------------------------------------------------------------------------
def ship(folder: Path, *sessions: str) -> None:
    """Records all rows of these sessions as shipped."""
    with (
        Folder.at(folder) as capture,
        capture.make_folder(SHIP_FOLDER) as ships,
        closing(Records(ships, "s3://bucket")) as to,
    ):
        for files in Lister().files(capture).values():
            for file in files:
                if file.session in sessions:
                    to.add(file.path, f"{file.date}T{file.hour}", Shipped(file.size, file.at_ns))
        to.save()


def test_nothing_goes_that_is_not_shipped_where_it_is_shipped_also_below_the_floor(tmp_path: Path) -> None:
    for session in ("done", "here", "other"):
        write(tmp_path, session, {"done": 5, "here": 4, "other": 3}[session], 1)
        keep(tmp_path, session, keep_age=HOUR, ship=None if session == "other" else "s3://bucket")
    ship(tmp_path, "done")
    removed(tmp_path)
    assert left(tmp_path) == segments_of("here", 1)
    keep(tmp_path, "here", ship="s3://bucket", keep_free=Floor(share=0.5))
    assert removed(tmp_path, free=0).went == []
    ship(tmp_path, "here")
    assert [reason for _, reason in removed(tmp_path, free=0).went] == [Reason.FREE]
    assert left(tmp_path) == set()


def test_a_file_made_again_is_not_shipped(tmp_path: Path) -> None:
    write(tmp_path, "s", 5, 1)
    keep(tmp_path, "s", keep_age=HOUR, ship="s3://bucket")
    ship(tmp_path, "s")
    write(tmp_path, "s", 5, 1, size=101)
    assert removed(tmp_path).went == []


def test_by_hand_too_only_what_is_shipped_goes_of_sessions_that_are(tmp_path: Path) -> None:
    for session in ("ships", "local"):
        write(tmp_path, session, 5, 1)
        keep(tmp_path, session, ship="s3://bucket" if session == "ships" else None)
    removed(tmp_path, keeps=Declared(age=HOUR))
    assert left(tmp_path) == segments_of("ships", 1)


def test_facts_that_count_and_are_not_shipped_keep_their_frames(tmp_path: Path) -> None:
    two_sessions(tmp_path)
    assert make_missing(tmp_path) == []
    for session in ("s0", "s1"):
        declare(tmp_path, session, RecordSettings(keep_free=Floor(), ship="s3://bucket"))
    ship(tmp_path, "s0", "s1")
    # the markers are not in the bucket
    until = max(unit for unit in (path.stat().st_mtime_ns for path in tmp_path.glob("frames/*/*/*"))) + 9 * HOUR_NS
    done = Remover(tmp_path, Declared(age=HOUR), now_ns=lambda: until).round()
    assert done is not None
    assert not [unit for unit, _ in done.went if any(file.table == "frames" for file in unit.files)]
