"""Tests of the bench of neighbours, at its smallest size."""

import re

import pytest

from bench import neighbours
from bench.neighbours import FLOODS, Waited


def test_the_longest_wait_and_that_of_99_in_100_are_milliseconds() -> None:
    waited = Waited.of([0.001] * 199 + [0.5])
    assert waited.longest == 500
    assert 1 <= waited.percentile_99 < 500
    assert waited.middle == 1


def test_a_flood_has_as_many_frames_as_fit_its_size() -> None:
    flood = FLOODS[0]
    assert flood.data(100) == b"".join(flood.frame(number) for number in range(100 // len(flood.frame(0))))


@pytest.mark.real
@pytest.mark.long
def test_a_client_beside_a_flood_is_measured_with_and_without_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert neighbours.main(["--rounds", "1", "--connections", "1", "--kib", "16", "--only", "0.7"]) == 0
    told = capsys.readouterr().out
    for label in ("nobody", "fetches of Kafka 0.7", "nobody, recording", "fetches of Kafka 0.7, recording"):
        assert re.search(rf"^{label} +\d+\.\d +\d+\.\d\d +\d+\.\d{{3}}$", told, re.MULTILINE)
