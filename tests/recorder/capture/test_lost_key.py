"""Tests of encrypted logs whose key is lost, or not: every byte is in a row or in a gap, and none in the log."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from recorder.capture import frames as c
from recorder.capture import session as sessions
from recorder.capture.compactor import compact, compact_session
from recorder.capture.handover import Handover, decoded
from recorder.capture.log_tail import LogTail
from recorder.capture.session import SPOOL_FOLDER, RecordSettings
from recorder.capture.spool import UnknownSpoolError
from recorder.capture.tap import Tap, compactor_command, open_tap
from tests.brokers.waiting import PATIENCE
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import assert_holds, event_rows, frame_rows, kill
from tests.recorder.capture.traffic import Player, Talk
from tests.sweeps import examples, mostly_long

ENCRYPTED = RecordSettings(segment=3_000, encrypt=True)
# bytes of a piece of a frame that is looked for
PIECE = 12


class KilledError(BaseException):
    """The compactor's process has ended, here."""


def handover_of(tap: Tap) -> Handover:
    return decoded(tap.child_input)


def some_talks(rng: random.Random) -> list[Talk]:
    kinds = traffic.KINDS
    return [traffic.cut(rng, traffic.talk(rng, number, rng.randint(1, 12), kinds), 400) for number in range(3)]


def play(tap: Tap, rng: random.Random, talks: list[Talk], *, ends: bool, has_gaps: bool = False) -> None:
    player, left = Player(tap), {talk.connection: list(talk.chunks) for talk in talks}
    for talk in talks:
        player.open(talk)
    usual = tap._limit
    while left:
        connection = rng.choice(list(left))
        if has_gaps and rng.random() < 0.2:
            tap._limit = rng.choice((-1, usual))
        player.play(connection, left[connection].pop(0))
        if not left[connection]:
            del left[connection]
            if ends or rng.random() < 0.3:
                player.close(connection)
        tap.flush()
    tap._limit = usual


def compact_until(folder: Path, session: str, handover: Handover, last: int) -> None:
    """Compacts with the key; the process ends before step `last`, at which no file is in its memory any more."""
    begun = 0

    def step(name: str) -> None:
        nonlocal begun
        if begun == last:
            raise KilledError
        begun += 1

    with suppress(KilledError):
        compact_session(folder, session, before_step=step, handover=handover)


def planted(talks: list[Talk]) -> set[bytes]:
    """Pieces of frames' bodies, of letters alone."""
    streams = [stream for talk in talks for stream in talk.streams()]
    pieces = (stream[at : at + PIECE] for stream in streams for at in range(0, len(stream), PIECE))
    return {piece for piece in pieces if piece.isalpha() and len(piece) == PIECE}


def assert_holds_nothing(folder: Path, pieces: set[bytes]) -> None:
    for path in (folder / SPOOL_FOLDER).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            # the pieces are thousands, the log is small
            assert not pieces & {content[at : at + PIECE] for at in range(len(content))}, path


def assert_all_is_accounted_for(folder: Path, talks: list[Talk], arrived: dict[int, int]) -> None:
    """By connection, rows and gaps add up to the bytes that arrived; what is whole is what was recorded."""
    gaps = event_rows(folder, c.EVENT_GAP)
    for talk in talks:
        rows = [row for row in frame_rows(folder, talk.connection) if not (row["note"] or "").startswith(c.CUT)]
        of_talk = [gap for gap in gaps if gap["connection"] == talk.connection]
        lost = sum(gap["bytes"] for gap in of_talk)
        assert sum(row["size"] + 4 for row in rows) + lost == arrived[talk.connection]
        assert lost == 0 or len(of_talk) > 0
        wanted = {(row["exchange"], row["kind"]): row for row in traffic.expected(talk)}
        for row in rows:
            if row["kind"] != "bytes":
                assert row["frame"] == wanted[row["exchange"], row["kind"]]["frame"]
    closed = [row["connection"] for row in event_rows(folder, c.EVENT_CLOSED)]
    assert sorted(closed) == sorted(talk.connection for talk in talks)
    assert sessions.sessions(folder) == []


@pytest.mark.parametrize("seed", mostly_long(range(4), 1))
def test_with_its_key_an_encrypted_log_becomes_what_any_log_becomes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    talks = some_talks(rng)
    tap = open_tap(tmp_path, ENCRYPTED)
    play(tap, rng, talks, ends=True)
    assert_holds_nothing(tmp_path, planted(talks))
    handover = handover_of(tap)
    # the states between
    for last in (3, 8):
        compact_until(tmp_path, tap.session, handover, last)
        assert_holds_nothing(tmp_path, planted(talks))
    tap.close()
    assert compact_session(tmp_path, tap.session, handover=handover).finished
    rows = frame_rows(tmp_path)
    for talk in talks:
        assert_holds([row for row in rows if row["connection"] == talk.connection], traffic.expected(talk))
    assert event_rows(tmp_path, c.EVENT_GAP) == []
    assert len(planted(talks)) > 10


