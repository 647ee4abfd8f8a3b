"""Tests of the compactor against a naive twin, for any chunks, segments and crashes."""

import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.conversation.exchange import Cause, Direction
from proxy.wire import catalog, keys
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from recorder.capture import compaction, compactor, spool
from recorder.capture import session as sessions
from recorder.capture.compaction import Compaction
from recorder.capture.compactor import Compacted, Summary, compact, compact_session
from recorder.capture.lock import COMPACTOR_LOCK, Lock
from recorder.capture.session import FolderError, RecordSettings
from recorder.capture.status import read_status
from recorder.capture.tap import Tap, open_tap
from recorder.capture.writer import Clock
from tests.brokers.waiting import PATIENCE
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import (
    assert_holds,
    event_rows,
    everything,
    frame_rows,
    kill,
    segment_path,
    segments,
    session_folder,
    take_lock,
)
from tests.recorder.capture.traffic import Player, Talk, some_talks
from tests.sweeps import examples

TapOf = Callable[..., Tap]
MIB = 1024 * 1024
# how often a recording is written to its log, about: the most segments that it may have
FLUSHES = 25


def record(folder: Path, talks: list[Talk], rng: random.Random, **settings: object) -> str:
    """Records the talks, mixed, into a session, and closes it; returns its name."""
    tap = open_tap(folder, RecordSettings(**settings))  # type: ignore[arg-type]
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    flushed = FLUSHES / sum(len(talk.chunks) for talk in talks)
    left = {talk.connection: list(talk.chunks) for talk in talks}
    while left:
        connection = rng.choice(list(left))
        if left[connection]:
            player.play(connection, left[connection].pop(0))
        else:
            player.close(connection)
            del left[connection]
        if rng.random() < flushed:
            # bytes that are written at once are never cut by a segment's end
            tap.flush()
    tap.close()
    return tap.session


def newer_head(number: int) -> bytes:
    """A segment head of a later format."""
    told = number.to_bytes(2, "big") + (2).to_bytes(4, "big") + b"{}"
    return told + crc32c(told, crc32c(b"KWSPOOL\n")).to_bytes(4, "big")


def assert_capture_holds(folder: Path, talks: list[Talk]) -> None:
    for talk in talks:
        assert_holds(frame_rows(folder, talk.connection), traffic.expected(talk))
    assert sorted(row["connection"] for row in event_rows(folder, "opened")) == [talk.connection for talk in talks]
    assert sorted(row["connection"] for row in event_rows(folder, "closed")) == [talk.connection for talk in talks]
    assert {row["cause"] for row in event_rows(folder, "session")} == {"started", "ended"}
    assert event_rows(folder, "gap") == []


