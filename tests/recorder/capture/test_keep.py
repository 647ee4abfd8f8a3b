"""Tests of what sessions declare to keep, of the volume's floor, and of readers that hold removals back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files import Folder
from proxy.schema.errors import InvalidValue
from proxy.units import GIB, TIB
from recorder.capture.keep import (
    DECLARED_SECONDS,
    DEFAULT_FLOOR,
    FLOOR,
    KEEP_FOLDER,
    LOOK_SECONDS,
    LOOKS,
    NO_FLOOR,
    Declared,
    Floor,
    RoomWatch,
    begin_reading,
    declarations,
    declare,
    volume_size,
    without_readers,
)
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap

READS = "import sys; from pathlib import Path; from recorder.capture.keep import begin_reading; "
READS += "begin_reading(Path(sys.argv[1])); print('reads', flush=True); sys.stdin.read()"


def declared(folder: Path, session: str, free: str) -> None:
    declare(folder, session, RecordSettings(keep_free=FLOOR.read(free)))


@pytest.mark.parametrize(
    ("written", "volume", "floor"),
    [("5%", 1000, 50), ("0.5%", 1000, 5), (" 10 % ", 1000, 100), ("10GiB", TIB, 10 * GIB), (0, TIB, 0), ("0%", TIB, 0)],
)
def test_a_floor_is_a_part_of_the_volume_or_a_size(written: str | int, volume: int, floor: int) -> None:
    assert FLOOR.read(written).of(volume) == floor


@pytest.mark.parametrize("written", ["100%", "-1%", "5 percent", "%", "", True, None, "1e3%"])
def test_other_floors_are_refused(written: object) -> None:
    with pytest.raises(InvalidValue):
        FLOOR.read(written)


@given(st.one_of(st.integers(0, 9999).map(lambda n: f"{n / 100:g}%"), st.just(0) | st.integers(1 << 20, 2**62)))
def test_a_floor_is_written_as_it_is_read(written: str | int) -> None:
    floor = FLOOR.read(written)
    assert FLOOR.read(FLOOR.written(floor)) == floor


class Volume:
    """A volume of 1,000 bytes, and a clock that goes on far enough for each look."""

    def __init__(self) -> None:
        self.free, self.now = 1000, 0.0

    def __call__(self, _: Path) -> tuple[int, int]:
        return 1000, self.free

    def clock(self) -> float:
        return self.now


def test_recording_stops_at_the_floor_and_begins_again_a_hundredth_above_it(tmp_path: Path) -> None:
    declared(tmp_path, "s", "10%")
    volume = Volume()
    room = RoomWatch(tmp_path, clock=volume.clock, volume=volume)
    seen = []
    for volume.free in (1000, 101, 100, 99, 101, 110, 111, 100):
        volume.now += LOOK_SECONDS
        assert room.look()
        seen.append(room.room)
        assert room.is_low == (not room.room)
    assert seen == [900, 1, 0, 0, 0, 0, 1, 0]


def test_without_a_floor_there_is_always_room(tmp_path: Path) -> None:
    declared(tmp_path, "s", "0%")
    volume = Volume()
    volume.free = 0
    room = RoomWatch(tmp_path, clock=volume.clock, volume=volume)
    room.look()
    assert not room.is_low


def test_the_highest_floor_of_all_sessions_binds(tmp_path: Path) -> None:
    declared(tmp_path, "low", "5%")
    volume = Volume()
    volume.free = 101
    room = RoomWatch(tmp_path, clock=volume.clock, volume=volume)
    room.look()
    assert not room.is_low
    declared(tmp_path, "high", "20%")
    volume.now += DECLARED_SECONDS
    room.look()
    assert room.is_low


def test_between_two_looks_the_volume_is_asked_only_once_much_was_written(tmp_path: Path) -> None:
    declared(tmp_path, "s", "20%")
    volume = Volume()
    room = RoomWatch(tmp_path, clock=volume.clock, volume=volume)
    room.look(5000)
    volume.free, volume.now = 0, LOOK_SECONDS / 2
    assert not room.look(5000 + 800 // LOOKS - 1)
    assert room.free == 1000
    assert room.look(5000 + 800 // LOOKS)
    assert room.is_low


def declared_by(tap: Tap, folder: Path) -> Declared:
    with Folder.at(folder / KEEP_FOLDER) as opened:
        return dict(declarations(opened))[tap.session]


def test_a_tap_of_a_test_keeps_nothing_free_unless_it_is_told_to(tap_of: Callable[..., Tap], tmp_path: Path) -> None:
    """What tests record stays, however full the machine's disk is (tests/conftest.py)."""
    assert declared_by(tap_of(), tmp_path).free == NO_FLOOR
    floor = FLOOR.read("10%")
    assert declared_by(tap_of(keep_free=floor), tmp_path).free == floor


def test_a_changed_setting_is_declared_while_the_session_goes_on(
    tap_of: Callable[..., Tap], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> Declared:
        return declared_by(tap, tmp_path)

    # with the floor that is the default elsewhere
    monkeypatch.setattr("recorder.capture.tap.declare", declare)
    tap = tap_of(keep_age=7 * 3600.0)
    assert kept().age == 7 * 3600
    change, undo = tap.selection_change(RecordSettings(keep_age=3 * 3600.0, keep_size=1 << 20))
    change()
    while kept() != Declared(3 * 3600, 1 << 20, DEFAULT_FLOOR):
        time.sleep(0)
    undo()
    while kept() != Declared(7 * 3600, None, DEFAULT_FLOOR):
        time.sleep(0)


def test_what_cannot_be_read_declares_nothing(tmp_path: Path) -> None:
    declared(tmp_path, "s", "10%")
    keep = tmp_path / KEEP_FOLDER
    (keep / "broken.keep").write_text("{")
    (keep / "other.keep").write_text('{"age": "long"}')
    (keep / "removed.json").write_text('{"files": 3}')
    (keep / "notes.txt").write_text("{}")
    with Folder.at(keep) as opened:
        assert dict(declarations(opened)).keys() == {"s"}


def test_who_reads_often_holds_one_lock(tmp_path: Path) -> None:
    declared(tmp_path, "s", "10%")
    begin_reading(tmp_path)
    before = len(os.listdir("/dev/fd"))
    begin_reading(tmp_path)
    assert len(os.listdir("/dev/fd")) == before
    with Folder.at(tmp_path) as capture, capture.folder(KEEP_FOLDER) as keep, without_readers(keep) as are_none:
        assert not are_none


def test_a_reading_command_holds_removals_back_until_it_ends(tmp_path: Path) -> None:
    # the lock is there before the first removal
    declared(tmp_path, "s", "10%")
    with Folder.at(tmp_path) as capture, capture.folder(KEEP_FOLDER) as keep:
        with subprocess.Popen(
            [sys.executable, "-c", READS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"reads\n"
            with without_readers(keep) as are_none:
                assert not are_none
            reader.communicate()
        with without_readers(keep) as are_none:
            assert are_none


def test_a_volumes_size_is_told_of_folders_that_are_not_made_yet(tmp_path: Path) -> None:
    assert volume_size(tmp_path / "not" / "yet") == volume_size(tmp_path) != 0


def test_zero_is_no_floor() -> None:
    assert Floor().of(1 << 40) == 0
