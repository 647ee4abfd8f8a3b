"""Tests of damaged logs: every recorded byte becomes a row or a gap, or is reported as lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.capture import spool
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.spool import EntryKind
from recorder.capture.tap import open_tap
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import (
    assert_holds,
    event_rows,
    frame_rows,
    kill,
    segment_path,
    segments,
    session_folder,
)
from tests.recorder.capture.traffic import Chunk, Player, Talk
from tests.sweeps import mostly_long

# columns that stay the same even if other rows are missing
OWN = (
    *("connection", "sequence", "exchange", "dialect", "kind", "made_by", "mono_ns", "first_mono_ns"),
    *("api_key", "api_version", "correlation_id", "frame", "masked", "size", "request_size"),
)


@dataclass
class Recorded:
    """A session's log as it was written: the positions of its entries, by segment, and its talks.

    `own`: the columns of each row that don't depend on other rows.
    """

    folder: Path
    session: str
    talks: list[Talk]
    own: tuple[str, ...] = OWN
    logs: dict[int, bytes] = field(default_factory=dict)
    places: dict[int, list[tuple[int, int, spool.Entry]]] = field(default_factory=dict)

    @property
    def spool(self) -> Path:
        return session_folder(self.folder, self.session)

    def path(self, segment: int) -> Path:
        return segment_path(self.spool, segment)

    def look(self) -> None:
        """Notes the position of each entry."""
        for number in segments(self.spool):
            log = self.path(number).read_bytes()
            start = spool.decode_head(log)
            at, self.places[number], self.logs[number] = start.begin, [], log
            for entry, end in spool.entries(log, at, start.seed):
                self.places[number].append((at, end, entry))
                at = end
            assert at == len(log)


def record(
    folder: Path,
    rng: random.Random,
    talks: int,
    calls: int,
    segment: int,
    *,
    is_killed: bool = False,
    is_begun: bool = False,
    has_gaps: bool = False,
    watch: Callable[[], None] = lambda: None,
    **more: Any,
) -> Recorded:
    """Records talks that begin and end at different times, each chunk written at once.

    `segment`: the bytes of a segment. `is_begun`: half of them were compacted during the recording. `has_gaps`: the
    limit was hit now and then. `watch`: called after each chunk. `more`: settings of the recording.
    """
    tap = open_tap(folder, RecordSettings(segment=segment, **more), "s")
    player = Player(tap)
    waiting = [_talk(rng, number, calls) for number in range(talks)]
    made = list(waiting)
    left: dict[int, list[Chunk]] = {}
    while waiting or left:
        if waiting and (not left or rng.random() < 0.1):
            talk = waiting.pop(0)
            player.open(talk)
            left[talk.connection] = list(talk.chunks)
        connection = rng.choice(list(left))
        if has_gaps and rng.random() < 0.2:
            tap._limit = rng.choice((-1, 1 << 40))
        player.play(connection, left[connection].pop(0))
        if not left[connection]:
            player.close(connection)
            del left[connection]
        tap.flush()
        watch()
        if is_begun and not waiting and len(left) == talks // 2:
            is_begun = False
            compact(folder)
    if is_killed:
        kill(tap)
    else:
        tap.close()
    # after a gap of the tap, frames are numbered as if the frames that it cut had ended with it
    own = tuple(name for name in OWN if name != "sequence" or not has_gaps)
    recorded = Recorded(folder, tap.session, made, own)
    recorded.look()
    return recorded


def _talk(rng: random.Random, number: int, calls: int) -> Talk:
    if number % 4 == 3:
        return traffic.cut(rng, traffic.old_talk(rng, number, calls), 300)
    return traffic.cut(rng, traffic.talk(rng, number, rng.randint(1, calls), traffic.KINDS), 300)


def size_of(talk: Talk) -> int:
    return sum(map(len, talk.streams()))


def details(gap: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gap["detail"])
    return found


# kinds of damage to a segment


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def cut_off(path: Path, rng: random.Random) -> None:
    with path.open("rb+") as file:
        file.truncate(rng.randrange(path.stat().st_size))


def flip(path: Path, rng: random.Random) -> None:
    log = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 3)):
        log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
    path.write_bytes(log)


def blank(path: Path, rng: random.Random) -> None:
    """Zeros a sector."""
    log = bytearray(path.read_bytes())
    at = rng.randrange(len(log))
    log[at : at + 512] = bytes(len(log[at : at + 512]))
    path.write_bytes(log)


DAMAGES = (delete, cut_off, flip, blank)


@dataclass
class Lost:
    """The cost of a damage: lost entries by segment, and lost bytes of the log."""

    entries: dict[int, list[spool.Entry]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)

    def connections(self) -> set[int]:
        """The connections that lack entries that count."""
        gone = [entry for found in self.entries.values() for entry in found]
        return {entry.connection for entry in gone if entry.connection >= 0 and entry.kind != EntryKind.CHECKPOINT}


def lost_of(recorded: Recorded) -> Lost:
    """Compares the log with its undamaged state."""
    lost = Lost()
    for segment, log in recorded.logs.items():
        path = recorded.path(segment)
        now = path.read_bytes() if path.exists() else b""
        begin = recorded.places[segment][0][0]
        if now[:begin] != log[:begin]:
            lost.whole.add(segment)
        gone = [entry for at, end, entry in recorded.places[segment] if now[at:end] != log[at:end]]
        if gone or segment in lost.whole:
            lost.entries[segment] = (
                [entry for _, _, entry in recorded.places[segment]] if segment in lost.whole else gone
            )
    return lost


def damage(recorded: Recorded, rng: random.Random, count: int, upto: int = 0) -> Lost:
    """Damages some segments, but not the last `upto` ones."""
    numbers = segments(recorded.spool)
    for number in rng.sample(numbers[: len(numbers) - upto], min(count, len(numbers) - upto)):
        rng.choice(DAMAGES)(recorded.path(number), rng)
    return lost_of(recorded)


def whole_rows(folder: Path, connection: int | None = None) -> list[dict[str, Any]]:
    """Returns the rows without those of frames that a session's end has cut."""
    rows = frame_rows(folder, connection)
    return [row for row in rows if row["kind"] != "bytes" and not (row["note"] or "").startswith("cut")]