@pytest.mark.real
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    last=st.integers(0, 30),
    ends=st.booleans(),
    is_killed=st.booleans(),
    has_gaps=st.booleans(),
)
def test_what_a_lost_key_costs_is_a_gap_exact_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, seed: int, last: int, ends: bool, is_killed: bool, has_gaps: bool
) -> None:
    folder, rng = tmp_path_factory.mktemp("lost"), random.Random(seed)
    talks = some_talks(rng)
    tap = open_tap(folder, ENCRYPTED)
    play(tap, rng, talks, ends=ends, has_gaps=has_gaps and not is_killed)
    compact_until(folder, tap.session, handover_of(tap), last)
    if is_killed:
        kill(tap)
    else:
        tap.close()
    assert_holds_nothing(folder, planted(talks))
    done = compact(folder)
    assert (done.failed, done.stuck, done.live) == ((), (), ())
    arrived = {talk.connection: sum(map(len, talk.streams())) for talk in talks}
    if not is_killed:
        assert_all_is_accounted_for(folder, talks, arrived)
    else:
        # the tap keeps the last bytes back while a secret may follow: a killed one takes them along
        assert_no_more_than_arrived(folder, talks, arrived)
    causes = {gap["cause"] for gap in event_rows(folder, c.EVENT_GAP)}
    # the tap's limit is below its usual one, as where the volume is too full
    assert causes <= ({c.GAP_KEY, c.GAP_KEEP} if has_gaps else {c.GAP_KEY})


def assert_no_more_than_arrived(folder: Path, talks: list[Talk], arrived: dict[int, int]) -> None:
    for talk in talks:
        gaps = [gap for gap in event_rows(folder, c.EVENT_GAP) if gap["connection"] == talk.connection]
        rows = [row for row in frame_rows(folder, talk.connection) if not (row["note"] or "").startswith(c.CUT)]
        known = sum(row["size"] + 4 for row in rows) + sum(gap["bytes"] for gap in gaps)
        assert known <= arrived[talk.connection]


def test_the_log_of_a_proxy_that_lives_is_left_to_those_who_have_the_key(tmp_path: Path) -> None:
    rng = random.Random(1)
    talks = some_talks(rng)
    tap = open_tap(tmp_path, ENCRYPTED)
    play(tap, rng, talks, ends=True)
    done = compact(tmp_path)
    assert (done.live, done.sessions, done.damaged) == ((tap.session,), (), ())
    tap.close()
    assert compact_session(tmp_path, tap.session, handover=handover_of(tap)).finished
    for talk in talks:
        assert_holds(frame_rows(tmp_path, talk.connection), traffic.expected(talk))


def test_a_log_that_is_encrypted_can_not_be_followed_and_says_why(tmp_path: Path) -> None:
    tap = open_tap(tmp_path, ENCRYPTED)
    with pytest.raises(UnknownSpoolError, match="only the proxy and its compactor have the key"):
        LogTail(tmp_path, tap.session, most=1 << 20)
    tap.close()


@contextmanager
def compactor_of(folder: Path, tap: Tap, given: bytes) -> Iterator[subprocess.Popen[bytes]]:
    command = compactor_command(folder, tap.session, with_keys=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        process.stdin = None
        try:
            yield process
        finally:
            process.kill()


def secrets_seen_of(process: subprocess.Popen[bytes]) -> bytes:
    """What other processes of this user can read of a process."""
    return b"".join(Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


@pytest.mark.real
def test_a_compactor_that_was_killed_gets_the_key_again_and_nobody_else_sees_it(tmp_path: Path) -> None:
    rng = random.Random(2)
    talks = some_talks(rng)
    tap = open_tap(tmp_path, ENCRYPTED)
    key = decoded(tap.child_input).log_key
    with compactor_of(tmp_path, tap, tap.child_input) as first:
        seen = secrets_seen_of(first)
        assert key not in seen
        assert key.hex().encode() not in seen
        play(tap, rng, talks, ends=True)
        os.kill(first.pid, signal.SIGKILL)
    with compactor_of(tmp_path, tap, tap.child_input) as second:
        tap.close()
        assert second.wait(PATIENCE) == 0
    for talk in talks:
        assert_holds(frame_rows(tmp_path, talk.connection), traffic.expected(talk))
    assert event_rows(tmp_path, c.EVENT_GAP) == []
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert key not in path.read_bytes()
            assert key.hex().encode() not in path.read_bytes()


@pytest.mark.real
@pytest.mark.parametrize("given", [b"", b"{}", b'{"log_key": "secret"}', b'{"log_key": 5, "topics": {}}'])
def test_a_compactor_that_is_given_no_keys_says_so_and_quotes_nothing(tmp_path: Path, given: bytes) -> None:
    tap = open_tap(tmp_path, ENCRYPTED)
    with compactor_of(tmp_path, tap, given) as process:
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b"compactor: standard input holds no keys of a proxy\n"
    tap.close()


@pytest.mark.real
def test_the_command_tells_of_a_lost_key(tmp_path: Path) -> None:
    rng = random.Random(3)
    tap = open_tap(tmp_path, ENCRYPTED)
    play(tap, rng, some_talks(rng), ends=True)
    tap.close()
    command = [str(Path(sys.executable).parent / "kafka-wiretap"), "compact", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "whose key is lost" in ended.stdout + ended.stderr
    gaps: list[dict[str, Any]] = event_rows(tmp_path, c.EVENT_GAP)
    assert {gap["cause"] for gap in gaps} == {c.GAP_KEY}
    assert all(json.loads(gap["detail"])["lost"] for gap in gaps)
