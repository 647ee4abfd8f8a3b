"""Tests of long polls: how long the target may keep an empty one waiting, and when it leaves."""

from __future__ import annotations

import pytest

from proxy.wire.keys import FETCH
from recorder.replay.options import Options
from recorder.replay.outcome import Verdict
from tests.recorder.replay.engine.reads_and_writes import played, reads, writes
from tests.recorder.replay.simple import FETCH_VERSION, answered, batch, fetch, fetched
from tests.recorder.replay.simulation import Got, Recording


def poll(recording: Recording, at: float, connection: int, *, took: float, wait_ms: int = 30_000) -> None:
    exchange = recording.asks(at, connection, FETCH, FETCH_VERSION, fetch(wait_ms=wait_ms))
    recording.answers(at + took, exchange, fetched())


@pytest.mark.parametrize(("speed", "waits"), [(None, 0), (1.0, 1500), (10.0, 150)], ids=["max", "once", "ten"])
def test_an_empty_poll_waits_as_long_as_the_recorded_one_did_by_speed(speed: float | None, waits: int) -> None:
    recording = Recording()
    poll(recording, 0, 1, took=1500)
    (got,) = played(recording, Options(speed=speed)).asked(FETCH)
    assert got.values["max_wait_ms"] == waits


def test_a_poll_waits_no_longer_than_its_client_requested() -> None:
    recording = Recording()
    poll(recording, 0, 1, took=1500, wait_ms=500)
    (got,) = played(recording, Options()).asked(FETCH)
    assert got.values["max_wait_ms"] == 500


def test_an_empty_poll_that_leaves_late_waits_until_its_recorded_answer_is_due() -> None:
    recording = Recording()
    for at in (0, 1100, 2200, 3300):
        poll(recording, at, 1, took=1000)
    slow = iter([2300.0])
    found = played(recording, Options(), delay=lambda got: next(slow, got.values["max_wait_ms"]))
    assert [(got.at, got.values["max_wait_ms"]) for got in found.asked(FETCH)[:4]] == [
        (0, 1000),
        (2300, 0),
        (2300, 900),
        (3300, 1000),
    ]


def test_a_poll_whose_records_are_owed_waits_as_recorded() -> None:
    recording = Recording()
    writes(recording, 0, 2)
    exchange = recording.asks(5, 1, FETCH, FETCH_VERSION, fetch(wait_ms=700))
    recording.answers(10, exchange, fetched(data=batch(b"v")))

    def answer(got: Got) -> object:
        return fetched(data=batch(b"v")) if got.key == FETCH and got.values["topics"] else answered(got)

    found = played(recording, answer=answer)
    assert found.asked(FETCH)[0].values["max_wait_ms"] == 700
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_poll_leaves_when_its_recorded_answer_was_read_or_is_too_far_ahead() -> None:
    recording = Recording()
    poll(recording, 0, 1, took=20_000)
    poll(recording, 10, 2, took=100)
    reads(recording, 8_000, 3)
    found = played(recording, Options())
    waits = {got.client_id: got.values["max_wait_ms"] for got in found.asked(FETCH)}
    assert waits == {"connection-1": 30_000, "connection-2": 100}
    assert found.times(FETCH)[:2] == [0, 10]