def assert_rows_are_what_was_recorded(recorded: Recorded) -> None:
    """Each row equals the twin's in every column, except that responses with a lost request have no client id."""
    rows = whole_rows(recorded.folder)
    assert len({(row["connection"], row["sequence"]) for row in rows}) == len(rows)
    expected = [row for talk in recorded.talks for row in traffic.expected(talk)]
    wanted = {(row["connection"], row["exchange"], row["kind"]): row for row in expected}
    for row in rows:
        want = wanted[row["connection"], row["exchange"], row["kind"]]
        assert {name: row[name] for name in recorded.own} == {name: want[name] for name in recorded.own}
        assert row["client_id"] in (want["client_id"], None)


def assert_all_is_accounted_for(recorded: Recorded) -> None:
    """For a session whose end is in its log: rows and gaps add up to what was recorded, and nothing is unknown."""
    rows, gaps = frame_rows(recorded.folder), event_rows(recorded.folder, "gap")
    elsewhere = {number for gap in gaps for number in details(gap).get("ends_of", ())}
    unknown = [gap for gap in gaps if gap["bytes"] is None and gap["connection"] is not None]
    assert {gap["connection"] for gap in unknown} <= elsewhere
    kept = sum(row["size"] + 4 for row in rows)
    assert kept + sum(gap["bytes"] or 0 for gap in gaps) == sum(map(size_of, recorded.talks))
    frames = sum(len(traffic.expected(talk)) for talk in recorded.talks)
    assert len(rows) + sum(gap["frames"] or 0 for gap in gaps) == frames
    assert {row["cause"] for row in event_rows(recorded.folder, "session")} == {"started", "ended"}


def assert_connections_are_told(recorded: Recorded) -> None:
    """Each connection is closed once, or counted among those of which nothing is left."""
    closed = [row["connection"] for row in event_rows(recorded.folder, "closed")]
    assert len(set(closed)) == len(closed)
    whole = sum(details(gap).get("connections", 0) for gap in event_rows(recorded.folder, "gap"))
    assert len(closed) + whole == len(recorded.talks)


def assert_others_go_on(recorded: Recorded, lost: Lost) -> None:
    for talk in recorded.talks:
        if talk.connection not in lost.connections():
            rows = frame_rows(recorded.folder, talk.connection)
            assert len(rows) == len(traffic.expected(talk))
            gaps = [gap for gap in event_rows(recorded.folder, "gap") if gap["connection"] == talk.connection]
            assert gaps == []


