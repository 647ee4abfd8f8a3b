"""Tests of the tap: the log holds what the proxy reported, and no secret."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.conversation.exchange import Cause, Direction
from proxy.wire import catalog, keys
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from recorder.capture.compactor import compact
from recorder.capture.entry_json import decoded
from recorder.capture.lock import WRITER_LOCK
from recorder.capture.session import FolderError, RecordSettings
from recorder.capture.spool import OF_STREAMS, Entry, EntryKind
from recorder.capture.tap import Tap, open_tap
from recorder.capture.writer import Clock
from tests.proxy.net.threads import no_threads
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import event_rows, frame_rows, log_bytes, log_entries, spool_of, take_lock
from tests.recorder.capture.traffic import Player, Talk
from tests.sweeps import examples

TapOf = Callable[..., Tap]


def kinds(entries: list[Entry]) -> list[EntryKind]:
    return [EntryKind(entry.kind) for entry in entries]


def test_a_chunk_is_an_entry_in_the_order_of_arrival(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(1)
    (talk,) = [traffic.cut(rng, traffic.talk(rng, 5, 20), 300)]
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    assert not tap.losses
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
    assert take_lock(spool, WRITER_LOCK) is None
    tap.close()
    assert take_lock(spool, WRITER_LOCK) is not None


@pytest.mark.real
@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), largest=st.sampled_from([1, 2, 11, 100, 4000]))
def test_no_byte_of_a_secret_reaches_the_disk(seed: int, largest: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    talks = [traffic.cut(rng, traffic.talk(rng, n, 8, (keys.SASL_AUTHENTICATE, 12)), largest) for n in range(2)]
    tap = open_tap(tmp_path, RecordSettings())
    Player(tap).all_of(talks, rng)
    tap.close()
    log = log_bytes(spool_of(tmp_path, tap))
    assert traffic.SECRET not in log
    if largest == 1:
        streams = b"".join(e.data for e in log_entries(spool_of(tmp_path, tap)) if e.kind == EntryKind.BYTES)
        assert traffic.SECRET not in streams


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
        (Dialect.KAFKA, Direction.RESPONSE, b"\0\0\0\4\0\0\0\7", "unexpected_response"),
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
    is_kept = dialect is Dialect.KAFKA_07 or note == "unexpected_response"
    kept = left if is_kept else bytes(len(left))
    assert b"".join(row["frame"] for row in rows) == kept


HEARTBEATS = [catalog.encode_request(12, 0, number, "c", {}) for number in (1, 2)]


@pytest.mark.parametrize("cut", [1, 7, 8, 12, 27, 31, 1000])
def test_of_responses_in_the_wrong_order_both_heads_are_kept_and_nothing_else(
    tap_of: TapOf, tmp_path: Path, cut: int
) -> None:
    answers = [traffic.framed(bytes([0, 0, 0, number]) + traffic.SECRET) for number in (2, 1)]
    left = b"".join(answers)
    row = recorded_after(tap_of, tmp_path, left, cut)
    heads = b"".join(answer[:8] + bytes(len(answer) - 8) for answer in answers)
    # the connection ends with the chunk in which the head of the first one is whole
    assert row["frame"] == heads[: len(row["frame"])]
    assert len(row["frame"]) == (len(left) if cut < 8 or cut > len(left) else cut)


def test_behind_a_response_that_was_not_asked_for_nothing_is_taken_for_a_head(tap_of: TapOf, tmp_path: Path) -> None:
    """What looks like the next frame may be the rest of a secret."""
    left = traffic.framed(b"\0\0\0\7" + bytes(4)) + traffic.framed(traffic.SECRET)
    row = recorded_after(tap_of, tmp_path, left, 1000)
    assert row["frame"] == left[:8] + bytes(len(left) - 8)
    assert row["masked"] == [(8, len(left) - 8)]


def recorded_after(tap_of: TapOf, tmp_path: Path, left: bytes, cut: int) -> Any:
    """The row of what is left of a broker's bytes, which end the connection after two requests."""
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(1, []))
    for asked in HEARTBEATS:
        player.play(1, traffic.Chunk(Direction.REQUEST, traffic.framed(asked), 9))
    for piece in filter(None, (left[:cut], left[cut:])):
        player.play(1, traffic.Chunk(Direction.RESPONSE, piece, 10))
        if cut >= 8:
            break
    player.close(1)
    tap.close()
    compact(tmp_path)
    (row,) = [row for row in frame_rows(tmp_path) if row["kind"] == "bytes"]
    return row


def test_the_closed_event_says_what_the_proxy_saw_when_it_ended_a_connection(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    player = Player(tap)
    player.open(Talk(1, []))
    decision: dict[str, str | int] = {
        "event": "request is longer than the limit",
        "setting": "limits.request",
        "length": -5,
    }
    tap.closed(1, Cause.BAD_LENGTH, 20, decision)
    tap.close()
    compact(tmp_path)
    (closed,) = [row for row in event_rows(tmp_path) if row["kind"] == "closed"]
    assert json.loads(closed["detail"])["decision"] == decision


def test_an_unwritable_folder_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="can't be written"):
        open_tap(tmp_path / "file", RecordSettings())


def test_a_clock_that_was_set_is_an_entry(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    tap._writer.log.clock = Clock(offset_ns=lambda: 42)
    tap.node(1, "a:1", "b:2", "main")
    tap.close()
    entry = next(e for e in log_entries(spool_of(tmp_path, tap)) if e.kind == EntryKind.CLOCK)
    assert entry.offset == 42
    # the entry was not counted as queued, so it is not counted as written
    assert tap.counters()["queue_bytes"] == 0


def test_behind_a_secret_whose_length_lies_nothing_is_kept_until_the_connection_ends(
    tap_of: TapOf, tmp_path: Path
) -> None:
    whole = traffic.framed(catalog.encode_request(36, 2, 1, "c", {"auth_bytes": b"\0alice\0" + traffic.SECRET}))
    # the frame gives a length that ends before the password's NUL, and the password looks like frames
    lying = (whole.index(b"\0" + traffic.SECRET) - 4).to_bytes(4, "big") + whole[4:]
    plain = traffic.call(random.Random(1), keys.HEARTBEAT, 2, "c")
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
