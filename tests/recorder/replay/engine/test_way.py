"""The way of one request through the replay's modules, as `docs/replay.md` tells it."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import recorder
from proxy.wire.keys import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from tests.recorder.replay.engine.reads_and_writes import played, writes
from tests.recorder.replay.simple import answered
from tests.recorder.replay.simulation import Got, Recording, Simulation

# a file more is a file more to read for whoever follows a request
MOST_FILES = 20
ROOT = Path(recorder.__file__).parents[1]


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """How often functions of the sending are called, by name."""
    found = Counter[str]()

    def call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _file(frame) == "recorder/replay/engine/sending.py":
            found[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        yield found
    finally:
        sys.setprofile(before)


@contextmanager
def entered_by_the_engine() -> Iterator[set[str]]:
    """The project's files that the engine's callers, directly or not, call functions of; paths from the root."""
    found: set[str] = set()

    def call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := _file(frame)) and _is_of_the_engine(frame):
            found.add(file)

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        yield found
    finally:
        sys.setprofile(before)


def _is_of_the_engine(frame: FrameType | None) -> bool:
    """True for a call of the engine, and for calls within one; not for what the tests call themselves."""
    while frame is not None and not (file := _file(frame)).startswith("tests/"):
        if file == "recorder/replay/engine/engine.py":
            return True
        frame = frame.f_back
    return False


def _file(frame: FrameType) -> str:
    """Where the frame's code is, from the root; empty outside of it."""
    name = Path(frame.f_code.co_filename)
    return str(name.relative_to(ROOT)) if name.is_relative_to(ROOT) else ""


def test_a_heartbeat_enters_few_files_from_its_row_to_its_comparison() -> None:
    recording = Recording()
    member = {"group_id": "g", "member_id": "recorded-1", "group_instance_id": None}
    joins = {"session_timeout_ms": 900_000, "rebalance_timeout_ms": 900_000, "protocol_type": "consumer"}
    joins |= {"protocols": [{"name": "range", "metadata": b""}]}
    told = {"error_code": 0, "throttle_time_ms": 0}
    joined = {"generation_id": 3, "protocol_type": "consumer", "protocol_name": "range", "leader": "recorded-1"}
    joined |= {"member_id": "recorded-1", "members": [{"member_id": "recorded-1", "metadata": b""}]}
    recording.exchanges(0, 1, JOIN_GROUP, 7, member | {"member_id": ""} | joins, told | joined)
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    assigned = {"generation_id": 3, "assignments": [{"member_id": "recorded-1", "assignment": b""}]}
    synced = told | protocol | {"assignment": b""}
    recording.exchanges(10, 1, SYNC_GROUP, 5, member | protocol | assigned, synced)
    for at in (1_000, 20_000, 40_000):
        recording.exchanges(at, 1, HEARTBEAT, 4, member | {"generation_id": 3}, told)

    def answer(got: Got) -> dict[str, Any] | bytes | None:
        if got.key == JOIN_GROUP:
            own = {"leader": "target-1", "member_id": "target-1", "generation_id": 1}
            return told | joined | own | {"members": [{"member_id": "target-1", "metadata": b""}]}
        return synced if got.key == SYNC_GROUP else told if got.key == HEARTBEAT else answered(got)

    simulation = Simulation(recording, answer)
    # what is remembered of the first heartbeat is found; the second one is read ahead of its time, and not yet
    simulation.run(until=14_000)
    assert len(simulation.asked(HEARTBEAT)) == 1
    with entered_by_the_engine() as files:
        result = simulation.run(until=20_100)
    assert [got.values["member_id"] for got in simulation.asked(HEARTBEAT)] == ["target-1"] * 2
    assert result.apis["Heartbeat"].answered == 2
    assert not result.mismatches
    assert len(files) <= MOST_FILES, sorted(files)


def test_a_request_that_is_read_behind_others_is_looked_at_when_these_have_left() -> None:
    recording, count = Recording(), 100
    for at in range(count):
        # each waits for the answer of the one before it
        writes(recording, 2 * at, 1)
    with counted_calls() as calls:
        assert len(played(recording).got) == count
    assert calls["_leave"] == count
    # once behind the one before it, and once when that was answered; the first one waits for its leader and connection
    assert calls["_leaves_or_ends"] <= 2 * count + 5
