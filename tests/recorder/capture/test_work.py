"""Tests that the work of recording and compacting grows in proportion to the bytes, for any peer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.wire import records
from proxy.wire.framing import framed
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture.floods import (
    EVERYTHING,
    FLOODS,
    REQUEST,
    RESPONSE,
    SMALL,
    VENDOR,
    WHOLE,
    Flood,
    Recorded,
    short,
    token,
)
from tests.recorder.capture.record_traffic import produced
from tests.recorder.capture.traffic import Call, Chunk, Player, Talk
from tests.recorder.capture.work import work
from tests.sweeps import mostly_long

# doubled input takes twice the work; quadratic work would be four times as much
MAX_GROWTH = 2.2


@pytest.mark.real
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_requests_take_work_that_grows_as_their_bytes_do(flood: Flood, tmp_path: Path) -> None:
    def run(count: int) -> None:
        recorded = Recorded(flood.settings)
        recorded.feed_all(REQUEST, flood.before, WHOLE)
        recorded.feed_all(REQUEST, flood.make(count), flood.size)
        recorded.compact(tmp_path)

    grows(run, flood.times)


@pytest.mark.real
@pytest.mark.parametrize("size", mostly_long([SMALL, WHOLE], usual=1), ids=["small", "whole"])
@pytest.mark.parametrize("left_out", [False, True], ids=["kept", "left out"])
@pytest.mark.parametrize("asked", [token, lambda n: short(VENDOR, 0, n)], ids=["tokens", "unknown"])
def test_answers_take_work_that_grows_as_their_bytes_do(
    asked: Callable[[int], bytes], size: int, left_out: bool, tmp_path: Path
) -> None:
    def run(count: int) -> None:
        recorded = Recorded(RecordSettings(apis=("!SaslAuthenticate", "!other")) if left_out else EVERYTHING)
        recorded.feed_all(REQUEST, b"".join(map(asked, range(count))), WHOLE)
        answers = (framed(number.to_bytes(4, "big") + b"\0\0\xff\xff\0\0\0\1x") for number in range(count))
        recorded.feed_all(RESPONSE, b"".join(answers), size)
        recorded.compact(tmp_path)

    grows(run, 100)


@pytest.mark.real
def test_bytes_held_back_after_a_secret_take_linear_work(tmp_path: Path) -> None:
    """The client's token is incomplete, and meanwhile the broker's responses arrive in many pieces."""

    def run(count: int) -> None:
        recorded = Recorded()
        recorded.feed_all(REQUEST, b"".join(map(token, range(count))) + token(count)[:-1], WHOLE)
        answers = (framed(number.to_bytes(4, "big") + b"\0\0\xff\xff\0\0\0\1x") for number in range(count))
        recorded.feed_all(RESPONSE, b"".join(answers), SMALL)
        recorded.feed_all(REQUEST, b"x", WHOLE)
        recorded.compact(tmp_path)

    grows(run, 100)


# lines of an exchange beyond those of recording it whole; before most steps were saved, it took 219
MOST_TO_DROP = 90


@pytest.mark.parametrize("version", [9, 11])
def test_to_leave_the_records_out_of_a_produce_like_the_one_before_takes_few_steps(
    version: int, tmp_path: Path
) -> None:
    batch = records.write_batch([records.Record(0, value=b"a value")])
    calls = [produced("orders", version, number, batch, acks=1) for number in range(40)]

    def steps(folder: str, rule: RecordRule) -> int:
        tap = open_tap(tmp_path / folder, RecordSettings(records=rule), "s")
        player = Player(tap)
        player.open(Talk(1, calls))

        def play(some: list[Call]) -> None:
            for call in some:
                player.play(1, Chunk(REQUEST, call.request, 5))
                player.play(1, Chunk(RESPONSE, call.answer or b"", 6))

        play(calls[:20])
        try:
            return work(lambda: play(calls[20:]))
        finally:
            player.close(1)
            tap.close()

    assert steps("dropped", RecordRule.DROP) - steps("whole", RecordRule.KEEP) <= 20 * MOST_TO_DROP


def grows(run: Callable[[int], None], count: int) -> None:
    """Asserts that the work grows in proportion to the count, not faster."""
    # functions that are compiled at their first call don't count
    run(1)
    once, twice, fourfold = (work(lambda count=n: run(count)) for n in (count, 2 * count, 4 * count))  # type: ignore[misc]
    assert fourfold - twice <= MAX_GROWTH * (twice - once)
