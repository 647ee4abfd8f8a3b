"""Tests of the tap: the log holds what the proxy reported, within the limits, even if the disk fails."""

import errno
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from proxy.conversation.exchange import Cause, Direction
from proxy.log import KeyFormatter
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.wire import catalog
from proxy.wire.catalog import Search
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from recorder.capture import compaction, redaction
from recorder.capture import session as sessions
from recorder.capture.compactor import compact
from recorder.capture.entry_json import decoded
from recorder.capture.session import FolderError, RecordSettings, WhenFull
from recorder.capture.spool import DATA, MONO_NS, OF_STREAMS, OFFSET, Entry, EntryKind
from recorder.capture.status import Status, write_status
from recorder.capture.tap import Tap, compactor_command, open_tap
from recorder.capture.writer import ENTRY_COST
from tests.proxy.net.threads import no_threads
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import (
    assert_holds,
    event_rows,
    frame_rows,
    log_bytes,
    log_entries,
    segments,
    session_folder,
    take_lock,
)
from tests.recorder.capture.traffic import Player, Talk
from tests.sweeps import examples, mostly_long

TapOf = Callable[..., Tap]
KINDS = (traffic.METADATA, traffic.HEARTBEAT, traffic.PRODUCE, traffic.SASL_AUTHENTICATE, traffic.VENDOR)


def spool_of(tmp_path: Path, tap: Tap) -> Path:
    return session_folder(tmp_path, tap.session)


def some_talks(rng: random.Random, count: int, calls: int, largest: int) -> list[Talk]:
    return [traffic.cut(rng, traffic.talk(rng, number, calls, KINDS), largest) for number in range(count)]


def kinds(entries: list[Entry]) -> list[EntryKind]:
    return [EntryKind(entry.kind) for entry in entries]


