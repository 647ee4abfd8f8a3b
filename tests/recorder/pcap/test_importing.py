"""Tests of the way from packets to rows: whatever order segments come in, and whichever are missing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Direction
from proxy.schema.flags import MAIN
from proxy.wire.dialects import Dialect
from proxy.wire.keys import METADATA
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from recorder.pcap.looking import Found
from tests.recorder.capture.looks import assert_holds, event_rows, frame_rows
from tests.recorder.capture.record_traffic import Planted, ruled_talk
from tests.recorder.capture.traffic import SECRET, Chunk, Player, Talk, cut, expected, old_talk
from tests.recorder.pcap.dumps import (
    BROKER,
    CLIENT,
    COOKED,
    COOKED_2,
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    RST,
    SECOND,
    Sent,
    sent,
    shuffled,
)
from tests.recorder.pcap.imports import SOURCE, a_talk, imported, lockstep, without_times
from tests.sweeps import examples


def test_a_dump_holds_the_frames_of_its_connections(tmp_path: Path) -> None:
    one = a_talk(random.Random(1))
    made = imported(tmp_path, sent(one))
    assert_holds(frame_rows(tmp_path), expected(one))
    assert made.older == 0
    (closed,) = event_rows(tmp_path, c.EVENT_CLOSED)
    assert closed[c.CAUSE] == "client_closed"
    assert not event_rows(tmp_path, c.EVENT_GAP)
    source = next(row for row in event_rows(tmp_path, c.EVENT_SESSION) if row[c.CAUSE] == "imported")
    assert SOURCE["sha256"] in source[c.DETAIL]
    (row, *_) = frame_rows(tmp_path)
    assert (row[c.LISTENER], row[c.CLIENT], row[c.AT_NS]) == ("10.0.0.1:9092", "10.0.0.7:40000", row["mono_ns"])


@pytest.mark.real
@pytest.mark.sweep
@given(seed=st.integers(0, 2**32), window=st.sampled_from([1, 3, 8, 40]))
@examples(100, deadline=None)
def test_segments_in_any_order_give_the_same_rows(
    seed: int, window: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("capture")
    one = a_talk(rng)
    segments = sent(one, mtu=rng.choice([7, 536, 1448]) if window < 8 else 1448)
    imported(folder, [*segments[:3], *shuffled(rng, segments[3:], window=window)])
    assert_holds(without_times(frame_rows(folder)), without_times(expected(one)))
    assert not event_rows(folder, c.EVENT_GAP)


def lossy(rng: random.Random, segments: Sequence[Sent], share: float) -> list[Sent]:
    """Segments of which some are lost, or cut short as by `tcpdump -s`."""
    made = []
    for one in segments:
        if one.data and rng.random() < share:
            if rng.random() < 0.5:
                continue
            one = Sent(**{**vars(one), "cut": rng.randint(1, len(one.data))})
        made.append(one)
    return made


def assert_some(rows: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> None:
    """Asserts that each row is one of the frames, in their order, with all of its bytes that are not masked."""
    at = 0
    for row in rows:
        assert row["note"] in (None, "unknown_api")
        number, kind, frame = row["correlation_id"], row["kind"], row["frame"]
        at = (
            next(
                place
                for place in range(at, len(wanted))
                if (wanted[place]["correlation_id"], wanted[place]["kind"]) == (number, kind)
            )
            + 1
        )
        assert frame == blanked(wanted[at - 1]["frame"], row["masked"] or ())


def blanked(frame: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    made = bytearray(frame)
    for start, length in spans:
        made[start : start + length] = bytes(length)
    return bytes(made)


@pytest.mark.real
@pytest.mark.sweep
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.01, 0.05, 0.3]), largest=st.sampled_from([100, 4000]))
@examples(160, deadline=None)
def test_lost_segments_are_gaps_of_exactly_their_bytes(
    seed: int, share: float, largest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("capture")
    one = a_talk(rng, 60, largest)
    imported(folder, lossy(rng, sent(one), share), ports=[9092])
    rows, gaps = frame_rows(folder), event_rows(folder, c.EVENT_GAP)
    assert_some(rows, expected(one))
    size = sum(map(len, one.streams()))
    assert sum(row["size"] + 4 for row in rows) + sum(gap["bytes"] for gap in gaps) == size
    assert {gap[c.CAUSE] for gap in gaps} <= {"not_captured"}


def older(one: Talk, begin: int) -> list[Sent]:
    """The segments of a talk whose first ones, with the handshake, were before the dump."""
    return sent(one, handshake=False)[begin:]


def test_a_connection_that_is_older_than_the_dump_is_picked_up_at_a_frame(tmp_path: Path) -> None:
    one = lockstep(random.Random(3))
    segments = older(one, 5)
    made = imported(tmp_path, segments)
    assert made.older == 1
    rows, wanted = frame_rows(tmp_path), expected(one)
    assert [row["frame"] for row in rows] == [row["frame"] for row in wanted][-len(rows) :]
    assert len(rows) >= len(wanted) - 8
    (gap,) = event_rows(tmp_path, c.EVENT_GAP)
    # how many frames came before the dump, nobody knows
    seen = sum(len(segment.data) for segment in segments)
    assert (gap[c.CAUSE], gap["frames"]) == ("before_dump", None)
    assert gap["bytes"] + sum(row["size"] + 4 for row in rows) == seen


@pytest.mark.real
@pytest.mark.sweep
@given(seed=st.integers(0, 2**32), begin=st.integers(0, 30), largest=st.sampled_from([300, 4000]))
@examples(100, deadline=None)
def test_an_older_connection_gives_whole_frames_and_a_gap_of_the_rest(
    seed: int, begin: int, largest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("capture")
    one = a_talk(rng, 60, largest)
    segments = older(one, begin)
    imported(folder, segments, ports=[9092])
    rows, gaps = frame_rows(folder), event_rows(folder, c.EVENT_GAP)
    assert_some(rows, expected(one))
    assert len(rows) > 40
    assert {gap[c.CAUSE] for gap in gaps} == {"before_dump"}


def test_an_older_connection_that_is_never_understood_is_told_of(tmp_path: Path) -> None:
    (first, *_) = older(lockstep(random.Random(4)), 0)
    imported(tmp_path, [replace(first, data=b"\xff" * 1000)], ports=[9092])
    assert not frame_rows(tmp_path)
    (gap,) = event_rows(tmp_path, c.EVENT_GAP)
    assert (gap[c.CAUSE], gap["frames"], gap["bytes"]) == ("before_dump", None, 1000)
    (closed,) = event_rows(tmp_path, c.EVENT_CLOSED)
    assert closed[c.CAUSE] == "dump_ended"


def test_ports_that_are_used_again_are_another_connection(tmp_path: Path) -> None:
    one, two = lockstep(random.Random(5)), lockstep(random.Random(6))
    imported(tmp_path, [*sent(one, end=None), *sent(two, first=(5, 6), end=RST)])
    assert [row[c.CAUSE] for row in event_rows(tmp_path, c.EVENT_CLOSED)] == ["ports_reused", "client_reset"]
    assert [row["frame"] for row in frame_rows(tmp_path, 1)] == [row["frame"] for row in expected(two)]


def test_what_comes_late_of_a_closed_connection_begins_none(tmp_path: Path) -> None:
    one = lockstep(random.Random(7))
    segments = sent(one)
    made = imported(tmp_path, [*segments, *segments[-8:]])
    assert made.older == 0
    assert len(event_rows(tmp_path, c.EVENT_OPENED)) == 1


def test_an_opening_that_comes_again_late_is_none(tmp_path: Path) -> None:
    one = lockstep(random.Random(15))
    segments = sent(one)
    imported(tmp_path, [*segments[:9], *segments[:3], *segments[9:]])
    assert_holds(frame_rows(tmp_path), expected(one))
    assert len(event_rows(tmp_path, c.EVENT_CLOSED)) == 1


def test_an_answer_to_an_opening_that_is_lost_begins_another_connection(tmp_path: Path) -> None:
    one, two = lockstep(random.Random(16)), lockstep(random.Random(17))
    imported(tmp_path, [*sent(one, end=None), *sent(two, first=(5, 6))[1:]])
    assert [row[c.CAUSE] for row in event_rows(tmp_path, c.EVENT_CLOSED)] == ["ports_reused", "client_closed"]
    assert [row["frame"] for row in frame_rows(tmp_path, 1)] == [row["frame"] for row in expected(two)]


def test_keep_alives_are_no_bytes(tmp_path: Path) -> None:
    one = lockstep(random.Random(8))
    segments = sent(one)
    probes = [replace(segment, number=segment.number - 1, data=b"\0") for segment in segments[4:6]]
    imported(tmp_path, [*segments[:8], *probes, *segments[8:]])
    assert_holds(frame_rows(tmp_path), expected(one))


@pytest.mark.parametrize("ends", [(CLIENT, BROKER), (("fd00::7", 40_000), ("fd00::1", 9092))])
@pytest.mark.parametrize(
    ("link", "vlans"),
    [(ETHERNET, ()), (ETHERNET, (0x8100,)), (ETHERNET, (0x88A8, 0x8100)), (COOKED, ()), (COOKED, (0x8100,))]
    + [(link, ()) for link in (COOKED_2, NULL, LOOP, RAW)],
)
def test_every_link_type_is_read(tmp_path: Path, link: int, vlans: Sequence[int], ends: Any) -> None:
    one = lockstep(random.Random(9), 3)
    imported(tmp_path, sent(one, client=ends[0], broker=ends[1]), link=link, vlans=vlans)
    assert_holds(frame_rows(tmp_path), expected(one))


def test_a_connection_of_something_else_is_left_out_and_counted(tmp_path: Path) -> None:
    http = lockstep(random.Random(10), 2)
    http.chunks[:] = [Chunk(Direction.REQUEST, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", SECOND)]
    tls = lockstep(random.Random(10), 2)
    tls.chunks[:] = [Chunk(Direction.REQUEST, bytes([22, 3, 1, 0, 200, 1, 0, 0, 196]) + bytes(196), SECOND)]
    made = imported(tmp_path, [*sent(http), *sent(tls, client=("10.0.0.9", 9))])
    assert made.others == {Found.OTHER: 1, Found.TLS: 1}
    # no Kafka: no session
    assert not [*tmp_path.iterdir()]


def test_selected_frames_are_kept_through_gaps(tmp_path: Path) -> None:
    rng = random.Random(11)
    one = a_talk(rng, 60)
    imported(tmp_path, lossy(rng, sent(one), 0.03), ports=[9092], apis=("Metadata",))
    rows = frame_rows(tmp_path)
    assert {row["api_key"] for row in rows} == {METADATA}
    assert_some(rows, [row for row in expected(one) if row["api_key"] == METADATA])
    assert event_rows(tmp_path, c.EVENT_GAP)


def test_secrets_never_reach_the_disk(tmp_path: Path) -> None:
    rng = random.Random(12)
    one = a_talk(rng, 40, 500)
    assert any(each.secret for each in one.calls)
    imported(tmp_path, lossy(rng, shuffled(rng, sent(one), window=3), 0.05), ports=[9092])
    assert frame_rows(tmp_path)
    written = b"".join(bytes(row["frame"]) for row in frame_rows(tmp_path))
    assert SECRET not in written


@pytest.mark.parametrize("rule", [{"records": RecordRule.DROP}, {"topic_records": {"pay*": RecordRule.DROP}}])
def test_records_that_a_rule_drops_are_not_written(tmp_path: Path, rule: dict[str, Any]) -> None:
    one = ruled_talk(Planted(random.Random(18)), 1, 3000)
    imported(tmp_path / "imported", sent(one), **rule)
    tap = open_tap(tmp_path / "recorded", RecordSettings(cluster=MAIN, **rule))
    Player(tap).all_of([one])
    tap.close()
    compact(tmp_path / "recorded")
    left_out = ("frame", "dropped", "records", "stored")
    kept, wanted = (
        [[row[name] for name in left_out] for row in frame_rows(tmp_path / folder)]
        for folder in ("imported", "recorded")
    )
    assert kept == wanted
    assert any(rule == "drop" for _, _, rule, _ in kept)


def test_traffic_of_kafka_07_is_recorded_where_it_is_named(tmp_path: Path) -> None:
    one = cut(random.Random(13), old_talk(random.Random(13), 0, 20), 4000)
    imported(tmp_path, sent(one), ports=[9092], dialect=Dialect.KAFKA_07)
    assert_holds(frame_rows(tmp_path), expected(one))


@pytest.mark.real
@pytest.mark.sweep
@given(seed=st.integers(0, 2**32))
@examples(120, deadline=None)
def test_any_segments_are_imported_without_a_fault(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = random.Random(seed)
    segments = [*sent(a_talk(rng, 20)), *sent(lockstep(rng))]
    for at in range(0, len(segments), 2):
        one = segments[at]
        segments[at] = replace(
            one,
            number=rng.choice([one.number, one.number + rng.randint(-3000, 3000), rng.getrandbits(32)]),
            acknowledged=rng.choice([one.acknowledged, rng.getrandbits(32)]),
            flags=rng.choice([one.flags, rng.randrange(64)]),
            data=rng.choice([one.data, rng.randbytes(50), b""]),
        )
    rng.shuffle(segments)
    folder = tmp_path_factory.mktemp("capture")
    imported(folder, segments, ports=rng.choice([[], [9092]]))


def test_a_lost_fin_or_a_dump_of_one_direction_ends(tmp_path: Path) -> None:
    one = lockstep(random.Random(14))
    imported(tmp_path, [segment for segment in sent(one) if segment.direction is Direction.REQUEST], ports=[9092])
    assert [row["kind"] for row in frame_rows(tmp_path)] in ([], ["request"] * len(frame_rows(tmp_path)))
    seen = sum(row["size"] + 4 for row in frame_rows(tmp_path))
    assert seen + sum(gap["bytes"] for gap in event_rows(tmp_path, c.EVENT_GAP)) == sum(map(len, one.streams()))
