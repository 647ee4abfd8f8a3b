"""Tests of the bench of hostile floods, at its smallest size."""

import pytest

from bench import floods
from bench.floods import Cost, line
from tests.recorder.capture.floods import FLOODS, Flood

PLAIN, ONCE = Cost(1.0, 2.0), Cost(2.0, 8.0)


def test_ratios_to_plain_frames_and_memory_growth_are_given_for_proxy_and_compactor() -> None:
    told = line("tokens", [(PLAIN, ONCE, Cost(8.0, 32.0))], 1_000_000_000).split()
    assert told == ["tokens", "2", "2.0", "8", "4.0", "4.0", "reached"]


def test_work_that_grows_as_the_square_of_the_bytes_is_missed() -> None:
    assert line("tokens", [(PLAIN, ONCE, Cost(32.0, 128.0))], 1).endswith(" 16.0 MISSED")


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_any_size_is_about_that_large(flood: Flood) -> None:
    assert 9_000 < len(flood.sized(10_000)) < 11_000


def test_a_flood_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert floods.main(["--rounds", "1", "--kib", "1", "--only", "unknown"]) == 0
    assert "unknown " in capsys.readouterr().out
