"""Rules for records at the tap: what they leave out reaches no disk, and all the rest stays as it is."""

import random
import shutil
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import records
from proxy.wire.budget import Budget
from proxy.wire.keys import PRODUCE
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.compactor import compact, compact_session
from recorder.capture.fact_maker import fact_rows
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.spool import OF_STREAMS, EntryKind
from recorder.capture.tap import open_tap
from recorder.facts.rows import frame_of
from recorder.facts.topics import id_text, places
from tests.recorder.capture.looks import frame_rows, kill, log_bytes, raw_entries, session_folder
from tests.recorder.capture.record_traffic import (
    FREE,
    IDS,
    RULED,
    RULES,
    UNKNOWN,
    Planted,
    old_talk,
    produced,
    produced_by_id,
    ruled_talk,
    told_topics,
)
from tests.recorder.capture.traffic import Call, Chunk, Player, Talk
from tests.sweeps import mostly_long

# bytes of a batch before its records
BATCH_HEAD = 61
# columns of facts that the records' bytes decide
_OF_BYTES = ("is_intact", "sampled_bytes", "folded_bytes")


def recorded(folder: Path, talks: list[Talk], **settings: Any) -> bytes:
    """Records the talks, and compacts them. Returns the log, with the bytes of each stream behind it, joined."""
    folder.mkdir()
    tap = open_tap(folder, RecordSettings(**settings))
    Player(tap).all_of(talks)
    tap.flush()
    spool = session_folder(folder, tap.session)
    streams = defaultdict[tuple[int, int], bytes](bytes)
    for entry in raw_entries(spool):
        if entry.kind in OF_STREAMS:
            streams[entry.connection, entry.direction] += entry.data
    log = b"\n".join([log_bytes(spool), *streams.values()])
    tap.close()
    compact(folder)
    return log


def every_value(folder: Path) -> bytes:
    """Returns all that the capture's rows and facts hold, unfolded."""
    found = [repr(row).encode("latin-1", "backslashreplace") for row in frame_rows(folder)]
    found += [row[c.FRAME] for row in frame_rows(folder)]
    found += [repr(row).encode("latin-1", "backslashreplace") for _, row in facts(folder)]
    return b"\n".join([*found, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())])


