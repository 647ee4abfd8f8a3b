"""Tests of the stream of exchanges: each once, in order of time, for any order of files."""

import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import HEARTBEAT, METADATA
from recorder.capture.frames import DamagedFileError, frames_schema
from recorder.capture.reader import CheckedBodies, last_ns
from recorder.replay import stream
from recorder.replay.plan import Reason
from recorder.replay.stream import (
    AnswerRecorded,
    ConnectionClosed,
    ConnectionOpened,
    DiskRead,
    NodeFound,
    RequestRecorded,
    happenings,
    in_steps,
)
from tests.recorder.replay.captures import (
    AS_RECORDED,
    NOON_NS,
    SESSION,
    Row,
    checksums,
    event,
    request,
    response,
    row,
    write,
)

OTHER = "20261121T120000Z-xyz"
# files as the recorder writes them, and as another program may rewrite them
STORED: list[Row] = [{"compression": "zstd", "use_dictionary": False}, {"use_dictionary": True}]


def test_an_exchange_is_shown_with_its_connection_in_order_of_time(tmp_path: Path) -> None:
    frames = [request(20, 1, 0, METADATA, 12, {"topics": None}), response(30, 1, 0, METADATA, 12, {})]
    write(tmp_path, frames, [event(10, 1, "opened"), event(40, 1, "closed")])
    found = [*happenings(tmp_path)]
    assert [type(each) for each in found] == [ConnectionOpened, RequestRecorded, AnswerRecorded, ConnectionClosed]
    assert [each.ns - NOON_NS for each in found] == [10, 20, 30, 40]


def test_a_connection_is_opened_before_its_frames_and_closed_after_them_at_one_time(tmp_path: Path) -> None:
    frames = [request(10, 1, 0, METADATA, 12, {"topics": None})]
    write(tmp_path, frames, [event(10, 1, "opened"), event(10, 1, "closed")])
    assert [type(each) for each in happenings(tmp_path)] == [ConnectionOpened, RequestRecorded, ConnectionClosed]


def test_the_request_has_what_the_replay_needs(tmp_path: Path) -> None:
    asked = request(20, 3, 4, METADATA, 12, {"topics": None}, node=2, principal="User:alice", first_mono_ns=15)
    write(tmp_path, [asked])
    (found,) = happenings(tmp_path)
    assert isinstance(found, RequestRecorded)
    exchange = found.exchange
    assert exchange.origin == (SESSION, 3, 4)
    assert (exchange.first_ns - NOON_NS, exchange.at_ns - NOON_NS) == (15, 20)
    assert (exchange.node, exchange.principal, exchange.peer) == (2, "User:alice", ("127.0.0.1", "app"))
    assert exchange.request == exchange.decoded()
    assert exchange.request["topics"] is None


def test_sessions_share_a_time_line_even_where_a_wall_clock_was_set(tmp_path: Path) -> None:
    """By the wall clock, the other session's second frame arrived an hour earlier; its monotonic clock counts."""
    hour = 3600 * 10**9
    late = {"session": OTHER, "mono_ns": 1000, "first_mono_ns": 1000, "at_ns": NOON_NS + 15}
    later = {"session": OTHER, "mono_ns": 1010, "first_mono_ns": 1010, "at_ns": NOON_NS + 25 - hour}
    heartbeat = {"group_id": "g", "member_id": "m"}
    write(
        tmp_path,
        [
            request(10, 1, 0, HEARTBEAT, 4, heartbeat),
            request(20, 1, 1, HEARTBEAT, 4, heartbeat),
            request(30, 1, 2, HEARTBEAT, 4, heartbeat),
            request(15, 1, 0, HEARTBEAT, 4, heartbeat, **late),
            request(25, 1, 1, HEARTBEAT, 4, heartbeat, **later),
        ],
    )
    assert [each.ns - NOON_NS for each in happenings(tmp_path)] == [10, 15, 20, 25, 30]


