"""State files: the newest one says where to go on."""

import random
from pathlib import Path

import pytest

from recorder.capture import progress
from recorder.capture.assembly import Assembly
from recorder.capture.progress import Progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import Entry, Kind, UnknownSpoolError
from tests.recorder.capture import traffic


def some_assembly(folder: Path) -> Assembly:
    assembly = Assembly()
    assembly.begin_range(RangeFiles(folder, "s", 1, None), 1_000)
    call = traffic.call(random.Random(1), traffic.METADATA, 1, "c", 200)
    assembly.feed(Entry(Kind.OPENED, 0, 1, 0, 5, b'{"client": "c:1"}'))
    assembly.feed(Entry(Kind.BYTES, 0, 1, 0, 6, call.request[:100], ((50, 10),)))
    return assembly


def test_a_session_without_a_state_begins(tmp_path: Path) -> None:
    assembly = Assembly()
    assert progress.read_newest(tmp_path, assembly) == Progress()
    assert assembly.tracks == {}


def test_the_newest_state_is_restored_with_the_bytes_of_unfinished_frames(tmp_path: Path) -> None:
    assembly = some_assembly(tmp_path)
    progress.write_progress(tmp_path, Progress(9), Assembly())
    progress.write_progress(tmp_path, Progress(10, cluster="prod", frames=3, bytes=30), assembly)
    restored = Assembly()
    assert progress.read_newest(tmp_path, restored) == Progress(10, cluster="prod", frames=3, bytes=30)
    assert [number for number, _ in progress.states(tmp_path)] == [9, 10]
    before, after = bytearray(), bytearray()
    assert restored.state(after) == assembly.state(before)
    assert before == after
    assert len(before) == 100


def test_a_state_that_cannot_be_read_stops_everything(tmp_path: Path) -> None:
    progress.write_progress(tmp_path, Progress(1), Assembly())
    path = tmp_path / "00000001.state"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    for damaged in (content, content[:3], b""):
        path.write_bytes(damaged)
        with pytest.raises(UnknownSpoolError, match="can't be read"):
            progress.read_newest(tmp_path, Assembly())
