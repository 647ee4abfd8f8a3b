"""Tests of the live stream: what a feed's readers get is what passed, and what they cannot get is counted."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Cause
from proxy.wire import catalog
from proxy.wire.keys import API_VERSIONS
from recorder.capture import frames as c
from recorder.capture.session import sessions
from recorder.live.consumer import Missed
from recorder.live.feed import FeedSettings, open_feed
from recorder.live.stream import MOST_TOLD, BoundedTold, Due, Stream
from recorder.reading.exchanges import Pair
from recorder.reading.following import Closed
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Player, cut, talk
from tests.recorder.live.conftest import BEHIND_NS


class Looker:
    """A consumer and a reader of tables that keep what they get."""

    def __init__(self, *, is_asked: bool = True) -> None:
        self.is_asked = is_asked
        self.pairs: list[Pair] = []
        self.missing: list[Missed] = []
        self.behind: list[float] = []
        self.frames = 0
        self.is_closed = False

    def take(self, pair: Pair) -> None:
        self.pairs.append(pair)

    def missed(self, missed: Missed) -> None:
        self.missing.append(missed)

    def is_behind(self, seconds: float) -> None:
        self.behind.append(seconds)

    def read(self, frames: Any) -> None:
        self.frames += len(frames)

    def close(self) -> None:
        self.is_closed = True


def played(tap: Any, *talks: traffic.Talk) -> None:
    player = Player(tap)
    for one in talks:
        player.open(one)
        for chunk in one.chunks:
            player.play(one.connection, chunk)
        player.close(one.connection, Cause.CLIENT_CLOSED)
    tap.flush()


def some(count: int = 5, connection: int = 1) -> traffic.Talk:
    rng = random.Random(connection)
    return cut(rng, talk(rng, connection, count), 500, time.monotonic_ns())


@pytest.fixture
def settings(tmp_path: Path) -> FeedSettings:
    return FeedSettings(folder=tmp_path / "feed")


def test_the_exchanges_of_a_feed_come_in_the_order_of_their_ends_with_their_bytes(settings: FeedSettings) -> None:
    tap, looker, spoken = open_feed(settings), Looker(), some(20)
    stream = Stream(settings.folder, [looker], is_feed=True)
    played(tap, spoken)
    stream.look()
    ends = [(pair.response or pair.head)[c.AT_NS] for pair in looker.pairs]
    assert ends == sorted(ends)
    by_number = sorted(looker.pairs, key=lambda pair: pair.head[c.EXCHANGE])
    for pair, call in zip(by_number, spoken.calls, strict=True):
        assert pair.request is not None
        assert pair.request[c.FRAME] == call.request[4:]
        assert (pair.response and pair.response[c.FRAME]) == (call.answer and call.answer[4:])
    tap.close()
    stream.close()
    assert looker.is_closed


def test_what_was_read_of_a_feed_is_gone_and_so_is_a_session_that_is_over(settings: FeedSettings) -> None:
    tap, looker = open_feed(replace(settings, segment=1)), Looker()
    stream = Stream(settings.folder, [looker], is_feed=True)
    for number in range(4):
        played(tap, some(connection=number))
        stream.look()
        stream.look()
        assert len([*settings.folder.rglob("*.log")]) <= 2
    assert next(settings.folder.rglob("*.log")).name > "00000004.log"
    tap.close()
    for _ in range(3):
        stream.look()
    assert stream.is_at_end
    assert not sessions(settings.folder)
    assert len(looker.pairs) == 20
    stream.close()


def test_frames_are_read_and_no_exchanges_are_made_while_nobody_asks(settings: FeedSettings) -> None:
    tap, looker = open_feed(settings), Looker(is_asked=False)
    stream = Stream(settings.folder, [looker], [looker], is_feed=True)
    spoken = some(20)
    played(tap, spoken)
    stream.look()
    assert looker.frames == sum(1 + (one.answer is not None) for one in spoken.calls)
    assert not looker.pairs
    looker.is_asked = True
    played(tap, some(3, connection=2))
    stream.look()
    assert len(looker.pairs) == 3
    assert not looker.missing
    tap.close()
    stream.close()


def test_what_lies_far_behind_is_read_and_its_exchanges_are_missed_and_counted(
    settings: FeedSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap, looker = open_feed(settings), Looker()
    stream = Stream(settings.folder, [looker], [looker], is_feed=True)
    played(tap, some(20))
    later_ns = time.time_ns() + 2 * BEHIND_NS
    with monkeypatch.context() as later:
        later.setattr("recorder.live.stream.time.time_ns", lambda: later_ns)
        stream.look()
    assert not looker.pairs
    # told once, as a consumer: as a reader of tables, the looker has got them
    assert sum(missed.frames or 0 for missed in looker.missing) == looker.frames == stream.passed_over > 0
    # until a look finds nothing that is too late
    assert looker.behind == [pytest.approx(2 * BEHIND_NS / 1e9, rel=0.1)]
    stream.look()
    assert looker.behind[1:] == [0]
    played(tap, some(3, connection=2))
    stream.look()
    assert len(looker.pairs) == 3
    assert len(looker.behind) == 2
    tap.close()
    stream.close()


def test_a_look_at_much_ends_at_the_next_table_once_it_is_due(settings: FeedSettings) -> None:
    tap, looker = open_feed(replace(settings, segment=1)), Looker()
    stream = Stream(settings.folder, [], [looker], is_feed=True, is_due=lambda: looker.frames > 0)
    spoken = [some(connection=number) for number in range(4)]
    for one in spoken:
        played(tap, one)
    with pytest.raises(Due):
        stream.look()
    assert 0 < looker.frames < sum(1 + (call.answer is not None) for one in spoken for call in one.calls)
    tap.close()
    stream.close()


def named(connection: int) -> traffic.Talk:
    """A connection whose client says which library it is."""
    library = {"client_software_name": "librdkafka", "client_software_version": f"2.10.{connection}"}
    asked = catalog.encode_request(API_VERSIONS, 3, 1, "shop", library)
    answered = catalog.encode_response(API_VERSIONS, 3, 1, {"error_code": 0})
    call = traffic.Call(API_VERSIONS, 3, 1, "shop", traffic.framed(asked), traffic.framed(answered))
    return cut(random.Random(connection), traffic.Talk(connection, [call]), 500, time.monotonic_ns())


def test_clients_beyond_the_most_are_learnt_and_the_oldest_are_forgotten(settings: FeedSettings) -> None:
    told = BoundedTold()
    for number in range(3 * MOST_TOLD):
        told.software["old", number] = "old client", None
    tap, looker = open_feed(settings), Looker()
    stream = Stream(settings.folder, [looker], is_feed=True, told=told)
    played(tap, named(1))
    stream.look()
    (pair,) = looker.pairs
    assert told.software_of((pair.head[c.SESSION], 1)) == ("librdkafka", "2.10.1")
    assert told.software_of(("old", 3 * MOST_TOLD - 1)) == ("old client", None)
    assert told.forgotten["connection"] == 2 * MOST_TOLD + 1
    tap.close()
    stream.close()


def test_connections_that_have_ended_take_no_room_from_those_that_are_open(
    settings: FeedSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.live.stream.MOST_TOLD", 3)
    monkeypatch.setattr("recorder.live.stream.MOST_ENDED", 4)
    told, tap, looker = BoundedTold(), open_feed(settings), Looker()
    stream = Stream(settings.folder, [looker], is_feed=True, told=told)
    player, long_lived = Player(tap), named(1)
    player.open(long_lived)
    for chunk in long_lived.chunks:
        player.play(1, chunk)
    for connection in range(2, 12):
        played(tap, named(connection))
        stream.look()
    assert told.forgotten["connection"] == 0
    session = looker.pairs[0].head[c.SESSION]
    # exchanges of connections that have just ended may still be looked at
    assert [of for of in range(1, 12) if told.software_of((session, of))[0]] == [1, 8, 9, 10, 11]
    tap.close()
    stream.close()


def test_the_end_of_a_session_is_that_of_all_of_its_connections() -> None:
    told = BoundedTold()
    for session, connection in (("old", 1), ("new", 1), ("old", 2)):
        told.software[session, connection] = session, None
    told.end(Closed("old"))
    assert [*told.software] == [("new", 1)]
    assert told.software_of(("old", 2)) == ("old", None)