def assert_what_is_gone_is_said(recorded: Recorded, lost: Lost) -> None:
    """The lost bytes of the log are reported by segment."""
    said: dict[int, int] = {}
    for gap in event_rows(recorded.folder, "gap"):
        if "segments" in details(gap):
            first, last = details(gap)["segments"]
            assert gap["cause"] == "spool_damaged"
            assert not said.keys() & set(range(first, last + 1))
            said |= dict.fromkeys(range(first, last + 1), 0)
            said[first] = details(gap)["log_bytes"]
    # the next segment's head tells where a segment ends; if it is lost too, the losses are reported for both
    assert lost.whole <= said.keys() <= lost.entries.keys()
    wanted = 0
    for segment, gone in lost.entries.items():
        sizes = {id(entry): end - at for at, end, entry in recorded.places[segment]}
        wanted += len(recorded.logs[segment]) if segment in lost.whole else sum(sizes[id(entry)] for entry in gone)
    assert sum(said.values()) == wanted


def assert_no_connection_is_passed_over(recorded: Recorded) -> None:
    """For a session whose end may be lost: each connection with a loss has a gap, or was cut off with the session."""
    gaps = event_rows(recorded.folder, "gap")
    broken = {gap["connection"] for gap in gaps}
    cut_off = {row["connection"] for row in event_rows(recorded.folder, "closed") if row["cause"] == "session_ended"}
    died = "died" in {row["cause"] for row in event_rows(recorded.folder, "session")}
    known = {row["connection"] for row in event_rows(recorded.folder, "opened")}
    for talk in recorded.talks:
        number = talk.connection
        kept = sum(row["size"] + 4 for row in whole_rows(recorded.folder, number))
        if kept < size_of(talk):
            whole = sum(details(gap).get("connections", 0) for gap in gaps)
            assert number in broken or (died and number in cut_off) or (number not in known and (whole or died))
    assert all(gap["bytes"] is None or gap["bytes"] >= 0 for gap in gaps)


any_seed = st.integers(0, 1 << 32)
in_folders = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
much = settings(in_folders, max_examples=300)