def facts(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    return [
        (decoder.name, {name: value for name, value in row.items() if name != c.SESSION})
        for file in reader.files(folder)
        for decoder, batch in fact_rows(file)
        for row in batch.to_pylist()
    ]


def assert_hides(planted: Planted, where: bytes) -> None:
    shown = [text for text in planted.hidden if text in where]
    assert not shown, f"{len(shown)} of {len(planted.hidden)}: {shown[:3]}"


@pytest.mark.parametrize("largest", mostly_long([5000, 100, 7], 2))
@pytest.mark.parametrize("seed", mostly_long(range(20), 1))
def test_nothing_of_a_dropped_record_reaches_the_log_or_the_rows_or_the_facts(seed, largest, tmp_path):
    planted = Planted(random.Random(f"{seed}, {largest}"))
    talks = [ruled_talk(planted, number, largest) for number in range(2)]
    log = recorded(tmp_path / "ruled", talks, **RULES)
    kept = recorded(tmp_path / "kept", talks)
    assert_hides(planted, log)
    assert_hides(planted, every_value(tmp_path / "ruled"))
    sent = [text for text in planted.kept if text in kept]
    assert sent
    assert [text for text in sent if text not in log] == []


@pytest.mark.parametrize("largest", mostly_long([5000, 100, 7], 2))
@pytest.mark.parametrize("seed", mostly_long(range(20), 1))
def test_all_but_the_dropped_spans_is_as_without_the_rule(seed, largest, tmp_path):
    planted = Planted(random.Random(f"{seed}, {largest}"))
    talks = [ruled_talk(planted, number, largest) for number in range(2)]
    recorded(tmp_path / "ruled", talks, **RULES)
    recorded(tmp_path / "kept", talks)
    ruled, kept = frame_rows(tmp_path / "ruled"), frame_rows(tmp_path / "kept")
    assert any(row[c.DROPPED] for row in ruled)
    for ours, theirs in zip(ruled, kept, strict=True):
        frame = bytearray(theirs[c.FRAME])
        for span in ours[c.DROPPED] or ():
            frame[span["start"] : span["start"] + span["length"]] = bytes(span["length"])
        assert ours[c.FRAME] == frame
        assert ours[c.RECORDS] == (c.DROP if ours[c.DROPPED] else None)
        other = (c.SESSION, c.AT, c.AT_NS, c.FRAME, c.DROPPED, c.RECORDS)
        assert {**ours, **dict.fromkeys(other)} == {**theirs, **dict.fromkeys(other)}
    assert len(facts(tmp_path / "ruled")) == len(facts(tmp_path / "kept"))
    for (name, ours), (_, theirs) in zip(facts(tmp_path / "ruled"), facts(tmp_path / "kept"), strict=True):
        changed = {column for column in ours if ours[column] != theirs[column]} - {c.AT, c.AT_NS}
        assert changed <= {*_OF_BYTES}, name
        assert all(ours[column] is None for column in changed)


@pytest.mark.parametrize("largest", mostly_long([5000, 50, 3], 2))
@pytest.mark.parametrize("seed", mostly_long(range(20), 2))
def test_messages_of_0_7_are_dropped_as_well(seed, largest, tmp_path):
    planted = Planted(random.Random(f"{seed}, {largest}"))
    talks = [old_talk(planted, 1, largest)]
    assert_hides(planted, recorded(tmp_path / "ruled", talks, **RULES))
    assert_hides(planted, every_value(tmp_path / "ruled"))
    frames = b"".join(row[c.FRAME] for row in frame_rows(tmp_path / "ruled"))
    assert planted.kept
    assert all(text in frames for text in planted.kept)


class Crash(BaseException):
    """An exception that no code catches."""


def killed(folder: Path, at: int) -> bool:
    """Compacts, and ends before this step. Returns whether there was such a step."""
    steps = count()

    def before_step(step: str) -> None:
        if next(steps) == at:
            raise Crash

    try:
        compact_session(folder, "s", before_step=before_step)
    except Crash:
        return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_compactor_killed_at_any_step_leaves_nothing_of_a_dropped_record_anywhere(seed, tmp_path):
    planted = Planted(random.Random(seed))
    tap = open_tap(tmp_path / "killed", RecordSettings(segment=30_000, when_full=WhenFull.WAIT, **RULES), "s")
    Player(tap).all_of([ruled_talk(planted, 1, 700), ruled_talk(planted, 2, 700)], planted.rng)
    tap.flush()
    kill(tap)
    shutil.copytree(tmp_path / "killed", tmp_path / "whole")
    compact(tmp_path / "whole")
    at = 0
    while killed(tmp_path / "killed", at):
        assert_hides(planted, every_value(tmp_path / "killed"))
        at += 1
    assert at > 5
    assert every_value(tmp_path / "killed")
    for ours, theirs in zip(frame_rows(tmp_path / "killed"), frame_rows(tmp_path / "whole"), strict=True):
        assert ours == theirs


@pytest.mark.parametrize("largest", [700, 1 << 20])
def test_beyond_a_number_of_batches_a_frame_keeps_counts_by_partition_and_says_so(largest, tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.wire.records.walk.MAX_HEADS", 5)
    planted = Planted(random.Random(1))
    talk = ruled_talk(planted, 1, largest)
    recorded(tmp_path / "ruled", [talk], **RULES)
    recorded(tmp_path / "kept", [talk])
    assert_hides(planted, every_value(tmp_path / "ruled"))
    told = {
        (row[c.SEQUENCE], part.rpartition(":")[0]): part.rpartition(": ")[2]
        for row in frame_rows(tmp_path / "ruled")
        if row[c.NOTE]
        for part in row[c.NOTE].removeprefix(c.COUNTED).split("; ")
    }
    assert told
    # the same counts by the frames as they were
    wanted: dict[tuple[int, str], list[int]] = {}
    for row in frame_rows(tmp_path / "kept"):
        left = 5
        holds = row[c.API] in ("Produce", "Fetch", "ShareFetch") and row[c.EXCHANGE] is not None
        frame = frame_of(row)
        for place in places(frame, Budget()) if holds else ():
            topic = place.named[0] or {id_text(topic_id): name for name, topic_id in IDS.items()}[place.named[1] or ""]
            if topic == FREE or (topic == UNKNOWN and place.named[0]):
                continue
            for batch in place.batches.found:
                left -= 1
                if left < 0:
                    shown = topic if topic != UNKNOWN else place.named[1]
                    counts = wanted.setdefault((row[c.SEQUENCE], f"{shown}-{place.named[2]}"), [0, 0, 0])
                    for at, more in enumerate((1, batch.count or 1, batch.end - batch.start)):
                        counts[at] += more
    assert wanted.keys() <= told.keys()
    whole = {key: "{} batches, {} records, {} bytes".format(*counts) for key, counts in wanted.items()}
    same = [key for key in whole if told[key] == whole[key]]
    # a batch that a broker has cut off counts, too
    assert len(same) > len(whole) // 2


@pytest.mark.parametrize("seed", range(2))
def test_whole_frames_in_a_chunk_are_cut_as_frames_in_pieces_are(seed, tmp_path):
    planted = Planted(random.Random(seed))
    # the topics' ids are told before the others come
    first, *calls = ruled_talk(planted, 1, 5000).calls
    rows = {}
    for name, together, largest in (("one", 1, None), ("several", 2, None), ("pieces", 1, 7)):
        tap = open_tap(tmp_path / name, RecordSettings(**RULES), "s")
        player = Player(tap)
        player.open(Talk(1, [first, *calls]))
        for some in [[first], *(calls[at : at + together] for at in range(0, len(calls), together))]:
            for direction, data in enumerate(
                (b"".join(one.request for one in some), b"".join(one.answer or b"" for one in some))
            ):
                size = largest or len(data) or 1
                for at in range(0, len(data), size):
                    player.play(1, Chunk(Direction(direction), data[at : at + size], 5))
        player.close(1)
        tap.flush()
        assert EntryKind.CUT in {entry.kind for entry in raw_entries(session_folder(tmp_path / name, "s"))}
        left_out = tap.counters()["left_out_bytes"]
        tap.close()
        compact(tmp_path / name)
        columns = (c.FRAME, c.DROPPED, c.RECORDS, c.OMITTED, c.SIZE)
        by_exchange = {
            (row[c.EXCHANGE], row[c.KIND]): [row[column] for column in columns] for row in frame_rows(tmp_path / name)
        }
        rows[name] = left_out, by_exchange
        assert_hides(planted, every_value(tmp_path / name))
    assert rows["one"] == rows["pieces"]
    assert rows["several"] == rows["pieces"]


def test_a_worker_drops_the_records_of_a_topic_whose_id_only_another_worker_was_told(tmp_path):
    told, asking = told_topics(12, 0), produced_by_id(FREE, 1, b"kept by one worker alone")
    for session, calls in (("told", [told, asking]), ("untold", [asking])):
        tap = open_tap(tmp_path, RecordSettings(**RULES), session)
        player = Player(tap)
        player.open(Talk(1, calls))
        for call in calls:
            player.play(1, Chunk(Direction.REQUEST, call.request, 5))
            player.play(1, Chunk(Direction.RESPONSE, call.answer or b"", 6))
        player.close(1)
        tap.close()
    compact(tmp_path)
    rules = {
        row[c.SESSION]: (row[c.RECORDS], b"kept by one worker alone" in row[c.FRAME])
        for row in frame_rows(tmp_path)
        if (row[c.API_KEY], row[c.KIND]) == (PRODUCE, "request")
    }
    assert rules == {"told": (None, True), "untold": (c.DROP, False)}


def test_frames_that_are_alike_follow_new_rules_and_what_their_topic_turns_out_to_be_called(tmp_path):
    tap = open_tap(tmp_path, RecordSettings(**RULES), "s")
    player = Player(tap)
    asking = [produced_by_id(FREE, number, b"value") for number in range(12)]
    told = told_topics(12, 12)
    player.open(Talk(1, [*asking, told]))
    for number, call in enumerate(asking):
        if number == 4:
            player.play(1, Chunk(Direction.REQUEST, told.request, 5))
            player.play(1, Chunk(Direction.RESPONSE, told.answer or b"", 6))
        if number == 8:
            tap.selection_change(RecordSettings(records=RecordRule.DROP))[0]()
        player.play(1, Chunk(Direction.REQUEST, call.request, 5))
    player.close(1)
    tap.close()
    compact(tmp_path)
    rules = [row[c.RECORDS] for row in frame_rows(tmp_path) if row[c.API_KEY] == PRODUCE]
    assert rules == [c.DROP] * 4 + [None] * 4 + [c.DROP] * 4


@pytest.mark.parametrize("version", [9, 11, 12])
def test_produces_in_flight_each_in_a_chunk_are_cut_by_the_rules_of_their_own_topics(version, tmp_path):
    rng = random.Random(version)
    wanted, calls = dict[tuple[int, str], tuple[str | None, bytes]](), list[Call]()
    for number in range(60):
        # topics and values of few sizes, so that many frames are of one size, but not alike
        topic, value = rng.choice((RULED, "purchase-7")), b"%08d" % number * rng.choice((1, 9))
        batch = records.write_batch([records.Record(0, value=value)])
        call = produced(topic, version, number, batch, acks=rng.choice((0, 1, -1)))
        calls.append(call)
        cut = batch[:BATCH_HEAD] + bytes(len(batch) - BATCH_HEAD)
        without = (c.DROP, call.request[4:].replace(batch, cut))
        wanted[number, "request"] = without if topic == RULED else (None, call.request[4:])
        if call.answer is not None:
            wanted[number, "response"] = None, call.answer[4:]
    tap = open_tap(tmp_path, RecordSettings(**RULES), "s")
    player = Player(tap)
    player.open(Talk(1, calls))
    for at in range(0, len(calls), 5):
        together = calls[at : at + 5]
        for call in together:
            player.play(1, Chunk(Direction.REQUEST, call.request, 5))
        for answer in filter(None, (call.answer for call in together)):
            player.play(1, Chunk(Direction.RESPONSE, answer, 6))
    player.close(1)
    tap.close()
    compact(tmp_path)
    found = {(row[c.EXCHANGE], row[c.KIND]): (row[c.RECORDS], row[c.FRAME]) for row in frame_rows(tmp_path)}
    assert found == wanted
