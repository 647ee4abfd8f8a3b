"""Tests of state files: only a whole and valid one tells where to resume."""

import json
import random
import tracemalloc
from pathlib import Path

import pytest
from crc32c import crc32c

from proxy.files import Folder
from proxy.wire import keys
from recorder.capture import progress
from recorder.capture.assembly import Assembly
from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.progress import STATE_MAGIC, Progress, check_states, read_state, write_progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import SPOOL_FORMAT, Entry, EntryKind, UnknownSpoolError
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import opened
from tests.recorder.capture.traffic import as_json

CALL = traffic.call(random.Random(1), keys.METADATA, 1, "c", 200)


def some_assembly(folder: Path) -> Assembly:
    assembly = Assembly()
    assembly.begin_range(RangeFiles(folder, "s", 1, None), 1_000)
    assembly.feed(Entry(EntryKind.OPENED, 0, 1, 0, 5, json.dumps(opened()).encode(), number=0))
    assembly.feed(Entry(EntryKind.BYTES, 0, 1, 0, 6, CALL.request[:100], ((50, 10),), 1))
    return assembly


def test_a_state_is_restored_with_the_bytes_of_unfinished_frames(session: Folder) -> None:
    assembly = some_assembly(session.path)
    write_progress(session, Progress(9), Assembly())
    write_progress(session, Progress(10, cluster="prod", frames=3, bytes=30, log_bytes=500), assembly)
    restored = Assembly()
    assert read_state(session, 10, restored) == Progress(10, cluster="prod", frames=3, bytes=30, log_bytes=500)
    assert progress.segments_with_state(session) == [9, 10]
    before, after = bytearray(), bytearray()
    assert as_json(restored.state(after)) == as_json(assembly.state(before))
    assert before == after
    assert len(before) == 100


def state_of(text: bytes, number: int = SPOOL_FORMAT, blob: bytes = b"") -> bytes:
    """Makes a state file with a valid checksum."""
    content = STATE_MAGIC + number.to_bytes(2, "big") + len(text).to_bytes(4, "big") + text + blob
    return content + crc32c(content).to_bytes(4, "big")


def change(path: Path, conn: dict[str, object]) -> None:
    """Changes a value of the connection in a state."""
    content = path.read_bytes()
    length = int.from_bytes(content[10:14], "big")
    told = json.loads(content[14 : 14 + length])
    told["assembly"]["connections"][0] |= conn
    path.write_bytes(state_of(json.dumps(told).encode(), blob=content[14 + length : -4]))


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "no object", "nothing in it", "deep"])
def test_an_unreadable_state_is_ignored(session: Folder, damage: str) -> None:
    write_progress(session, Progress(7), some_assembly(session.path))
    path = session.path / "00000007.state"
    whole = path.read_bytes()
    damaged = {
        "flipped": whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        "cut": whole[:3],
        "empty": b"",
        "no object": state_of(b"[1]"),
        "nothing in it": state_of(b"{}"),
        "deep": state_of(b"[" * 100_000),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(InvalidEntryError):
        read_state(session, 7, Assembly())
    check_states(session)


# a connection's state holds offsets, numbers and kinds; anybody can give it a valid checksum
@pytest.mark.parametrize(
    "wrong",
    [
        {"connection": -1},
        {"sequence": "3"},
        {"parts": [[0, 1 << 80], None]},
        {"kinds": ["request", "else"]},
        {"conversation": {}},
        {"next_entry": 1 << 16},
        {"opening": {"limits": [1]}},
        {"opening": []},
        {"opening": None},
        {"opening": {"client": "c:1"}},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_state_that_says_what_none_says_is_one_that_cannot_be_read(session: Folder, wrong: dict[str, object]) -> None:
    write_progress(session, Progress(7), some_assembly(session.path))
    change(session.path / "00000007.state", wrong)
    with pytest.raises(InvalidEntryError):
        read_state(session, 7, Assembly())


def parts(*sizes: int) -> dict[str, object]:
    return {"parts": [[0, size] for size in sizes]}


@pytest.mark.parametrize("wrong", [parts(101, 0), parts(60, 60)], ids=["beyond", "twice"])
def test_frames_that_have_not_come_whole_take_no_more_than_the_bytes_that_are_there(session: Folder, wrong) -> None:
    """A state must not take more memory than its bytes."""
    write_progress(session, Progress(7), some_assembly(session.path))
    change(session.path / "00000007.state", wrong)
    with pytest.raises(InvalidEntryError, match="more bytes than there are"):
        read_state(session, 7, Assembly())


def test_a_state_is_of_the_segment_in_its_name(session: Folder) -> None:
    write_progress(session, Progress(7), some_assembly(session.path))
    (session.path / "00000007.state").rename(session.path / "00000009.state")
    with pytest.raises(InvalidEntryError, match="of another segment"):
        read_state(session, 9, Assembly())


def test_totals_are_such_as_a_disk_can_hold(session: Folder) -> None:
    write_progress(session, Progress(7, frames=(1 << 62) - 1), Assembly())
    with pytest.raises(InvalidEntryError):
        read_state(session, 7, Assembly())


@pytest.mark.parametrize(
    "begin", [b"", STATE_MAGIC + SPOOL_FORMAT.to_bytes(2, "big") + b"\0\0\0\x10"], ids=["holes", "a head"]
)
def test_a_state_that_is_a_hole_of_gigabytes_takes_no_memory(session: Folder, begin: bytes) -> None:
    with (session.path / "00000007.state").open("wb") as file:
        file.write(begin)
        file.truncate(3 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidEntryError):
            read_state(session, 7, Assembly())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


STRANGE_NAMES = (
    "000000007.state",
    "\N{ARABIC-INDIC DIGIT SEVEN}" * 8 + ".state",
    "7.state",
    "00000000.state",
    "9" * 22 + ".state",
)


@pytest.mark.parametrize("name", STRANGE_NAMES, ids=["nine digits", "Arabic", "one digit", "zero", "22 digits"])
def test_a_file_with_another_name_is_not_a_state(session: Folder, name: str) -> None:
    (session.path / name).touch()
    assert progress.segments_with_state(session) == []


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (
            SPOOL_FORMAT + 1,
            f"state format {SPOOL_FORMAT + 1}, this program knows only {SPOOL_FORMAT}",
        ),
        (1, "state format 1 is read no more: kafka-wiretap 0.1.0 compacts it"),
        (
            2,
            "state format 2 is read no more: kafka-wiretap 0.1.0 compacts it, or the development version of 0.2.0 that",
        ),
    ],
)
def test_a_state_of_another_format_is_not_touched(session: Folder, number: int, says: str) -> None:
    path = session.path / "00000007.state"
    path.write_bytes(state_of(b"who knows", number))
    for read in (lambda: read_state(session, 7, Assembly()), lambda: check_states(session)):
        with pytest.raises(UnknownSpoolError, match=rf"00000007\.state: {says}"):
            read()