@pytest.mark.real
@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    sessions=st.integers(1, 3),
    group=st.integers(1, 5),
)
def test_every_frame_comes_once_and_none_before_an_earlier_one(times: list[int], sessions: int, group: int) -> None:
    names = [f"{SESSION}{number}" for number in range(sessions)]
    rows = [
        request(ns, 1, at, METADATA, 12, {"topics": None}, session=names[at % sessions]) for at, ns in enumerate(times)
    ]
    with TemporaryDirectory() as folder:
        found = [
            each for each in happenings(write(Path(folder), rows, group=group)) if isinstance(each, RequestRecorded)
        ]
    assert [each.ns for each in found] == sorted(each.ns for each in found)
    wanted = sorted((NOON_NS + ns, names[at % sessions], at) for at, ns in enumerate(times))
    assert sorted((each.ns, each.exchange.origin.session, each.exchange.origin.exchange) for each in found) == wanted


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    sizes=st.lists(st.integers(0, 30_000), min_size=1, max_size=5),
    stored=st.sampled_from(STORED),
    window=st.sampled_from([1, 40_000, 4 << 20]),
)
def test_every_frame_has_its_own_bytes_in_whatever_order_they_are_stored(
    times: list[int], sizes: list[int], stored: Row, window: int
) -> None:
    frames = [at.to_bytes(4) + bytes(sizes[at % len(sizes)]) for at in range(len(times))]
    told = {"api_key": METADATA, "api_version": 12}
    rows = [row(ns, 1, 2 * at, frames[at], **told) for at, ns in enumerate(times)]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream, "_WINDOW", window)
        write(Path(folder), rows, group=100, **stored)
        found = [each.exchange for each in happenings(Path(folder)) if isinstance(each, RequestRecorded)]
    assert [(each.at_ns - NOON_NS, each.frame) for each in found] == sorted(zip(times, frames, strict=True))


def test_a_step_is_announced_before_frames_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that serves sockets must know which steps wait for the disk: each window, and the opening."""
    monkeypatch.setattr(stream, "_WINDOW_FRAMES", 2)
    rows = [row(ns, 1, 2 * ns, b"x", api_key=METADATA, api_version=12) for ns in range(5)]
    steps = [*in_steps(write(tmp_path, rows, group=10))]
    assert [isinstance(each, DiskRead) for each in steps] == [True, True, False, False, True, False, False, True, False]


def write_one_page(folder: Path, compression: str = "none") -> Path:
    """Writes frames in one page with a checksum. Returns their file."""
    rows = [row(ns, 1, 2 * ns, b"x" * 100, api_key=METADATA, api_version=12) for ns in range(3)]
    # statistics would hold a frame's bytes a second time
    write(folder, rows, write_statistics=["mono_ns"], **AS_RECORDED | {"compression": compression})
    (file,) = (folder / "frames").rglob("*.parquet")
    return file


def test_checksums_are_computed_in_the_first_pass_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_one_page(tmp_path)
    checked, computed = CheckedBodies(), checksums(monkeypatch)
    assert len([*happenings(tmp_path, checked=checked)]) == 3
    assert computed
    computed.clear()
    assert len([*happenings(tmp_path, checked=checked)]) == 3
    assert not computed


@pytest.mark.parametrize("is_replaced", [False, True], ids=["written to", "replaced"])
def test_a_file_that_has_changed_since_the_first_pass_is_checked_again(tmp_path: Path, is_replaced: bool) -> None:
    file, checked = write_one_page(tmp_path), CheckedBodies()
    assert len([*happenings(tmp_path, checked=checked)]) == 3
    before, found = file.read_bytes(), file.stat()
    if is_replaced:
        file.unlink()
    file.write_bytes(before.replace(b"xxx", b"xyx", 1))
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    with pytest.raises(DamagedFileError, match="checksum"):
        [*happenings(tmp_path, checked=checked)]


def test_a_pass_that_was_given_up_has_checked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row group may have more pages, which nobody has looked at."""
    monkeypatch.setattr(stream, "_WINDOW_FRAMES", 1)
    file, checked = write_one_page(tmp_path), CheckedBodies()
    assert isinstance(next(happenings(tmp_path, checked=checked)), RequestRecorded)
    found = file.stat()
    file.write_bytes(file.read_bytes().replace(b"xxx", b"xyx", 1))
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(DamagedFileError, match="checksum"):
        [*happenings(tmp_path, checked=checked)]


def test_frames_are_read_although_the_machine_refuses_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(stream, "_WINDOW_FRAMES", 2)
    write_one_page(tmp_path, "zstd")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    found = [each.exchange.frame for each in happenings(tmp_path) if isinstance(each, RequestRecorded)]
    assert found == [b"x" * 100] * 3


def test_frames_that_can_not_be_sent_say_why(tmp_path: Path) -> None:
    frame = {"api_key": METADATA, "api_version": 12}
    blank = [{"start": 0, "length": 4}]
    reasons = {
        Reason.MASKED: row(1, 1, 0, b"x" * 20, masked=blank, **frame),
        Reason.CUT: row(2, 1, 2, b"x" * 20, omitted=blank, **frame),
        Reason.OPAQUE: row(3, 1, 4, b"x" * 20, note="unknown_api", **frame),
        Reason.OLD_DIALECT: row(4, 1, 6, b"x" * 20, **(frame | {"dialect": "kafka-0.7"})),
    }
    write(tmp_path, [*reasons.values(), row(5, 1, 8, b"", **frame) | {"frame": None}])
    found = [each.exchange.fault for each in happenings(tmp_path) if isinstance(each, RequestRecorded)]
    assert found == [*reasons, Reason.CUT]


