"""Tests of throughput and latency by second."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise

import pytest

from recorder.page.series import KEPT_SECONDS, Series, Step
from recorder.query.syntax import EVERYTHING
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from recorder.reading.passing import Judge
from tests.recorder.page.traffic import fetch, heartbeat, produce

JUDGE = Judge(EVERYTHING, Told())
SECOND = 10**9


def series(*pairs: Pair) -> Series:
    made = Series()
    for pair in pairs:
        made.add(pair, JUDGE.head(pair))
    return made


def steps(made: Series, seconds: int, most: int) -> list[Step]:
    return [*made.steps(seconds, most, made.last_ns)]


def test_rates_are_a_second_and_steps_end_with_the_newest_exchange() -> None:
    pairs = [heartbeat(number, second=number // 4) for number in range(40)]
    found = steps(series(*pairs), 10, 5)
    assert [step.exchanges for step in found] == [4.0] * 5
    assert [later.at_ms - step.at_ms for step, later in pairwise(found)] == [2000] * 4
    sizes = sum(pair.request["size"] for pair in pairs if pair.request)
    assert sum(step.sent for step in found) * 2 == pytest.approx(sizes)


@pytest.mark.parametrize("seconds", [60, 300, 900, 3600])
def test_steps_reach_back_as_far_as_was_asked(seconds: int) -> None:
    found = steps(series(heartbeat(1, second=10_000)), seconds, 120)
    width = (found[1].at_ms - found[0].at_ms) // 1000
    assert seconds <= len(found) * width < seconds + width
    assert len(found) <= 120


def test_errors_are_those_that_are_no_normal_step() -> None:
    # a member that is told to join again is a normal step of a rebalance
    found = steps(series(produce(1, code=3, second=1), heartbeat(2, code=27, second=1)), 1, 1)
    assert found[0].errors == 1


def test_percentiles_are_right_to_nine_percent() -> None:
    latencies = [1_000_000 * number for number in range(1, 101)]
    made = Series()
    for number, latency in enumerate(latencies):
        pair = heartbeat(number, second=1)
        made.add(pair, JUDGE.head(pair) | {"latency": latency})
    (step,) = steps(made, 1, 1)
    assert step.p50_ms == pytest.approx(50, rel=0.09)
    assert step.p99_ms == pytest.approx(99, rel=0.09)


def test_a_long_poll_that_may_have_waited_has_no_part_in_the_latency() -> None:
    (step,) = steps(series(fetch(1, "orders", 3, second=1, latency_ns=500_000_000)), 1, 1)
    assert (step.exchanges, step.p50_ms) == (1, None)


def test_only_the_last_hour_is_kept() -> None:
    pairs = [heartbeat(number, second=number * 10) for number in range(KEPT_SECONDS // 5)]
    (step,) = steps(series(*pairs, heartbeat(1, second=3)), KEPT_SECONDS * 3, 1)
    assert step.exchanges * KEPT_SECONDS * 3 == pytest.approx(KEPT_SECONDS / 10)


def test_a_chart_is_drawn_while_exchanges_are_counted() -> None:
    made, interval = Series(), sys.getswitchinterval()
    pairs = [heartbeat(number, second=number) for number in range(60)]
    heads = [JUDGE.head(pair) for pair in pairs]

    def feed() -> None:
        for pair, head in zip(pairs, heads, strict=True):
            for octave in range(300):
                made.add(pair, head | {"latency": int(2 ** (octave / 8))})

    feeding = threading.Thread(target=feed)
    sys.setswitchinterval(1e-6)
    try:
        feeding.start()
        while feeding.is_alive():
            steps(made, 120, 1)
    finally:
        sys.setswitchinterval(interval)
        feeding.join()
    assert steps(made, 120, 1)[0].exchanges * 120 == pytest.approx(60 * 300)
