"""Tests of gaps: with the frames that are kept, they account for all that came."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction
from proxy.log import KeyFormatter
from proxy.wire import keys
from proxy.wire.catalog import Search
from recorder.capture import redaction
from recorder.capture.compactor import compact
from recorder.capture.connection_recorder import ConnectionRecorder
from recorder.capture.frame_filter import FrameFilter
from recorder.capture.keep import FLOOR
from recorder.capture.record_rules import RecordRule
from recorder.capture.selection import Selection
from recorder.capture.session import WhenFull
from recorder.capture.tap import Tap
from tests.recorder.capture import traffic
from tests.recorder.capture.bad_disk import play_on_a_bad_disk, stall
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.recorder.capture.traffic import Player, Talk, some_talks
from tests.sweeps import mostly_long

TapOf = Callable[..., Tap]


def lost_and_kept(tmp_path: Path, talk: Talk) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
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
    assert tap.losses["gaps"] == counters["gaps"]
    assert tap.losses["bytes"] >= counters["dropped_bytes"] > 0
    tap.close()
    compact(tmp_path)
    assert counters["gaps"] > 0
    for talk in talks:
        rows, gaps = lost_and_kept(tmp_path, talk)
        came = traffic.expected(talk)
        assert len(rows) + sum(gap["frames"] for gap in gaps) == len(came)
        kept = sum(len(row["frame"]) + 4 for row in rows)
        assert kept + sum(gap["bytes"] for gap in gaps) == sum(map(len, talk.streams()))
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
    talk = traffic.cut(rng, traffic.talk(rng, 1, 80, (keys.METADATA, keys.HEARTBEAT, keys.PRODUCE)), 400)
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
    beat = traffic.call(rng, keys.HEARTBEAT, 1, "client")
    login = traffic.call(rng, keys.SASL_AUTHENTICATE, 2, "client")
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
    assert len(rows) + sum(gap["frames"] for gap in gaps) == len(traffic.expected(late))


def test_a_fault_of_the_recorder_costs_a_recording_not_a_connection(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(4)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 40, (keys.SASL_AUTHENTICATE, 12)), 4000)
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
    assert len(rows) + gaps[0]["frames"] == len(traffic.expected(talk))


class Faulty:
    """Raises an error at one call of a function, the n-th, and calls it at all others. `lasts`: at later ones, too."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, *, lasts: bool = False
    ) -> None:
        self.calls, real = 0, getattr(owner, name)

        def called(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == number or (lasts and self.calls > number):
                raise RuntimeError("a bug")
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("number", mostly_long([2, 1, 7], usual=1))
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (redaction, "mask_nothing"),
        (FrameFilter, "plain_spans"),
        (FrameFilter, "omissions"),
        (ConnectionRecorder, "take"),
        (Conversation, "boundary_state"),
    ],
)
def test_a_fault_with_any_chunk_is_a_gap(
    owner: Any, name: str, number: int, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(number)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 20, (keys.METADATA, keys.HEARTBEAT)), 300)
    # small segments, in each of which the connection gets a checkpoint; and a rule that has nothing to leave out here
    tap = tap_of(segment=2_000, records=RecordRule.DROP)
    faulty = Faulty(monkeypatch, owner, name, number)
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(1, chunk)
        tap.flush()
    player.close(1)
    # responses to requests that the fault kept from being decided
    left_out = tap.counters()["left_out_frames.fault"]
    tap.close()
    assert faulty.calls > number
    compact(tmp_path)
    rows, gaps = lost_and_kept(tmp_path, talk)
    assert [gap["cause"] for gap in gaps] == ["recorder_fault"]
    came = len(traffic.expected(talk))
    # of them, the gap counts those that came in it
    assert 0 <= came - len(rows) - gaps[0]["frames"] <= left_out
    assert len(rows) >= came - 10


@pytest.mark.parametrize("name", ["add", "finish"])
def test_a_fault_with_the_end_of_a_stream_or_of_a_connection_is_a_gap(
    name: str, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(6)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 10), 1000)
    tap = tap_of()
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(1, chunk)
    faulty = Faulty(monkeypatch, ConnectionRecorder, name, 1)
    tap.half_closed(1, Direction.REQUEST, player.now)
    player.close(1)
    tap.close()
    assert faulty.calls == 1
    compact(tmp_path)
    rows, gaps = lost_and_kept(tmp_path, talk)
    assert [(gap["cause"], gap["frames"]) for gap in gaps] == [("recorder_fault", 0)]
    assert len(rows) == len(traffic.expected(talk))
    assert len(event_rows(tmp_path, "closed")) == 1


def test_a_gap_that_an_answer_of_the_proxy_began_ends(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection's chunks take the short way before, as the rule leaves out nothing of them."""
    rng = random.Random(8)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 40, (keys.HEARTBEAT,)), 300)
    tap = tap_of(records=RecordRule.DROP)
    player = Player(tap)
    player.open(talk)
    half = len(talk.chunks) // 2
    for chunk in talk.chunks[:half]:
        player.play(1, chunk)
    faulty = Faulty(monkeypatch, ConnectionRecorder, "add", 1)
    tap.answered(1, 1, b"\0\0\0\4\0\0\0\1", player.now)
    for chunk in talk.chunks[half:]:
        player.play(1, chunk)
    player.close(1)
    tap.close()
    assert faulty.calls >= 1
    compact(tmp_path)
    rows, (gap,) = lost_and_kept(tmp_path, talk)
    assert gap["cause"] == "recorder_fault"
    came = len(traffic.expected(talk))
    assert len(rows) + gap["frames"] == came
    assert len(rows) >= came - 10


