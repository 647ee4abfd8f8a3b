"""Tests that the work of recording and compacting grows in proportion to the bytes, for any peer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.wire.framing import framed
from recorder.capture.session import RecordSettings
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


def grows(run: Callable[[int], None], count: int) -> None:
    """Asserts that the work grows in proportion to the count, not faster."""
    # functions that are compiled at their first call don't count
    run(1)
    once, twice, fourfold = (work(lambda count=n: run(count)) for n in (count, 2 * count, 4 * count))  # type: ignore[misc]
    assert fourfold - twice <= MAX_GROWTH * (twice - once)
