"""Tests of the tap's checkpoints: they describe open connections to a reader that has lost earlier parts of the log."""

import random
from pathlib import Path

import pytest

from fuzz.plays import Pages
from proxy.conversation.exchange import Direction
from proxy.files import Folder
from proxy.wire import keys
from recorder.capture.entry_json import decoded
from recorder.capture.keep import RoomWatch
from recorder.capture.session import RecordSettings
from recorder.capture.spool import CONNECTION, KIND, Entry, EntryKind
from recorder.capture.tap import Tap
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Player, Talk
from tests.tables import each_row


def checkpoints(pages: Pages) -> list[int]:
    """Returns the connections whose checkpoints were written."""
    return [item[CONNECTION] for item in pages.queue if item[KIND] == EntryKind.CHECKPOINT]


def paged(**settings: object) -> tuple[Tap, Pages]:
    pages = Pages()
    made = RecordSettings(queue=1 << 40, **settings)  # type: ignore[arg-type]
    return Tap(Folder(Path("s"), -1), made, pages, None, RoomWatch(Path())), pages  # type: ignore[arg-type]


@pytest.mark.parametrize("bodies", ["full", "head"])
def test_each_segment_tells_once_of_each_connection_that_has_something_to_say_in_it(bodies: str) -> None:
    rng = random.Random(3)
    tap, pages = paged(bodies=bodies)
    player = Player(tap)
    for number in range(3):
        player.open(Talk(number, []))
    told = []
    for turn in range(4):
        for number in range(min(turn + 1, 3)):
            call = traffic.call(rng, keys.HEARTBEAT, turn, "c")
            player.play(number, traffic.Chunk(Direction.REQUEST, call.request, 10))
            player.play(number, traffic.Chunk(Direction.RESPONSE, call.answer or b"", 11))
        told.append(checkpoints(pages))
        pages.queue.clear()
        pages.segment += 1
    # the connections of the first segment were opened in it
    assert told == [[], [0, 1], [0, 1, 2], [0, 1, 2]]


@pytest.mark.real
@each_row("seed", range(4))
@each_row("bodies", ["full", "head"])
def test_a_checkpoint_is_written_only_where_a_record_may_continue(bodies: str, seed: int) -> None:
    """Neither in a gap, nor while a secret is kept back."""
    tap, pages = paged(bodies=bodies)
    player = Player(tap)
    rng = random.Random(seed)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 30, (keys.METADATA, keys.SASL_AUTHENTICATE)), 40)
    conversation = player.open(talk)
    line = tap._recorders[1]
    said = 0
    for number, chunk in enumerate(talk.chunks):
        tap._limit = -1 if number % 50 > 45 else 1 << 40
        pages.segment += 1
        player.play(1, chunk)
        may_go_on = line.is_settled and conversation.boundary_state() is not None
        assert (line.checkpoint_segment == pages.segment) == may_go_on
        said += may_go_on
    assert 10 < said == len(checkpoints(pages)) < len(talk.chunks)
    for item in pages.queue:
        if item[KIND] == EntryKind.CHECKPOINT:
            told = decoded(Entry(*item))
            assert told["opened"]["client"] == talk.client
            assert told["state"]["requests"]["bytes_left"] == told["state"]["responses"]["bytes_left"] == 0


def test_a_connection_with_too_many_requests_in_flight_waits_for_a_quieter_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recorder.capture.tap.MAX_SAVED_REQUESTS", 2)
    tap, pages = paged()
    player = Player(tap)
    player.open(Talk(1, []))
    asked = [traffic.call(random.Random(1), keys.HEARTBEAT, number, "c") for number in range(3)]
    pages.segment += 1
    for call in asked[1:]:
        player.play(1, traffic.Chunk(Direction.REQUEST, call.request, 10))
    assert checkpoints(pages) == [1]
    pages.segment += 1
    player.play(1, traffic.Chunk(Direction.REQUEST, asked[0].request, 11))
    assert checkpoints(pages) == [1]
    player.play(1, traffic.Chunk(Direction.RESPONSE, asked[1].answer or b"", 12))
    assert checkpoints(pages) == [1, 1]