def test_a_fault_that_lasts_costs_the_recording_and_no_connection(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(9)
    talk, other = some_talks(rng, 2, 20, 500)
    tap = tap_of()
    with monkeypatch.context() as patched:
        for name in ("take", "drop_kept_back"):
            Faulty(patched, ConnectionRecorder, name, 1, lasts=True)
        Player(tap).all_of([talk])
    Player(tap).all_of([other])
    tap.close()
    # the fault, and the one that dealing with it met
    assert len(caplog.records) == 2
    compact(tmp_path)
    (gap,) = event_rows(tmp_path, "gap")
    assert (gap["connection"], gap["cause"], gap["frames"]) == (None, "recorder_fault", len(traffic.expected(talk)))
    assert {row["connection"] for row in frame_rows(tmp_path)} == {other.connection}


def test_a_connection_whose_opening_met_a_fault_is_lost_as_a_whole(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows then what of it must be left out."""
    rng = random.Random(7)
    talk, other = some_talks(rng, 2, 20, 500)
    tap = tap_of(records=RecordRule.DROP)
    Faulty(monkeypatch, Selection, "selects", 1)
    Player(tap).all_of([talk, other])
    counters = tap.counters()
    tap.close()
    compact(tmp_path)
    (gap,) = event_rows(tmp_path, "gap")
    came = traffic.expected(talk)
    assert (gap["connection"], gap["cause"], gap["frames"]) == (None, "recorder_fault", len(came))
    assert (counters["gaps"], counters["dropped_bytes"]) == (1, sum(map(len, talk.streams())))
    assert {row["connection"] for row in frame_rows(tmp_path)} == {other.connection}


def test_a_fault_with_what_is_known_of_a_cluster_ends_nothing(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tap = tap_of()
    Faulty(monkeypatch, Selection, "selects_cluster", 1)
    tap.node(1, "b1:9092", "l:1", "main")
    Faulty(monkeypatch, Selection, "selects_cluster", 1)
    tap.identified("main", ids=["x"])
    tap.node(2, "b2:9092", "l:2", "main")
    tap.close()
    assert ["RuntimeError: a bug" in KeyFormatter().format(record) for record in caplog.records] == [True, True]
    compact(tmp_path)
    (node,) = event_rows(tmp_path, "node")
    assert json.loads(node["detail"])["upstream"] == "b2:9092"


class Volume:
    """The volume of all captures, with as much room as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # far above what a test's traffic takes
        self.free = 100 << 20
        monkeypatch.setattr("recorder.capture.keep.size_and_free", lambda _: (100 << 20, self.free))
        monkeypatch.setattr("recorder.capture.keep.LOOK_SECONDS", 0)

    def has(self, tap: Tap, free: int) -> None:
        """Changes what is free; returns once the tap has seen it."""
        self.free = free
        is_low = 1.0 if free < 50 << 20 else 0.0
        while tap.counters()["stopped"] != is_low:
            # the idle writer looks at the volume
            tap.flush()
            time.sleep(0)
        # what came before may still wait to be written
        tap.flush()


@pytest.mark.parametrize("when_full", list(WhenFull))
def test_on_a_full_volume_recording_stops_with_a_gap_that_says_so_and_begins_again(
    when_full: WhenFull, tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    talk, unseen = (
        traffic.cut(rng, traffic.talk(rng, number, 60, (keys.METADATA, keys.PRODUCE)), 400) for number in (1, 2)
    )
    volume = Volume(monkeypatch)
    tap = tap_of(when_full=when_full, keep_free=FLOOR.read("50%"))
    player = Player(tap)
    player.open(talk)
    third = len(talk.chunks) // 3
    for number, chunk in enumerate(talk.chunks):
        if number == third:
            volume.has(tap, 49 << 20)
        if number == third + 1:
            # the first chunk for which there was no room has begun the gap, which is an entry
            tap.flush()
            before = tap.counters()["recorded_bytes"]
        if number == 2 * third:
            # a connection that comes and goes meanwhile has no row at all
            player.open(unseen)
            for lost in unseen.chunks:
                player.play(2, lost)
            player.close(2)
            assert not tap.must_wait
            assert tap.counters()["recorded_bytes"] == before
            volume.has(tap, 60 << 20)
        player.play(1, chunk)
    player.close(1)
    assert tap.counters()["failed"] == 0
    tap.close()
    compact(tmp_path)
    rows, gaps = lost_and_kept(tmp_path, talk)
    assert {gap["cause"] for gap in event_rows(tmp_path, "gap")} == {"keep"}
    assert len(rows) + sum(gap["frames"] for gap in gaps) == len(traffic.expected(talk))
    (whole,) = [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is None]
    assert (json.loads(whole["detail"]), whole["frames"]) == ({"connections": 1}, len(traffic.expected(unseen)))
