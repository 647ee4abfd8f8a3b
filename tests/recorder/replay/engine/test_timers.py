"""Tests of timed calls against a list that is sorted each time."""

from __future__ import annotations

import gc
import weakref
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import LIST_OFFSETS, METADATA
from recorder.replay.engine.timers import Timer, Timers
from recorder.replay.options import Options
from tests.recorder.replay.simple import LIST_VERSION, list_answer, listed
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, one_node

SECOND = 10**9


@given(st.lists(st.one_of(st.integers(0, 9), st.tuples(st.just("cancel"), st.integers(0, 30))), max_size=200))
def test_calls_come_in_their_order_and_cancelled_ones_never(script: list[int | tuple[str, int]]) -> None:
    timers, made, called = Timers(), list[Timer](), list[int]()
    expected: dict[int, int] = {}

    def note(number: int, _: int) -> None:
        called.append(number)

    for step in script:
        if isinstance(step, int):
            number = len(made)
            expected[number] = step
            made.append(timers.at(step, partial(note, number)))
        elif made:
            timers.cancel(made[step[1] % len(made)])
            expected.pop(step[1] % len(made), None)
    assert timers.next_at == min(expected.values(), default=None)
    timers.run(9)
    assert called == sorted(expected, key=lambda number: (expected[number], number))
    assert not len(timers)


def test_a_cancelled_timer_is_released() -> None:
    class Held:
        def called(self, _: int) -> None: ...

    timers, held = Timers(), Held()
    alive = weakref.ref(held)
    timers.cancel(timers.at(1, held.called))
    del held
    gc.collect()
    assert alive() is None
    for _ in range(10_000):
        timers.cancel(timers.at(60 * SECOND, lambda _: None))
        assert len(timers) < 200


def test_requests_that_have_waited_and_made_ones_that_were_answered_leave_no_timers_until_wait_is_over() -> None:
    recording = Recording()
    count = 500
    for number in range(count):
        # a response comes after the next request is due, so each request waits for its deadline or its connection
        recording.exchanges(10 * number, 1, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())

    def answer(got: Got) -> Answer:
        if got.key == METADATA:
            topic = {"error_code": 0, "name": "a", "partitions": [{"partition_index": 0, "leader_id": 1}]}
            return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092}], "topics": [topic]}
        # every second error is transient, so the leaders are queried again
        return list_answer(code=6 if len(found.asked(LIST_OFFSETS)) % 2 else 0)

    found = Simulation(recording, answer, Options(wait=600 * SECOND), cluster=one_node(("a", 1)), delay=lambda _: 12.0)
    found.run(until=60_000)
    assert len(found.asked(METADATA)) > 100
    assert len(found.engine._play.timers) < 100
