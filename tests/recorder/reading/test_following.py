"""Tests of following a capture: its rows are those that its compactor publishes, whatever happens to the log."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import keys
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.log_tail import LogTail, Loss
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.query.columns import Rows
from recorder.reading.capture import GrowingCapture
from recorder.reading.elements import Told
from recorder.reading.following import CaptureGone, Closed, Follower, Following, Wanted, Watch
from recorder.reading.rows import all_bodies, rows
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Chunk, Player, Talk
from tests.tables import each_row

Row = dict[str, Any]
KINDS = (keys.METADATA, keys.HEARTBEAT, keys.PRODUCE, keys.SASL_AUTHENTICATE, traffic.VENDOR)


class Looker:
    """Follows a capture, and keeps what came."""

    def __init__(self, folder: Path, *, with_all: bool = False, most: int = 1 << 30) -> None:
        self.said: list[str] = []
        wanted = Wanted(Rows(), all_bodies, None, Told())
        self.following = Following(folder, wanted, with_all=with_all, most=most, watch=Watch(self.said.append))
        self.rows: list[Row] = []
        self.old: list[Row] = []
        self.closed: list[Closed] = []

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            for item, is_new in self.following.look():
                if isinstance(item, Closed):
                    self.closed.append(item)
                else:
                    (self.rows if is_new else self.old).append(item)


@contextmanager
def looking(folder: Path, **how: Any) -> Iterator[Looker]:
    looker = Looker(folder, **how)
    with closing(looker.following):
        yield looker


def by_id(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row[c.SESSION], row[c.CONNECTION], row[c.SEQUENCE]))


def ids(found: list[Row]) -> list[tuple[int, int]]:
    return [(row[c.CONNECTION], row[c.SEQUENCE]) for row in found]


def talk_of(seed: int, connection: int = 1, calls: int = 12, largest: int = 400) -> Talk:
    rng = random.Random(seed)
    return traffic.cut(rng, traffic.talk(rng, connection, calls, KINDS), largest)


def played(tap: Tap, talk: Talk, chunks: list[Chunk] | None = None) -> Player:
    """Opens a connection and plays chunks of it; without `chunks` all of them, and its end."""
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks if chunks is None else chunks:
        player.play(talk.connection, chunk)
    if chunks is None:
        player.close(talk.connection)
    tap.flush()
    return player


def beats(player: Player, connection: int, first: int, count: int) -> None:
    """Heartbeats and their answers."""
    for number in range(first, first + count):
        call = traffic.call(random.Random(number), keys.HEARTBEAT, number, "app")
        player.play(connection, Chunk(Direction.REQUEST, call.request, number * 10**6))
        player.play(connection, Chunk(Direction.RESPONSE, call.answer or b"", number * 10**6 + 1))


@pytest.mark.real
@each_row("seed", range(3))
def test_followed_rows_are_those_that_are_published_whenever_segments_roll_and_go(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path / str(seed)
    with ExitStack() as stack:
        taps = [open_tap(folder, RecordSettings(segment=3_000), f"s{number}") for number in range(2)]
        looker = stack.enter_context(looking(folder))
        # each worker has its own connections
        talks = [talk_of(seed * 7 + number, number + 1) for number in range(2)]
        players = [Player(tap) for tap in taps]
        for player, talk in zip(players, talks, strict=True):
            player.open(talk)
        chunks = [(number, chunk) for number, talk in enumerate(talks) for chunk in talk.chunks]
        # in the order of each talk
        rng.shuffle(order := [number for number, _ in chunks])
        left = [iter(talk.chunks) for talk in talks]
        for number in order:
            players[number].play(talks[number].connection, next(left[number]))
            taps[number].flush()
            match rng.randrange(8):
                case 0 | 1:
                    looker.look()
                case 2:
                    compact(folder)
        for player, talk, tap in zip(players, talks, taps, strict=True):
            player.close(talk.connection)
            tap.close()
        compact(folder)
        looker.look(3)
        published = [*rows(folder, Rows(), bodies=all_bodies)]
        assert by_id(looker.rows) == by_id(published)
        assert not looker.old
        assert {each.session for each in looker.closed if each.connection is None} == {"s0", "s1"}
        assert looker.said == []


@pytest.mark.parametrize("with_all", [False, True])
def test_what_was_in_the_log_before_is_not_new_and_what_comes_is(tmp_path: Path, with_all: bool) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        beats(player, 1, 0, 3)
        tap.flush()
        with looking(tmp_path, with_all=with_all) as looker:
            looker.look()
            assert (ids(looker.old), looker.rows) == ([(1, number) for number in range(6)] if with_all else [], [])
            assert looker.following.has_caught_up
            beats(player, 1, 3, 1)
            tap.flush()
            looker.look()
            assert ids(looker.rows) == [(1, 6), (1, 7)]


@contextmanager
def closing_tap(tap: Tap) -> Iterator[Tap]:
    try:
        yield tap
    finally:
        tap.close()


@pytest.mark.real
@pytest.mark.parametrize("is_compacted", [False, True])
def test_it_starts_at_the_newest_segment_not_at_the_logs_beginning(tmp_path: Path, is_compacted: bool) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        for number in range(40):
            beats(player, 1, number, 1)
            tap.flush()
        if is_compacted:
            compact(tmp_path)
        with looking(tmp_path) as looker:
            looker.look()
            assert looker.old == []
            beats(player, 1, 40, 2)
            tap.flush()
            looker.look()
            if not is_compacted:
                # without the compactor's state, a connection is known once it has spoken
                looker.rows.clear()
            beats(player, 1, 42, 2)
            tap.flush()
            looker.look()
            assert ids(looker.rows) == [(1, number) for number in range(80 if is_compacted else 84, 88)]
            assert looker.said == []


def test_with_all_the_capture_comes_first_each_frame_once(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        for number in range(40):
            beats(player, 1, number, 1)
            tap.flush()
            if number == 20:
                compact(tmp_path)
        with looking(tmp_path, with_all=True) as looker:
            looker.look()
            assert ids(looker.old) == [(1, number) for number in range(80)]
            assert looker.following.has_caught_up


@pytest.mark.real
def test_segments_that_go_while_nobody_looks_are_read_from_published_files(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        with looking(tmp_path) as looker:
            looker.look()
            for number in range(60):
                beats(player, 1, number, 1)
                tap.flush()
            compact(tmp_path)
            beats(player, 1, 60, 1)
            tap.flush()
            looker.look(2)
            assert ids(looker.rows) == [(1, number) for number in range(122)]
            assert looker.said == []


@pytest.mark.real
def test_a_tail_that_the_compactor_overtakes_lacks_nothing(tmp_path: Path) -> None:
    """The compactor is twice faster: it has done a segment that the tail holds open, and later ones."""
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        calls = [traffic.call(random.Random(number), keys.HEARTBEAT, number, "app") for number in range(90)]
        # each answer comes once the next request has arrived, so that in each segment an exchange is under way
        written = iter(
            [Chunk(Direction.REQUEST, calls[0].request, 0)]
            + [
                chunk
                for number, (call, after) in enumerate(pairwise(calls), 1)
                for chunk in (
                    Chunk(Direction.REQUEST, after.request, number * 10**6),
                    Chunk(Direction.RESPONSE, call.answer or b"", number * 10**6 + 1),
                )
            ]
        )
        found: list[tuple[int, int]] = []
        losses: list[Loss] = []

        def write(count: int) -> None:
            for chunk in islice(written, count):
                player.play(1, chunk)
                tap.flush()

        def read(tail: LogTail, portions: int) -> None:
            for _ in range(portions):
                portion = tail.read()
                for file in portion.published.frames:
                    found.extend(ids([*rows([file], Rows())]))
                for table in portion.tables:
                    found.extend(zip(*(table[name].to_pylist() for name in (c.CONNECTION, c.SEQUENCE)), strict=True))
                losses.extend(portion.losses)

        with closing(LogTail(tmp_path, "s", after=0, is_old=False, most=1 << 30)) as tail:
            for _ in range(3):
                write(59)
                read(tail, 3)
                compact(tmp_path)
            read(tail, 400)
        assert found == [(1, number) for number in range(177)]
        assert losses == []


def test_a_proxys_restart_is_followed_and_what_it_left_is_read_to_its_end(tmp_path: Path) -> None:
    first = open_tap(tmp_path, RecordSettings(), "s1")
    with looking(tmp_path) as looker:
        talk = talk_of(1)
        played(first, talk)
        looker.look()
        first.close()
        with closing_tap(open_tap(tmp_path, RecordSettings(), "s2")) as second:
            played(second, talk_of(2, 2))
            compact(tmp_path)
            looker.look(3)
        compact(tmp_path)
        looker.look(2)
        assert by_id(looker.rows) == by_id([*rows(tmp_path, Rows(), bodies=all_bodies)])
        assert {row[c.SESSION] for row in looker.rows} == {"s1", "s2"}


def segment_of(folder: Path, number: int = 1) -> Path:
    return folder / "_spool" / "s" / f"{number:08d}.log"


def test_a_torn_tail_is_waited_for(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path / "from", RecordSettings(), "s")) as tap:
        played(tap, talk_of(3))
    log = segment_of(tmp_path / "from").read_bytes()
    target = segment_of(tmp_path / "to")
    target.parent.mkdir(parents=True)
    target.write_bytes(log[: len(log) // 2])
    with looking(tmp_path / "to", with_all=True) as looker:
        looker.look()
        for at in range(len(log) // 2, len(log), 37):
            with target.open("ab") as file:
                file.write(log[at : at + 37])
            looker.look()
        compact(tmp_path / "from")
        everything = [*rows(tmp_path / "from", Rows(), bodies=all_bodies)]
        assert by_id(looker.old + looker.rows) == by_id(everything)
        assert looker.said == []


def test_a_damaged_frame_is_named_and_what_comes_after_it_is_shown(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        with looking(tmp_path) as looker:
            beats(player, 1, 0, 1)
            tap.flush()
            looker.look()
            size = segment_of(tmp_path).stat().st_size
            beats(player, 1, 1, 1)
            other = played(tap, Talk(2, []), [])
            beats(other, 2, 2, 2)
            tap.flush()
            with segment_of(tmp_path).open("r+b") as file:
                file.seek(size + 45)
                wrong = bytes([file.read(1)[0] ^ 1])
                file.seek(size + 45)
                file.write(wrong)
            looker.look(2)
            assert ids(looker.rows) == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]
            (said,) = looker.said
            assert said.startswith("session s: ")
            assert said.endswith("of segment 1 can't be read: what they held is missing")


def test_a_damaged_head_is_passed_over_once_a_later_segment_is_there(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        with looking(tmp_path) as looker:
            looker.look()
            number = 0
            while not segment_of(tmp_path, 2).exists():
                beats(player, 1, number, 1)
                tap.flush()
                number += 1
            segment_of(tmp_path, 2).write_bytes(b"no head")
            while not segment_of(tmp_path, 4).exists():
                beats(player, 1, number, 1)
                tap.flush()
                number += 1
            looker.look(3)
            assert looker.said == ["session s: segment 2 of the log can't be read: what passed then is missing"]
            assert looker.rows[-1][c.SEQUENCE] == 2 * number - 1


def test_workers_are_merged_by_time_although_one_writes_its_log_later(tmp_path: Path) -> None:
    taps = [open_tap(tmp_path, RecordSettings(), f"s{number}") for number in range(2)]
    players = [played(tap, Talk(number, []), []) for number, tap in enumerate(taps)]
    with looking(tmp_path) as looker:
        looker.look()
        for worker in range(2):
            for number in range(worker, 10, 2):
                beats(players[worker], worker, number, 1)
            taps[worker].flush()
            looker.look()
        looker.look()
        assert len(looker.rows) == 20
        assert looker.rows == sorted(looker.rows, key=lambda row: row[c.AT_NS])
        assert len({row[c.SESSION] for row in looker.rows[:4]}) == 2
    for tap in taps:
        tap.close()


def test_a_killed_proxys_frames_that_never_came_whole_are_shown_at_its_end(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path / "from", RecordSettings(), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        beats(player, 1, 0, 1)
        call = traffic.call(random.Random(1), keys.PRODUCE, 1, "app", 1_000)
        player.play(1, Chunk(Direction.REQUEST, call.request[:500], 10**6))
        tap.flush()
        # a killed proxy leaves its log without an end, and without locks
        shutil.copytree(tmp_path / "from" / "_spool", tmp_path / "to" / "_spool")
    with looking(tmp_path / "to", with_all=True) as looker:
        looker.look()
        compact(tmp_path / "to")
        looker.look()
        assert by_id(looker.old + looker.rows) == by_id([*rows(tmp_path / "to", Rows(), bodies=all_bodies)])
        assert looker.rows[0][c.NOTE].startswith(c.CUT)


def test_nothing_is_written_and_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(), "s")) as tap:
        played(tap, talk_of(1))
        locked: list[Any] = []
        for name in ("flock", "lockf", "fcntl"):
            monkeypatch.setattr(f"fcntl.{name}", lambda *told: locked.append(told))
        before = {path: path.stat() for path in tmp_path.rglob("*")}
        with looking(tmp_path, with_all=True) as looker:
            looker.look(3)
        assert looker.old
        assert locked == []
        after = {path: path.stat() for path in tmp_path.rglob("*")}
        assert {path: (one.st_mtime_ns, one.st_size) for path, one in before.items()} == {
            path: (one.st_mtime_ns, one.st_size) for path, one in after.items()
        }
        monkeypatch.undo()


@pytest.mark.real
def test_a_log_that_may_not_be_read_is_followed_by_its_published_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path, session: str) -> Any:
        raise PermissionError(13, "Permission denied")

    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        beats(player, 1, 0, 10)
        tap.flush()
        compact(tmp_path)
        there = len([*rows(tmp_path, Rows())])
        with monkeypatch.context() as patched:
            patched.setattr("recorder.capture.log_tail.sessions.open_session", refused)
            looker = Looker(tmp_path)
            looker.look()
            (said,) = looker.said
            assert "the log of session s can't be followed (this user may not read it)" in said
            assert "up to capture.segment_age (60s by default) after they passed" in said
        for number in range(10, 40):
            beats(player, 1, number, 1)
            tap.flush()
        compact(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr("recorder.capture.log_tail.sessions.open_session", refused)
            looker.look(20)
        published = [*rows(tmp_path, Rows())]
        assert ids(looker.rows) == ids(published)[there:]
        assert len(looker.rows) > 0
        assert len(looker.said) == 1


def test_a_folder_that_vanishes_ends_it(tmp_path: Path) -> None:
    tap = open_tap(tmp_path / "capture", RecordSettings(), "s")
    with looking(tmp_path / "capture") as looker:
        looker.look()
        tap.close()
        shutil.rmtree(tmp_path / "capture")
        with pytest.raises(CaptureGone, match="has gone"):
            looker.look()


def test_frames_that_do_not_come_whole_are_kept_within_the_budget(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        with looking(tmp_path, most=100_000) as looker:
            looker.look()
            call = traffic.call(random.Random(1), keys.PRODUCE, 1, "app", 300_000)
            beats(player, 1, 0, 1)
            player.play(1, Chunk(Direction.REQUEST, call.request[:200_000], 1))
            other = played(tap, Talk(2, []), [])
            beats(other, 2, 5, 1)
            tap.flush()
            with pytest.raises(OverBudget, match="frames that have not come whole"):
                looker.look()


def exchanges(folder: Path, said: list[str], where: str = "", *, with_all: bool = False) -> Any:
    capture = GrowingCapture(folder, [])
    return Follower(capture, with_all=with_all, say=said.append).exchanges(capture.filter(where))


def shown(source: Any, *, new: bool = True) -> list[tuple[int, str]]:
    return [(pair.head[c.EXCHANGE], pair.outcome.value) for pair, is_new in source.look() if is_new == new]


def test_an_exchange_that_was_asked_in_an_earlier_segment_has_its_request(tmp_path: Path) -> None:
    said: list[str] = []
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        call = traffic.call(random.Random(1), keys.HEARTBEAT, 1, "app")
        player.play(1, Chunk(Direction.REQUEST, call.request, 1))
        other = played(tap, Talk(2, []), [])
        while not segment_of(tmp_path, 2).exists():
            beats(other, 2, 5, 1)
            tap.flush()
        compact(tmp_path)
        with closing(exchanges(tmp_path, said, "client_id == app and connection == 1")) as source:
            assert shown(source) == []
            player.play(1, Chunk(Direction.RESPONSE, call.answer or b"", 2))
            tap.flush()
            assert shown(source) == [(0, "answered")]


def test_a_request_without_an_answer_is_shown_when_its_connection_ends(tmp_path: Path) -> None:
    said: list[str] = []
    with closing_tap(open_tap(tmp_path, RecordSettings(), "s")) as tap:
        player = played(tap, Talk(1, []), [])
        with closing(exchanges(tmp_path, said)) as source:
            call = traffic.call(random.Random(1), keys.HEARTBEAT, 1, "app")
            player.play(1, Chunk(Direction.REQUEST, call.request, 1))
            tap.flush()
            assert shown(source) == []
            player.close(1)
            tap.flush()
            assert shown(source) == [(0, "unanswered")]


def ask_and_leave(tap: Tap, connection: int) -> None:
    """A connection that ends before its request is answered."""
    player = played(tap, Talk(connection, []), [])
    call = traffic.call(random.Random(connection), keys.HEARTBEAT, connection, "app")
    player.play(connection, Chunk(Direction.REQUEST, call.request, connection))
    player.close(connection)
    tap.flush()


def roll(folder: Path, tap: Tap, connection: int, segment: int) -> None:
    """Makes all before a segment published alone."""
    other = played(tap, Talk(connection, []), [])
    while not segment_of(folder, segment).exists():
        beats(other, connection, 5, 1)
        tap.flush()
    compact(folder)


UNANSWERED = (0, "unanswered")


def test_a_connection_that_ended_in_a_segment_that_was_gone_has_ended(tmp_path: Path) -> None:
    with (
        closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap,
        looking(tmp_path) as looker,
        closing(exchanges(tmp_path, [], "connection == 1")) as source,
    ):
        looker.look()
        assert shown(source) == []
        # the first segment is held open
        roll(tmp_path, tap, 2, segment=3)
        ask_and_leave(tap, 1)
        roll(tmp_path, tap, 3, segment=5)
        looker.look(8)
        assert looker.closed == [Closed("s", 1)]
        assert [one for _ in range(8) for one in shown(source)] == [UNANSWERED]


def test_a_connection_that_ended_before_somebody_looks_has_ended(tmp_path: Path) -> None:
    with closing_tap(open_tap(tmp_path, RecordSettings(segment=1_000), "s")) as tap:
        ask_and_leave(tap, 1)
        roll(tmp_path, tap, 2, segment=3)
        with closing(exchanges(tmp_path, [], "connection == 1", with_all=True)) as source:
            assert shown(source, new=False) == [UNANSWERED]


@pytest.mark.parametrize("is_published", [False, True])
def test_an_end_without_an_answer_that_was_there_before_is_no_news(tmp_path: Path, is_published: bool) -> None:
    tap = open_tap(tmp_path, RecordSettings(segment=1_000), "s")
    ask_and_leave(tap, 1)
    if is_published:
        roll(tmp_path, tap, 2, segment=2)
    with closing(exchanges(tmp_path, [], "connection == 1")) as source:
        assert shown(source) == []
        beats(played(tap, Talk(3, []), []), 3, 5, 1)
        tap.flush()
        assert shown(source) == []
        tap.close()
        compact(tmp_path)
        assert [one for _ in range(4) for one in shown(source)] == []