@pytest.mark.real
@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 32),
    largest=st.sampled_from([1, 9, 60, 700, 9000]),
    segment=st.sampled_from([1, 500, 4_000, 1 << 20]),
)
def test_any_traffic_cut_anywhere_makes_the_rows_of_the_naive_twin(
    seed: int, largest: int, segment: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("capture")
    rng = random.Random(seed)
    talks = some_talks(rng, 2, 3 if largest == 1 else 12, largest)
    talks.append(traffic.cut(rng, traffic.old_talk(rng, 2, 3 if largest == 1 else 12), largest))
    record(folder, talks, rng, segment=segment)
    compact(folder)
    assert_capture_holds(folder, talks)


def test_frames_and_events_say_of_which_cluster_their_connection_is(tmp_path: Path) -> None:
    tap = open_tap(tmp_path, RecordSettings())
    player = Player(tap)
    for cluster, talk in zip(("east", "west"), some_talks(random.Random(1), 2, 3, 30), strict=True):
        player.open(talk, cluster=cluster)
        for chunk in talk.chunks:
            player.play(talk.connection, chunk)
        tap.node(talk.connection, "b:9092", "127.0.0.1:9095", cluster)
    tap.close()
    compact(tmp_path)
    assert {(row["connection"], row["cluster"]) for row in frame_rows(tmp_path)} == {(0, "east"), (1, "west")}
    events = [(row["kind"], row["connection"], row["cluster"]) for row in event_rows(tmp_path)]
    assert {event for event in events if event[0] == "opened"} == {("opened", 0, "east"), ("opened", 1, "west")}
    assert {event for event in events if event[0] == "node"} == {("node", None, "east"), ("node", None, "west")}
    assert {cluster for kind, _, cluster in events if kind == "session"} == {None}


def test_each_row_has_the_values_that_its_connection_shares(tmp_path: Path) -> None:
    rng = random.Random(1)
    talks = some_talks(rng, 2, 20, 300)
    session = record(tmp_path, talks, rng, segment=2_000)
    compact(tmp_path)
    for row in frame_rows(tmp_path):
        assert (row["session"], row["cluster"], row["dialect"]) == (session, "main", "kafka")
        assert (row["node"], row["listener"], row["client"]) == (1, "127.0.0.1:19092", "127.0.0.1:5555")
        assert row["stored"] == row["size"] == len(row["frame"])
        assert row["at_ns"] // 1000 == round(row["at"].timestamp() * 1_000_000)


def test_times_of_a_response_are_those_of_the_metrics(tmp_path: Path) -> None:
    rng = random.Random(2)
    talks = some_talks(rng, 1, 30, 100)
    record(tmp_path, talks, rng)
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    requests = {row["exchange"]: row for row in rows if row["kind"] == "request"}
    previous_end = 0
    for row in [row for row in rows if row["kind"] == "response"]:
        asked = requests[row["exchange"]]["mono_ns"]
        assert row["latency_ns"] == row["first_mono_ns"] - asked
        assert row["queued_ns"] == max(0, min(row["first_mono_ns"], previous_end) - asked)
        assert row["transfer_ns"] == row["mono_ns"] - row["first_mono_ns"]
        previous_end = row["mono_ns"]


def test_a_finished_session_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    rng = random.Random(3)
    record(tmp_path, some_talks(rng, 1, 5, 300), rng, segment=500)
    summary = compact(tmp_path)
    assert len(summary.sessions) == 1
    assert summary.frames == len(frame_rows(tmp_path))
    assert os.listdir(tmp_path / sessions.SPOOL_FOLDER) == []
    assert compact(tmp_path) == Summary()
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


def test_only_closed_segments_of_a_live_session_are_compacted(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(4)
    (talk,) = some_talks(rng, 1, 40, 300)
    tap = tap_of(segment=1_000)
    player = Player(tap)
    player.open(talk)
    half = len(talk.chunks) // 2
    for chunk in talk.chunks[:half]:
        player.play(0, chunk)
        tap.flush()
    summary = compact(tmp_path)
    assert summary.live == (tap.session,)
    assert 0 < len(frame_rows(tmp_path)) < len(traffic.expected(talk))
    for chunk in talk.chunks[half:]:
        player.play(0, chunk)
    player.close(0)
    tap.close()
    compact(tmp_path)
    assert_capture_holds(tmp_path, [talk])


def test_a_segment_that_ends_just_before_the_reader_waits_is_read_to_its_end(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(8)
    (talk,) = some_talks(rng, 1, 20, 300)
    tap = tap_of()
    player = Player(tap)
    player.open(talk)
    half = len(talk.chunks) // 2
    for chunk in talk.chunks[:half]:
        player.play(0, chunk)
    tap.flush()

    def meanwhile(_: Compaction) -> bool:
        for chunk in talk.chunks[half:]:
            player.play(0, chunk)
        player.close(0)
        tap.close()
        return False

    with monkeypatch.context() as patched:
        patched.setattr(Compaction, "_wait", meanwhile)
        compact(tmp_path)
    compact(tmp_path)
    assert_capture_holds(tmp_path, [talk])


def test_a_session_that_another_compacts_is_left_to_it(tmp_path: Path) -> None:
    rng = random.Random(5)
    session = record(tmp_path, some_talks(rng, 1, 5, 300), rng)
    lock = take_lock(session_folder(tmp_path, session), COMPACTOR_LOCK)
    assert lock is not None
    assert compact(tmp_path).busy == (session,)
    lock.release()
    assert compact(tmp_path).sessions == (session,)


def test_a_killed_proxys_session_ends_where_its_log_does(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(6)
    (talk,) = some_talks(rng, 1, 20, 300)
    tap = tap_of()
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks[:-1]:
        player.play(0, chunk)
    kill(tap)
    # the last write was cut short
    (segment,) = segments(session_folder(tmp_path, tap.session))
    path = segment_path(session_folder(tmp_path, tap.session), segment)
    os.truncate(path, path.stat().st_size - 1)
    compact(tmp_path)
    whole = [row for row in frame_rows(tmp_path) if not (row["note"] or "").startswith("cut")]
    assert_holds(whole, traffic.expected(talk)[: len(whole)])
    assert len(whole) >= len(traffic.expected(talk)) - 2 - len(talk.chunks[-2].data)
    assert [row["cause"] for row in event_rows(tmp_path, "closed")] == ["session_ended"]
    assert {row["cause"] for row in event_rows(tmp_path, "session")} == {"started", "died"}
    assert event_rows(tmp_path, "gap") == []


def test_a_frame_that_never_came_whole_is_a_row_with_a_note(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(7)
    call = traffic.call(rng, keys.METADATA, 1, "c", 300)
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(0, []))
    player.play(0, traffic.Chunk(Direction.REQUEST, call.request[:200], 10))
    player.close(0)
    tap.close()
    compact(tmp_path)
    (row,) = frame_rows(tmp_path)
    assert row["note"] == f"cut: {len(call.request) - 200} bytes never came"
    assert (row["frame"], row["size"], row["api"]) == (call.request[4:200], 196, "Metadata")


def test_a_masked_opaque_frame_says_neither_client_nor_content(tap_of: TapOf, tmp_path: Path) -> None:
    call = traffic.call(random.Random(8), traffic.VENDOR, 1, "someone", 30)
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(0, []))
    player.play(0, traffic.Chunk(Direction.REQUEST, call.request, 10))
    player.close(0)
    tap.close()
    compact(tmp_path)
    (row,) = frame_rows(tmp_path)
    assert row["frame"] == call.request[4:12] + bytes(len(call.request) - 12)
    assert row["masked"] == [(8, len(call.request) - 12)]
    assert (row["client_id"], row["note"], row["api_key"]) == (None, "unknown_api", traffic.VENDOR)


def play_stream(player: Player, direction: int, stream: bytes, size: int, at_ns: int) -> None:
    """A stream in pieces of a size."""
    for at in range(0, len(stream), size):
        player.play(0, traffic.Chunk(Direction(direction), stream[at : at + size], at_ns + at))


@pytest.mark.real
def test_frames_above_the_default_limit_are_rows_where_the_proxy_lets_them_through(
    tap_of: TapOf, tmp_path: Path
) -> None:
    """Takes a Produce request of 101 MiB, and a frame after it. It crosses segments, so a state has to keep it."""
    rng = random.Random(1)
    records = b"a batch, and many like it; " * (101 * MIB // 27)
    values = {
        "acks": 1,
        "timeout_ms": 1,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
    }
    large = traffic.framed(catalog.encode_request(keys.PRODUCE, 8, 7, "c", values))
    answer = traffic.framed(catalog.encode_response(keys.PRODUCE, 8, 7, {"responses": []}))
    small = traffic.call(rng, keys.METADATA, 8, "c")
    tap = tap_of(segment=40 * MIB, queue=300 * MIB)
    player = Player(tap)
    player.open(Talk(0, []), limits=FrameLimits(200 * MIB, 200 * MIB))
    play_stream(player, 0, large + small.request, MIB, 10)
    play_stream(player, 1, answer + (small.answer or b""), 100, 10**9)
    player.close(0)
    tap.close()
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    assert [(row["kind"], row["api_key"], row["note"]) for row in rows] == [
        *(("request", api, None) for api in (keys.PRODUCE, keys.METADATA)),
        *(("response", api, None) for api in (keys.PRODUCE, keys.METADATA)),
    ]
    assert rows[0]["size"] == len(large) - 4 > 101 * MIB
    assert rows[0]["frame"] == large[4:]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("direction", [0, 1], ids=["request", "response"])
def test_lengths_beyond_the_proxys_limit_are_not_frames(tap_of: TapOf, tmp_path, dialect, direction: int) -> None:
    """Here the limit is below the default."""
    if dialect is Dialect.KAFKA_07:
        asked, answered = b"\0\1", b"\0\0"
    else:
        asked, answered = catalog.encode_request(keys.HEARTBEAT, 0, 7, "c", {}), (7).to_bytes(4, "big")
    frames = [[head + bytes(size - len(head)) for size in (64, 65)] for head in (asked, answered)]
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(0, [], dialect=dialect), limits=FrameLimits(64, 64))
    player.play(0, traffic.Chunk(Direction.REQUEST, traffic.framed(frames[0][0]) * 2, 10))
    player.play(0, traffic.Chunk(Direction.RESPONSE, traffic.framed(frames[1][0]), 11))
    player.play(0, traffic.Chunk(Direction(direction), traffic.framed(frames[direction][1]), 12))
    player.close(0, Cause.BAD_LENGTH)
    tap.close()
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    assert [row["note"] for row in rows] == [None] * 3 + ["bad_length"]
    # unreadable bytes may hold secrets, so only their length is kept
    head = 12 if dialect is Dialect.KAFKA_07 else 0
    left = traffic.framed(frames[direction][1])
    assert (rows[-1]["kind"], rows[-1]["frame"]) == ("bytes", left[:head] + bytes(len(left) - head))


def test_a_torn_write_that_was_mended_elsewhere_is_no_damage(tmp_path: Path) -> None:
    rng = random.Random(11)
    (talk,) = some_talks(rng, 1, 40, 300)
    session = record(tmp_path, [talk], rng, segment=3_000)
    folder = session_folder(tmp_path, session)
    with segment_path(folder, segments(folder)[0]).open("ab") as file:
        file.write(b"half an entry")
    compact(tmp_path)
    assert_capture_holds(tmp_path, [talk])


def test_a_newer_spool_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    rng = random.Random(12)
    session = record(tmp_path, some_talks(rng, 1, 5, 300), rng)
    path = segment_path(session_folder(tmp_path, session), 1)
    path.write_bytes(b"KWSPOOL\n" + newer_head(99))
    before = everything(tmp_path)
    with pytest.raises(spool.UnknownSpoolError, match="spool format 99"):
        compact_session(tmp_path, session)
    assert compact(tmp_path).failed == (
        (session, "spool format 99, this program knows only 3: compact it where it was made"),
    )
    assert everything(tmp_path) == before


def test_an_unwritable_capture_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(13)
    session = record(tmp_path, some_talks(rng, 1, 5, 300), rng)

    def refused(*_: object) -> Lock:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Lock, "take", refused)
    with pytest.raises(FolderError, match=r"isn't compacted, and can't be written or locked: Permission denied"):
        compact_session(tmp_path, session)


@pytest.mark.real
def test_the_process_follows_a_session_until_its_end(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(14)
    (talk,) = some_talks(rng, 1, 60, 300)
    tap = tap_of(segment=1_000)
    command = [sys.executable, "-m", "recorder.capture.compactor", str(tmp_path), "--session", tap.session, "--follow"]
    with subprocess.Popen(command) as process:
        Player(tap).all_of([talk])
        tap.close()
        assert process.wait(PATIENCE) == 0
    assert_capture_holds(tmp_path, [talk])


def test_the_next_proxys_compactor_takes_over_what_an_earlier_one_left(
    tap_of: TapOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(16)
    (talk,) = some_talks(rng, 1, 20, 300)
    left = record(tmp_path, [talk], rng)
    spoiled = session_folder(tmp_path, "spoiled")
    spoiled.mkdir()
    (spoiled / "00000001.log").symlink_to("elsewhere")
    tap = tap_of()
    idle = compactor.idle_for(tmp_path, tap.session)
    assert sessions.sessions(tmp_path) == sorted([left, "spoiled", tap.session])
    for _ in range(3):
        idle()
    assert sessions.sessions(tmp_path) == sorted(["spoiled", tap.session])
    assert_capture_holds(tmp_path, [talk])
    assert "session spoiled is left as it is" in capsys.readouterr().err


@pytest.mark.real
def test_the_status_says_how_far_it_is(tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "STATUS_SECONDS", 0)
    rng = random.Random(15)
    (talk,) = some_talks(rng, 1, 60, 300)
    tap = tap_of(segment=1_000)
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(0, chunk)
        tap.flush()
    done = compact_session(tmp_path, tap.session)
    assert done.finished is False
    status = read_status(tap._folder)
    assert status is not None
    assert status.frames >= done.frames == len(frame_rows(tmp_path))
    # the compactor has read the newest segment too, but has made no rows of it yet
    folder = tap._folder.path
    assert status.segment == segments(folder)[-1]
    assert status.position == segment_path(folder, status.segment).stat().st_size


def test_a_clock_that_was_set_moves_the_rows_after_it(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(16)
    (talk,) = some_talks(rng, 1, 20, 300)
    tap = tap_of()
    player = Player(tap)
    player.open(talk)
    half = len(talk.chunks) // 2
    for chunk in talk.chunks[:half]:
        player.play(0, chunk)
    tap.flush()
    before = tap._writer.log.clock_offset_ns
    tap._writer.log.clock = Clock(offset_ns=lambda: before + 7_200_000_000_000)
    for chunk in talk.chunks[half:]:
        player.play(0, chunk)
    player.close(0)
    tap.close()
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    assert {row["at_ns"] - row["mono_ns"] - before for row in rows} == {0, 7_200_000_000_000}
    assert len({path.parent.name for path in (tmp_path / "frames").rglob("*.parquet")}) == 2
    assert [event["detail"] for event in event_rows(tmp_path, "clock")] == ['{"moved_ns": 7200000000000}']


def test_payloads_in_the_spool_are_the_proxys_users_alone_and_columns_are_the_umasks(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        rng = random.Random(1)
        tap = open_tap(tmp_path, RecordSettings(segment=2_000))
        for connection in (1, 2):
            Player(tap).all_of([traffic.cut(rng, traffic.talk(rng, connection, 40), 400)])
            # bytes that are written at once are one segment; the second one begins with a state
            tap.flush()
        assert compact(tmp_path).live == (tap.session,)
        folder = session_folder(tmp_path, tap.session)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert {Path(name).suffix for name in modes} == {".log", ".state", ".lock", ".json"}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        published = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*.parquet")}
        assert published == {0o644}
        tap.close()
    finally:
        os.umask(before)


def test_a_session_that_is_being_written_is_left_to_its_own_compactor(tmp_path, monkeypatch):
    tried: list[str] = []

    def compact_session(folder: Path, session: str, **_: Any) -> Compacted:
        tried.append(session)
        return Compacted(True)

    monkeypatch.setattr(compactor, "compact_session", compact_session)
    (tmp_path / sessions.SPOOL_FOLDER).mkdir()
    (_, left), (_, live) = (sessions.begin(tmp_path, name) for name in ("left", "live"))
    left.release()
    idle = compactor.idle_for(tmp_path, "own")
    idle()
    idle()
    live.release()
    assert tried == ["left"]


def test_a_link_in_place_of_a_session_is_named_and_not_followed(tmp_path: Path) -> None:
    elsewhere, capture = tmp_path / "elsewhere", tmp_path / "capture"
    elsewhere.mkdir()
    (capture / "_spool").mkdir(parents=True)
    (capture / "_spool" / "20261121T120000Z-abc").symlink_to(elsewhere)
    done = compact(capture)
    assert done.failed == (("20261121T120000Z-abc", "it is a link, which is not followed"),)
    assert elsewhere.is_dir()


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    rng = random.Random(21)
    for talk in some_talks(rng, 2, 20, 300):
        record(tmp_path, [talk], rng)
    told: list[str] = []
    done = compact(tmp_path, say=told.append)
    assert told[0] == "session 1 of 2"
    assert told[-1].startswith("session 2 of 2: ")
    frames = [int(found[1]) for line in told if (found := re.search(r"(\d+) frames done", line))]
    assert 0 < max(frames) <= done.frames