def test_a_chunk_is_an_entry_in_the_order_of_arrival(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(1)
    (talk,) = [traffic.cut(rng, traffic.talk(rng, 5, 20), 300)]
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    entries = log_entries(spool_of(tmp_path, tap))
    assert kinds(entries)[0] is EntryKind.OPENED
    assert kinds(entries)[-2:] == [EntryKind.CLOSED, EntryKind.END]
    for direction in Direction:
        stream = b"".join(e.data for e in entries if e.kind == EntryKind.BYTES and e.direction == direction)
        assert stream == talk.streams()[direction]


def test_a_connections_events_are_in_the_log(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of(cluster="prod")
    talk = Talk(3, [])
    player = Player(tap)
    player.open(talk, at_ns=5, principal="CN=orders")
    tap.half_closed(3, Direction.REQUEST, 6)
    tap.node(2, "10.0.0.2:9092", "127.0.0.1:9095", "east")
    tap.closed(3, Cause.BROKER_RESET, 7)
    tap.close()
    opened, half, node, closed, _ = log_entries(spool_of(tmp_path, tap))
    told = decoded(opened)
    assert (told["client"], told["tls"], told["principal"]) == (talk.client, True, "CN=orders")
    assert (half.kind, half.direction, half.mono_ns) == (EntryKind.END_OF_STREAM, 0, 6)
    assert decoded(node) == {"node_id": 2, "upstream": "10.0.0.2:9092", "listener": "127.0.0.1:9095", "cluster": "east"}
    assert decoded(closed) == {"cause": "broker_reset", "sequence": 0, "offsets": (0, 0)}


def test_the_limits_in_force_are_in_the_log(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    Player(tap).open(Talk(3, []), limits=FrameLimits(1000, 2000))
    tap.close()
    assert decoded(log_entries(spool_of(tmp_path, tap))[0])["limits"] == (1000, 2000)


def test_connections_that_are_open_when_the_tap_closes_are_closed(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    Player(tap).open(Talk(3, []))
    tap.close()
    tap.close()
    assert kinds(log_entries(spool_of(tmp_path, tap))) == [EntryKind.OPENED, EntryKind.CLOSED, EntryKind.END]


def test_the_writers_lock_is_held_until_the_tap_is_closed(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    spool = spool_of(tmp_path, tap)
    assert take_lock(spool, sessions.WRITER_LOCK) is None
    tap.close()
    assert take_lock(spool, sessions.WRITER_LOCK) is not None


@pytest.mark.real
@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), largest=st.sampled_from([1, 2, 11, 100, 4000]))
def test_no_byte_of_a_secret_reaches_the_disk(seed: int, largest: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    talks = [traffic.cut(rng, traffic.talk(rng, n, 8, (traffic.SASL_AUTHENTICATE, 12)), largest) for n in range(2)]
    tap = open_tap(tmp_path, RecordSettings())
    Player(tap).all_of(talks, rng)
    tap.close()
    log = log_bytes(spool_of(tmp_path, tap))
    assert traffic.SECRET not in log
    if largest == 1:
        streams = b"".join(e.data for e in log_entries(spool_of(tmp_path, tap)) if e.kind == EntryKind.BYTES)
        assert traffic.SECRET not in streams


def stall(tap: Tap, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the tap's disk fail; the returned function mends it."""
    monkeypatch.setattr("recorder.capture.writer.RETRY_SECONDS", 0.001)
    log = tap._writer.log
    real = log._writev

    def fails(descriptor: int, buffers: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log._writev = fails

    def mend() -> None:
        log._writev = real
        while tap._writer.queue:
            tap.flush()

    return mend


def wait_for_room(tap: Tap) -> None:
    freed = threading.Event()
    tap.when_not_full(freed.set)
    assert freed.wait(60)


def play_on_a_bad_disk(tap: Tap, talks: list[Talk], rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays a chunk of each talk in turn. Now and then the disk accepts everything, and then nothing again."""
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    mend = stall(tap, monkeypatch)
    for turn in range(max(len(talk.chunks) for talk in talks)):
        for talk in talks:
            if turn < len(talk.chunks):
                player.play(talk.connection, talk.chunks[turn])
        if rng.random() < 0.05:
            mend()
            mend = stall(tap, monkeypatch)
    for talk in talks:
        player.close(talk.connection)
    mend()


def lost_and_kept(tmp_path: Path, talk: Talk) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Checks each row of a talk in the capture. Returns the rows and the gaps.

    After a gap, frames are numbered as if those that it cut had ended with it, so their order may differ by those.
    """
    wanted = {(row["kind"], row["exchange"]): row for row in traffic.expected(talk)}
    rows = frame_rows(tmp_path, talk.connection)
    asked = {row["exchange"] for row in rows if row["kind"] == "request"}
    for row in rows:
        want = wanted[row["kind"], row["exchange"]] | {"sequence": row["sequence"]}
        if row["kind"] == "response" and row["exchange"] not in asked:
            # only the request tells the client
            want["client_id"] = None
        assert {name: row[name] for name in want} == want
    assert len({row["sequence"] for row in rows}) == len(rows)
    return rows, [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] == talk.connection]


@pytest.mark.real
@pytest.mark.parametrize("seed", mostly_long(range(12), usual=3))
def test_frames_and_what_gaps_lost_are_together_what_came(
    seed: int, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    talks = some_talks(rng, 2, 40, rng.choice([100, 300, 3000]))
    talks.append(traffic.cut(rng, traffic.old_talk(rng, 2, 40), rng.choice([100, 300, 3000])))
    tap = tap_of(queue=6_000, segment=rng.choice([2_000, 1 << 20]))
    play_on_a_bad_disk(tap, talks, rng, monkeypatch)
    counters = tap.counters()
    tap.close()
    compact(tmp_path)
    assert counters["gaps"] > 0
    for talk in talks:
        rows, gaps = lost_and_kept(tmp_path, talk)
        came = traffic.expected(talk)
        assert len(rows) + sum(gap["frames"] for gap in gaps) == len(came)  # type: ignore[misc]
        kept = sum(len(row["frame"]) + 4 for row in rows)  # type: ignore[arg-type]
        assert kept + sum(gap["bytes"] for gap in gaps) == sum(map(len, talk.streams()))  # type: ignore[misc]
        (closed,) = [event for event in event_rows(tmp_path, "closed") if event["connection"] == talk.connection]
        assert (closed["frames"], closed["bytes"]) == (len(came), sum(map(len, talk.streams())))


@pytest.mark.parametrize("seed", mostly_long(range(6), usual=2))
def test_a_gap_after_logins_names_each_frame_that_it_lost_once(
    seed: int, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames with secrets are kept back, and with them everything else on the connection."""
    rng = random.Random(seed)
    tap = tap_of(queue=6_000)
    play_on_a_bad_disk(tap, some_talks(rng, 3, 120, 300), rng, monkeypatch)
    tap.close()
    compact(tmp_path)
    for gap in event_rows(tmp_path, "gap"):
        lost = json.loads(gap["detail"])["lost"].values()
        assert sum(told.get(name, 0) for told in lost for name in ("requests", "responses", "frames")) == gap["frames"]


@pytest.mark.parametrize("seed", mostly_long(range(8), usual=3))
def test_a_gap_says_which_apis_it_lost_and_how_many_bytes(
    seed: int, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 80, (traffic.METADATA, traffic.HEARTBEAT, traffic.PRODUCE)), 400)
    tap = tap_of(queue=2_000)
    player = Player(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    for number, chunk in enumerate(talk.chunks):
        player.play(1, chunk)
        if number == len(talk.chunks) // 2:
            mend()
    mend()
    player.close(1)
    tap.close()
    compact(tmp_path)
    assert_accounts_for_each_api(tmp_path, talk)


def assert_accounts_for_each_api(capture: Path, talk: Talk) -> None:
    """Of each API, the rows and what the gaps lost are together what came: frames and bytes."""
    names = {3: "Metadata", 12: "Heartbeat", 0: "Produce", 36: "SaslAuthenticate"}
    came, kept, lost = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for counted, rows in ((came, traffic.expected(talk)), (kept, frame_rows(capture))):
        for row in rows:
            counted[names[row["api_key"]], f"{row['kind']}s"] += 1
            counted[names[row["api_key"]], f"{row['kind']}_bytes"] += row["size"]
    for gap in event_rows(capture, "gap"):
        for api, counts in json.loads(gap["detail"])["lost"].items():
            lost.update({(api, kind): count for kind, count in counts.items()})
    assert lost
    assert kept + lost == came


def test_a_gap_by_a_fault_names_the_apis_whose_frames_were_kept_back(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    beat = traffic.call(rng, traffic.HEARTBEAT, 1, "client")
    login = traffic.call(rng, traffic.SASL_AUTHENTICATE, 2, "client")
    assert beat.answer is not None
    assert login.answer is not None
    parts = beat.request, login.request[:-5], beat.answer, login.request[-5:], login.answer
    chunks = [
        traffic.Chunk(Direction(to), data, at) for at, (to, data) in enumerate(zip((0, 0, 1, 0, 1), parts, strict=True))
    ]
    talk = Talk(1, [beat, login], chunks=chunks)

    class FaultySearch(list[memoryview]):
        def feed(self, piece: memoryview) -> None:
            if self:
                raise RuntimeError("a bug")
            self.append(piece)

    monkeypatch.setattr(redaction, "search", lambda *_: FaultySearch())
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    compact(tmp_path)
    assert_accounts_for_each_api(tmp_path, talk)


@pytest.mark.parametrize("lost", [0.5, 1], ids=["half", "all"])
def test_a_connection_opened_and_closed_while_the_disk_failed_is_counted(
    lost: float, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.capture.tap.MAX_CONTROL_WAITING", 100)
    rng = random.Random(1)
    first, unsaid, late = some_talks(rng, 3, 20, 500)
    tap = tap_of(queue=200)
    player = Player(tap)
    mend = stall(tap, monkeypatch)
    player.all_of([first])
    player.all_of([unsaid])
    player.open(late)
    lost_chunks = round(len(late.chunks) * lost)
    for chunk in late.chunks[:lost_chunks]:
        player.play(late.connection, chunk)
    mend()
    for chunk in late.chunks[lost_chunks:]:
        player.play(late.connection, chunk)
    player.close(late.connection)
    tap.close()
    compact(tmp_path)
    (nobody,) = [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is None]
    assert nobody["frames"] == len(traffic.expected(unsaid))
    assert unsaid.connection not in {event["connection"] for event in event_rows(tmp_path, "opened")}
    rows, gaps = lost_and_kept(tmp_path, late)
    assert len(rows) + sum(gap["frames"] for gap in gaps) == len(traffic.expected(late))  # type: ignore[misc]


def test_the_limit_is_one_of_memory_however_small_the_chunks(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    heartbeats = Talk(1, [traffic.call(rng, traffic.HEARTBEAT, number, "c", 5) for number in range(3_000)])
    tap = tap_of(queue=200_000)
    player = Player(tap)
    player.open(heartbeats)
    mend = stall(tap, monkeypatch)
    for at_ns, one in enumerate(heartbeats.calls, 1_000_000_000):
        player.play(1, traffic.Chunk(Direction.REQUEST, one.request, at_ns))
    queue = tap._writer.queue
    # the item, the objects that only it refers to, and its place in the list
    memory = sum(8 + sum(map(sys.getsizeof, (item, item[OFFSET], item[MONO_NS], item[DATA]))) for item in queue)
    assert 150_000 < memory < 201_000
    assert tap.counters()["queue_bytes"] == pytest.approx(memory, rel=0.1)
    bytes_waiting = sum(len(item[DATA]) for item in queue)
    assert tap.counters()["recorded_bytes"] == 0
    mend()
    assert tap.counters()["recorded_bytes"] == bytes_waiting
    assert tap.counters()["queue_bytes"] == 0


def test_with_wait_no_frame_is_lost_and_the_traffic_waits(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(2)
    (talk,) = some_talks(rng, 1, 60, 500)
    tap = tap_of(queue=1_000, when_full=WhenFull.WAIT)
    player = Player(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    waited = 0
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
        if tap.must_wait:
            waited += 1
            mend()
            wait_for_room(tap)
            mend = stall(tap, monkeypatch)
    mend()
    assert waited
    player.close(talk.connection)
    tap.close()
    compact(tmp_path)
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


def test_a_full_queue_waits_only_where_that_is_the_setting(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    (talk,) = some_talks(rng, 1, 60, 500)
    for when, full in ((WhenFull.DROP, False), (WhenFull.WAIT, True)):
        tap = tap_of(queue=1_000, when_full=when)
        player = Player(tap)
        player.open(talk)
        mend = stall(tap, monkeypatch)
        for chunk in talk.chunks:
            player.play(talk.connection, chunk)
        assert tap.must_wait is full
        assert (tap.counters()["dropped_bytes"] > 0) is not full
        mend()
        wait_for_room(tap)
        assert not tap.must_wait


async def test_connections_that_end_while_they_wait_for_the_disk_leave_no_thread_behind(
    tap_of: TapOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (talk,) = some_talks(random.Random(2), 1, 60, 500)
    tap = tap_of(queue=1_000, when_full=WhenFull.WAIT)
    player, room = Player(tap), RecorderBackpressure(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
    before = threading.active_count()
    for _ in range(50):
        async with trio.open_nursery() as connection:
            connection.start_soon(room.wait)
            await wait_all_tasks_blocked()
            connection.cancel_scope.cancel()
    assert threading.active_count() == before
    mend()
    with trio.fail_after(60):
        await room.wait()
    assert not tap.must_wait


def test_a_failing_disk_is_counted_and_traffic_continues(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    (talk,) = some_talks(rng, 1, 30, 500)
    tap = tap_of(queue=3_000)
    player = Player(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
    tap.flush()
    assert tap.counters()["failed"] == 1
    assert 0 < tap.counters()["queue_bytes"] <= 3_000 + 500 + ENTRY_COST
    mend()
    assert tap.counters()["failed"] == 0
    assert tap.counters()["queue_bytes"] == 0


@pytest.mark.parametrize("when", WhenFull)
def test_without_its_thread_nothing_is_recorded_and_traffic_continues(
    when: WhenFull, tap_of: TapOf, tmp_path: Path
) -> None:
    rng = random.Random(5)
    recorded, lost = some_talks(rng, 2, 60, 500)
    tap = tap_of(queue=200_000, when_full=when)
    player = Player(tap)
    player.all_of([recorded])
    player.open(lost)
    tap.flush()

    def faulty(descriptor: int, buffers: object) -> int:
        raise ValueError("a bug")

    tap._writer.log._writev = faulty
    player.play(lost.connection, lost.chunks[0])
    tap._writer.wait_until(lambda: False)
    for chunk in lost.chunks[1:]:
        player.play(lost.connection, chunk)
        assert not tap.must_wait
        wait_for_room(tap)
    player.open(Talk(77, []))
    player.close(lost.connection)
    counters = tap.counters()
    assert counters["failed"] == 1
    assert counters["queue_bytes"] == 0
    assert counters["dropped_bytes"] == sum(map(len, lost.streams()))
    assert tap._writer.queue == []
    tap.close()
    assert compact(tmp_path).sessions == (tap.session,)
    assert_holds(frame_rows(tmp_path), traffic.expected(recorded))


def test_a_fault_of_the_recorder_costs_a_recording_not_a_connection(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(4)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 40, (traffic.SASL_AUTHENTICATE, 12)), 4000)
    faults = iter([RuntimeError("a bug"), None])

    def faulty(*arguments: object) -> Search:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return real(*arguments)  # type: ignore[arg-type]

    real = redaction.search
    monkeypatch.setattr(redaction, "search", faulty)
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    told = [KeyFormatter().format(record) for record in caplog.records]
    assert " connection=1\n" in told[0]
    assert "RuntimeError: a bug" in told[0]
    compact(tmp_path)
    rows, gaps = lost_and_kept(tmp_path, talk)
    assert [gap["cause"] for gap in gaps] == ["recorder_fault"]
    assert len(rows) + gaps[0]["frames"] == len(traffic.expected(talk))  # type: ignore[operator]


def test_an_answer_of_the_proxy_is_recorded_as_its_own(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(5)
    first, newer = traffic.call(rng, 12, 1, "c"), traffic.framed(b"\0\x12\x7f\0\0\0\0\2\xff\xff\0")
    tap = tap_of()
    player = Player(tap)
    talk = player.open(Talk(1, []))
    player.play(1, traffic.Chunk(Direction.REQUEST, first.request + newer, 10))
    answer = traffic.framed((2).to_bytes(4, "big") + b"made")
    talk.answer(talk.in_flight[1], answer)
    tap.answered(1, 2, answer, 11)
    player.play(1, traffic.Chunk(Direction.RESPONSE, first.answer or b"", 12))
    player.close(1)
    tap.close()
    compact(tmp_path)
    made = frame_rows(tmp_path)[-1]
    assert (made["made_by"], made["kind"], made["exchange"], made["sequence"]) == ("proxy", "response", 1, 3)
    assert made["frame"] == answer[4:]
    assert made["latency_ns"] is None


@pytest.mark.parametrize("cut", [0, 3], ids=["whole", "cut"])
@pytest.mark.parametrize(
    ("dialect", "direction", "left", "note"),
    [
        (Dialect.KAFKA_07, Direction.REQUEST, b"\0\0\0\1\0", "bad_length"),
        (Dialect.KAFKA_07, Direction.RESPONSE, b"\0\0\0\1\0\0", "bad_length"),
        (Dialect.KAFKA_07, Direction.RESPONSE, b"\0\0\0\2\0\0", "unexpected_response"),
        (Dialect.KAFKA_07, Direction.REQUEST, b"\0\0\0", "it can't be told what this is"),
        (Dialect.KAFKA, Direction.REQUEST, b"\xff\xff\xff\xff", "bad_length"),
        (Dialect.KAFKA, Direction.RESPONSE, b"\0\0\0\3\0\0\0", "bad_length"),
        (Dialect.KAFKA, Direction.RESPONSE, b"\0\0\0\4\0\0\0\0", "unexpected_response"),
    ],
    ids=["0.7-asks", "0.7-answers", "0.7-unasked", "0.7-cut", "asks", "answers", "unasked"],
)
def test_bytes_that_cannot_be_read_say_why(
    tap_of: TapOf, tmp_path: Path, dialect: Dialect, direction: Direction, left: bytes, note: str, cut: int
) -> None:
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(1, [], dialect=dialect))
    if note == "bad_length" and direction is Direction.RESPONSE:
        asked = b"\0\1" if dialect is Dialect.KAFKA_07 else catalog.encode_request(12, 0, 1, "c", {})
        player.play(1, traffic.Chunk(Direction.REQUEST, traffic.framed(asked), 9))
    for piece in filter(None, (left[:cut], left[cut:])):
        player.play(1, traffic.Chunk(direction, piece, 10))
    player.close(1)
    tap.close()
    compact(tmp_path)
    rows = [row for row in frame_rows(tmp_path) if row["kind"] == "bytes"]
    assert {row["note"] for row in rows} == {note}
    kept = left if dialect is Dialect.KAFKA_07 else bytes(len(left))
    assert b"".join(row["frame"] for row in rows) == kept


def test_the_counters_tell_of_the_compactor_too(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    player = Player(tap)
    (talk,) = some_talks(random.Random(20), 1, 5, 100)
    player.all_of([talk])
    tap.flush()
    size = len(log_bytes(spool_of(tmp_path, tap)))
    assert tap.counters()["spool_bytes"] == tap.counters()["lag_bytes"] == size
    assert tap.counters()["lag_seconds"] > 0
    report = Status(frames=7, bytes=70, segment=1, position=size, at_ns=time.monotonic_ns())
    write_status(tap._folder, report)
    counters = tap.counters()
    assert (counters["compacted_frames"], counters["compacted_bytes"]) == (7, 70)
    assert (counters["lag_bytes"], counters["lag_seconds"], counters["compactor_restarts"]) == (0, 0, 0)
    tap.child_ended()
    counters = tap.counters()
    assert (counters["lag_bytes"], counters["compactor_restarts"]) == (size, 1)


def test_a_compactor_that_has_read_the_whole_log_has_no_lag(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "STATUS_SECONDS", 0)
    tap = tap_of(segment=2_000)
    player = Player(tap)
    for talk in some_talks(random.Random(21), 3, 20, 300):
        player.all_of([talk])
        # bytes that are written at once are one segment
        tap.flush()
        assert tap.counters()["lag_bytes"] > 0
        # all of the newest segment is read, though it is not in a file yet
        assert compact(tmp_path).live == (tap.session,)
        assert tap.counters()["lag_bytes"] == tap.counters()["lag_seconds"] == 0


def test_an_unwritable_folder_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="can't be written"):
        open_tap(tmp_path / "file", RecordSettings())


def test_a_clock_that_was_set_is_an_entry(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    tap._writer.log._clock = lambda: 42
    tap.node(1, "a:1", "b:2", "main")
    tap.close()
    entry = next(e for e in log_entries(spool_of(tmp_path, tap)) if e.kind == EntryKind.CLOCK)
    assert entry.offset == 42
    # the entry was not counted as queued, so it is not counted as written
    assert tap.counters()["queue_bytes"] == 0


def test_nothing_in_the_proxys_process_imports_what_only_the_compactor_needs(tmp_path: Path) -> None:
    probe = "import sys, recorder.capture.tap; sys.exit(bool({'pyarrow', 'msgspec'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


@pytest.mark.real
def test_the_compactors_command_is_one_that_finishes_the_session(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(6)
    (talk,) = some_talks(rng, 1, 20, 500)
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    assert subprocess.run(compactor_command(tmp_path, tap.session), check=False).returncode == 0
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))
    assert segments(spool_of(tmp_path, tap)) == []


def test_behind_a_secret_whose_length_lies_nothing_is_kept_until_the_connection_ends(
    tap_of: TapOf, tmp_path: Path
) -> None:
    whole = traffic.framed(catalog.encode_request(36, 2, 1, "c", {"auth_bytes": b"\0alice\0" + traffic.SECRET}))
    # the frame gives a length that ends before the password's NUL, and the password looks like frames
    lying = (whole.index(b"\0" + traffic.SECRET) - 4).to_bytes(4, "big") + whole[4:]
    plain = traffic.call(random.Random(1), traffic.HEARTBEAT, 2, "c")
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(1, []))
    chunks = [plain.request, lying, bytes(1 << 16), plain.request]
    for number, chunk in enumerate(chunks):
        player.play(1, traffic.Chunk(Direction.REQUEST, chunk, number + 1))
    player.play(1, traffic.Chunk(Direction.RESPONSE, plain.answer or b"", 9))
    player.close(1)
    tap.close()
    entries = log_entries(spool_of(tmp_path, tap))
    compact(tmp_path)
    first, asked, *rest, answered = frame_rows(tmp_path)
    assert (first["api"], answered["api"]) == ("Heartbeat", "Heartbeat")
    assert (asked["api"], asked["masked"]) == ("SaslAuthenticate", [(8, asked["size"] - 8)])
    assert {row["kind"] for row in rest} == {"bytes"}
    for row in rest:
        assert row["masked"] == [(0, row["size"])]
        assert row["frame"] == bytes(row["size"])
    kept = sum(len(entry.data) for entry in entries if entry.kind in OF_STREAMS and not entry.direction)
    assert kept == sum(map(len, chunks))


def test_a_writer_without_a_thread_is_reported_at_once(tmp_path: Path) -> None:
    with no_threads(), pytest.raises(FolderError, match="no thread can be had"):
        open_tap(tmp_path, RecordSettings())