def test_a_request_without_its_records_is_withheld(tmp_path: Path) -> None:
    lacking = {"dropped": [{"start": 16, "length": 4}], "records": "drop"}
    write(tmp_path, [row(1, 1, 0, b"x" * 20, api_key=METADATA, api_version=12, **lacking)])
    (found,) = happenings(tmp_path)
    assert isinstance(found, RequestRecorded)
    assert found.exchange.fault is Reason.NOT_KEPT


def test_an_answer_with_masked_bytes_is_known_to_have_come_and_not_used(tmp_path: Path) -> None:
    answer = response(20, 1, 0, METADATA, 12, {}, masked=[{"start": 0, "length": 4}])
    write(tmp_path, [request(10, 1, 0, METADATA, 12, {"topics": None}), answer])
    _, found = happenings(tmp_path)
    assert isinstance(found, AnswerRecorded)
    assert found.frame is None


def test_tokens_and_bytes_of_no_frame_are_no_exchange(tmp_path: Path) -> None:
    write(tmp_path, [row(1, 1, 0, b"token", kind="token", exchange=None)])
    assert [*happenings(tmp_path)] == []


def test_a_node_is_reported_with_its_id(tmp_path: Path) -> None:
    detail = '{"node_id": 2, "upstream": "b2:9092"}'
    frames = [request(20, 1, 0, METADATA, 12, {"topics": None})]
    write(tmp_path, frames, [event(5, None, "node", detail=detail), event(6, None, "node", detail="[]")])
    first, _ = happenings(tmp_path)
    assert isinstance(first, NodeFound)
    assert first.node == 2


def test_only_sessions_that_are_wanted_are_read(tmp_path: Path) -> None:
    rows = [request(1, 1, 0, METADATA, 12, {}, session=name) for name in (SESSION, OTHER)]
    write(tmp_path, rows)
    assert [
        each.exchange.origin.session for each in happenings(tmp_path, [OTHER[:-1]]) if isinstance(each, RequestRecorded)
    ] == [OTHER]


@pytest.mark.parametrize("at", [0, 1], ids=["first", "later"])
def test_a_frame_without_a_time_is_damage(tmp_path: Path, at: int) -> None:
    frames = [request(ns, 1, ns, METADATA, 12, {"topics": None}) for ns in range(2)]
    frames[at]["mono_ns"] = None
    with pytest.raises(DamagedFileError, match="can't be read: its column mono_ns has holes"):
        [*happenings(write(tmp_path, frames, group=1))]


def test_an_event_without_a_time_is_damage(tmp_path: Path) -> None:
    write(tmp_path, [request(10, 1, 0, METADATA, 12, {"topics": None})], [event(10, 1, "opened", mono_ns=None)])
    with pytest.raises(DamagedFileError, match="can't be read: its column mono_ns has holes"):
        [*happenings(tmp_path)]


def test_a_file_without_rows_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, [request(10, 1, 0, METADATA, 12, {"topics": None})])
    folder = tmp_path / "frames" / "date=2026-11-21" / "hour=12"
    pq.write_table(frames_schema().empty_table(), folder / f"{SESSION}-0-0.parquet")
    pq.ParquetWriter(folder / f"{SESSION}-2-2.parquet", frames_schema()).close()
    pq.ParquetWriter(folder / f"{OTHER}-1-1.parquet", frames_schema()).close()
    assert [type(each) for each in happenings(tmp_path)] == [RequestRecorded]


def test_the_last_time_is_that_of_the_last_frame(tmp_path: Path) -> None:
    write(tmp_path, [request(ns, 1, ns, METADATA, 12, {}) for ns in (3, 9, 5)])
    assert last_ns(tmp_path) == NOON_NS + 9


def test_the_stream_has_the_wanted_clusters_frames_and_the_sessions_events(tmp_path: Path) -> None:
    frames = [
        each
        for number, cluster in enumerate(("one", "two", None), 1)
        for each in (
            request(10, number, 0, METADATA, 12, {"topics": None}, cluster=cluster),
            response(20, number, 0, METADATA, 12, {}, cluster=cluster),
        )
    ]
    write(tmp_path, frames, [event(5, number, "opened", cluster=name) for number, name in ((1, "one"), (2, "two"))])
    found = [*happenings(tmp_path, cluster="two")]
    assert [type(each) for each in found] == [
        ConnectionOpened,
        RequestRecorded,
        RequestRecorded,
        AnswerRecorded,
        AnswerRecorded,
    ]
    assert {each.origin.connection for each in found if isinstance(each, AnswerRecorded)} == {2, 3}
