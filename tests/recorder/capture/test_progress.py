"""State files: the newest one says where to go on."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from proxy.files import Folder
from recorder.capture import progress
from recorder.capture.assembly import Assembly
from recorder.capture.progress import STATE_FORMAT, STATE_MAGIC, Progress, check_newest, read_newest, write_progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import Entry, Kind, UnknownSpoolError
from tests.recorder.capture import traffic

CALL = traffic.call(random.Random(1), traffic.METADATA, 1, "c", 200)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Folder]:
    with Folder.at(tmp_path) as opened:
        yield opened


def some_assembly(folder: Path) -> Assembly:
    assembly = Assembly()
    assembly.begin_range(RangeFiles(folder, "s", 1, None), 1_000)
    assembly.feed(Entry(Kind.OPENED, 0, 1, 0, 5, b'{"client": "c:1"}', number=0))
    assembly.feed(Entry(Kind.BYTES, 0, 1, 0, 6, CALL.request[:100], ((50, 10),), 1))
    return assembly


def test_a_session_without_a_state_begins(session: Folder) -> None:
    assembly = Assembly()
    assert read_newest(session, assembly) == Progress()
    assert assembly.tracks == {}


def test_the_newest_state_is_restored_with_the_bytes_of_unfinished_frames(session: Folder) -> None:
    assembly = some_assembly(session.path)
    write_progress(session, Progress(9), Assembly())
    write_progress(session, Progress(10, cluster="prod", frames=3, bytes=30, log_bytes=500), assembly)
    restored = Assembly()
    assert read_newest(session, restored) == Progress(10, cluster="prod", frames=3, bytes=30, log_bytes=500)
    assert progress.states(session) == [9, 10]
    before, after = bytearray(), bytearray()
    assert as_json(restored.state(after)) == as_json(assembly.state(before))
    assert before == after
    assert len(before) == 100


def as_json(state: object) -> object:
    return json.loads(json.dumps(state))


def state_of(text: bytes, number: int = STATE_FORMAT, blob: bytes = b"") -> bytes:
    """A state file with a good checksum."""
    content = STATE_MAGIC + number.to_bytes(2, "big") + len(text).to_bytes(4, "big") + text + blob
    return content + crc32c(content).to_bytes(4, "big")


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "no object", "nothing in it", "deep"])
def test_a_state_that_cannot_be_read_costs_what_was_known_and_says_so(session: Folder, damage: str) -> None:
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
    assembly = Assembly()
    assert read_newest(session, assembly) == Progress(7, log_bytes=None, is_damaged=True)
    assert assembly.tracks == {}
    check_newest(session)


# what stands in a connection's state is offsets, numbers and kinds; a checksum is easily made good
@pytest.mark.parametrize(
    "wrong",
    [
        {"connection": -1},
        {"sequence": "3"},
        {"parts": [[0, 1 << 80], None]},
        {"kinds": ["request", "else"]},
        {"talk": {}},
        {"next_entry": 1 << 16},
        {"facts": {"limits": [1]}},
        {"facts": []},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_state_that_says_what_none_says_is_one_that_cannot_be_read(session: Folder, wrong: dict[str, object]) -> None:
    write_progress(session, Progress(7), some_assembly(session.path))
    path = session.path / "00000007.state"
    content = path.read_bytes()
    length = int.from_bytes(content[10:14], "big")
    told = json.loads(content[14 : 14 + length])
    told["assembly"]["tracks"][0] |= wrong
    path.write_bytes(state_of(json.dumps(told).encode(), blob=content[14 + length : -4]))
    assert read_newest(session, Assembly()).is_damaged


def test_a_state_of_a_newer_format_is_left_alone(session: Folder) -> None:
    path = session.path / "00000007.state"
    path.write_bytes(state_of(b"who knows", STATE_FORMAT + 1))
    for read in (lambda: read_newest(session, Assembly()), lambda: check_newest(session)):
        with pytest.raises(UnknownSpoolError, match=rf"00000007\.state: state format {STATE_FORMAT + 1}, this program"):
            read()
