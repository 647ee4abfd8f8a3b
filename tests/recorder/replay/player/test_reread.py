"""Tests of reading frames again, in any order."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import METADATA
from recorder.capture.reader import files
from recorder.replay.plan import FramePlace
from recorder.replay.player import reread
from recorder.replay.player.reread import RereadFrames
from tests.recorder.replay.captures import row, write

ROWS = 60
FRAMES = [bytes([number]) * 100 for number in range(ROWS)]


def recorded(folder: Path) -> Path:
    told = {"api_key": METADATA, "api_version": 12}
    rows = [row(number, 1, number, frame, **told) for number, frame in enumerate(FRAMES)]
    return write(folder, rows, group=20, compression="zstd", use_dictionary=False)


@given(
    asked=st.lists(st.tuples(st.integers(0, ROWS - 1), st.none() | st.integers(0, ROWS - 1)), max_size=20),
    near=st.integers(1, 20),
    recent=st.sampled_from([0, 500, 10_000]),
)
def test_frames_are_those_of_their_places_in_whatever_order_they_are_requested(
    asked: list[tuple[int, int | None]], near: int, recent: int
) -> None:
    def place(number: int) -> FramePlace:
        return FramePlace(file, number // 20, number % 20)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(reread, "NEAR", near)
        patched.setattr(reread, "RECENT", recent)
        (file,) = files(recorded(Path(folder)))
        opened = RereadFrames()
        found = [opened.frames(place(one), None if two is None else place(two)) for one, two in asked]
    assert found == [(FRAMES[one], None if two is None else FRAMES[two]) for one, two in asked]


def test_a_frame_of_a_file_that_became_unreadable_is_none(tmp_path: Path) -> None:
    (file,) = files(recorded(tmp_path))
    opened = RereadFrames()
    assert opened.frames(FramePlace(file, 0, 3), None) == (FRAMES[3], None)
    assert isinstance(file.path, Path)
    file.path.write_bytes(b"")
    assert opened.frames(FramePlace(file, 1, 0), FramePlace(file, 2, 0)) == (None, None)


def test_a_row_beyond_its_row_group_is_none(tmp_path: Path) -> None:
    (file,) = files(recorded(tmp_path))
    assert RereadFrames().frames(FramePlace(file, 0, 20), None) == (None, None)