def check_damage_before_the_end(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    segment, has_gaps = rng.choice([1500, 4000, 12000]), rng.random() < 0.3
    recorded = record(folder, rng, rng.randint(1, 4), 10, segment, has_gaps=has_gaps)
    lost = damage(recorded, rng, rng.randint(1, 4), upto=1)
    compact(folder)
    assert_rows_are_what_was_recorded(recorded)
    assert_all_is_accounted_for(recorded)
    assert_connections_are_told(recorded)
    if not has_gaps:
        assert_others_go_on(recorded, lost)
    assert_what_is_gone_is_said(recorded, lost)


@pytest.mark.real
@in_folders
@given(seed=any_seed)
def test_any_damage_before_the_last_segment_is_accounted_for_to_the_byte(seed: int, tmp_path_factory) -> None:
    check_damage_before_the_end(seed, tmp_path_factory.mktemp("capture"))


@pytest.mark.long
@much
@given(seed=any_seed)
def test_much_damage_before_the_last_segment_is_accounted_for_to_the_byte(seed: int, tmp_path_factory) -> None:
    check_damage_before_the_end(seed, tmp_path_factory.mktemp("capture"))


def check_damage_anywhere(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    killed = rng.random() < 0.5
    recorded = record(folder, rng, rng.randint(1, 4), 10, rng.choice([1500, 4000, 12000]), is_killed=killed)
    lost = damage(recorded, rng, rng.randint(1, 4))
    done = compact(folder)
    assert done.failed == ()
    assert_rows_are_what_was_recorded(recorded)
    assert_others_go_on(recorded, lost)
    assert_no_connection_is_passed_over(recorded)
    is_end_lost = killed or max(recorded.logs) in lost.entries
    causes = [row["cause"] for row in event_rows(folder, "session")]
    assert causes.count("died") <= is_end_lost
    assert causes.count("ended") + causes.count("died") == 1


@pytest.mark.real
@in_folders
@given(seed=any_seed)
def test_damage_anywhere_passes_no_connection_over(seed: int, tmp_path_factory) -> None:
    check_damage_anywhere(seed, tmp_path_factory.mktemp("capture"))


@pytest.mark.long
@much
@given(seed=any_seed)
def test_much_damage_anywhere_passes_no_connection_over(seed: int, tmp_path_factory) -> None:
    check_damage_anywhere(seed, tmp_path_factory.mktemp("capture"))


# damage to the compactor's own files


def remove_state(session: Path) -> None:
    for state in session.glob("*.state"):
        state.unlink()


def empty_state(session: Path) -> None:
    for state in session.glob("*.state"):
        state.write_bytes(b"")


def flip_state(session: Path) -> None:
    for state in session.glob("*.state"):
        flip(state, random.Random(1))


def remove_all_but_locks(session: Path) -> None:
    for file in session.iterdir():
        if file.suffix in (".state", ".log"):
            file.unlink()


@pytest.mark.real
@pytest.mark.parametrize("spoil", [remove_state, empty_state, flip_state])
@pytest.mark.parametrize("seed", mostly_long(range(3), usual=1))
def test_a_lost_state_costs_what_was_arriving_and_no_row_that_is_there(tmp_path: Path, spoil, seed: int) -> None:
    rng = random.Random(seed)
    recorded = record(tmp_path, rng, 4, 12, 2500, is_begun=True)
    before = frame_rows(tmp_path)
    assert 0 < len(before) < sum(len(traffic.expected(talk)) for talk in recorded.talks)
    spoil(recorded.spool)
    ((_, gone),) = compact(tmp_path).damaged
    assert gone.startswith("what was known of the connections after segment ")
    assert_rows_are_what_was_recorded(recorded)
    rows = frame_rows(tmp_path)
    assert all(row in rows for row in before)
    # these connections go on, and the size of their earlier part is unknown
    gaps = [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is not None]
    assert gaps
    assert {(gap["frames"], gap["bytes"]) for gap in gaps} == {(None, None)}
    assert len(rows) > len(before)
    state = next(gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is None)
    assert details(state).keys() == {"state"}


@pytest.mark.real
def test_published_rows_stay_when_the_rest_of_a_session_is_lost(tmp_path: Path) -> None:
    recorded = record(tmp_path, random.Random(1), 4, 12, 2500, is_begun=True)
    before = frame_rows(tmp_path), event_rows(tmp_path)
    remove_all_but_locks(recorded.spool)
    assert compact(tmp_path).failed == ()
    assert frame_rows(tmp_path) == before[0]
    after = event_rows(tmp_path)
    assert all(event in after for event in before[1])
    assert [row["cause"] for row in after if row not in before[1]] == ["spool_damaged", "died"]


@pytest.mark.real
@pytest.mark.parametrize("lock", ["writer.lock", "compactor.lock", "status.json"])
def test_a_live_session_whose_locks_are_removed_or_spoiled_continues(tmp_path: Path, lock: str) -> None:
    rng = random.Random(1)
    (talk,) = [traffic.cut(rng, traffic.talk(rng, 0, 40, traffic.KINDS), 300)]
    tap = open_tap(tmp_path, RecordSettings(segment=2500), "s")
    player = Player(tap)
    player.open(talk)
    for number, chunk in enumerate(talk.chunks):
        player.play(0, chunk)
        tap.flush()
        if number % 10 == 0:
            assert compact(tmp_path).live == ("s",)
            (session_folder(tmp_path, "s") / lock).unlink(missing_ok=True)
        if number % 15 == 0:
            (session_folder(tmp_path, "s") / lock).write_bytes(b"nonsense")
    player.close(0)
    tap.close()
    assert compact(tmp_path).sessions == ("s",)
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


def test_a_session_of_which_nothing_is_left_but_its_folder_has_died(tmp_path: Path) -> None:
    recorded = record(tmp_path, random.Random(1), 2, 12, 2500)
    remove_all_but_locks(recorded.spool)
    assert compact(tmp_path).sessions == ("s",)
    (event,) = event_rows(tmp_path)
    assert (event["kind"], event["cause"]) == ("session", "died")
    # the lock tells when the session began
    assert event["at"].year > 2000


def test_unreadable_last_segments_are_a_gap_with_their_bytes(tmp_path: Path) -> None:
    recorded = record(tmp_path, random.Random(1), 2, 12, 2500)
    for number in sorted(recorded.logs)[-2:]:
        recorded.path(number).write_bytes(bytes(100))
    ((_, gone),) = compact(tmp_path).damaged
    first = max(recorded.logs) - 1
    assert gone == f"segments {first} to {first + 1}"
    (gap,) = [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is None]
    assert details(gap) == {"segments": [first, first + 1], "log_bytes": 200}
    assert "died" in {row["cause"] for row in event_rows(tmp_path, "session")}


def test_a_torn_last_write_is_reported_with_the_processs_death(tmp_path: Path) -> None:
    recorded = record(tmp_path, random.Random(1), 2, 12, 2500, is_killed=True)
    with recorded.path(max(recorded.logs)).open("ab") as file:
        file.write(b"half an entry")
    assert compact(tmp_path).damaged == ()
    (died,) = [row for row in event_rows(tmp_path, "session") if row["cause"] == "died"]
    assert details(died) == {"torn_bytes": 13}
