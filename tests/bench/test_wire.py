"""Tests of the bench's output; no test asserts speed."""

import pytest

from bench import records, wire
from bench.wire import PARTS, main, whole_message
from bench.wire_messages import messages
from bench.wire_rounds import Rounds

pytestmark = pytest.mark.real

QUICK = ["--rounds", "1", "--seconds", "0.0001"]


@pytest.mark.long
def test_every_message_has_a_line_for_each_direction(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--only", "messages"]) == 0
    said = capsys.readouterr().out
    for message in messages():
        assert f"decode {message.name}" in said
        assert f"encode {message.name}" in said


@pytest.mark.parametrize("part", ["projection", "heads", "imports", "first-use", "encodings"])
def test_every_part_of_the_bench_prints_results(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--only", part]) == 0
    machine, how, _, *lines = capsys.readouterr().out.splitlines()
    assert machine.startswith("machine: ")
    assert how.startswith("1 rounds")
    assert any(lines)
    assert part in PARTS


def test_records_are_a_part_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests read records; a million in every round would take too long here."""
    level = (1.0, 1.0, 1.0)
    row = records.Row("a load", records.OURS, 500.0, level, level)
    monkeypatch.setattr(records, "rows", lambda rounds: [row] * rounds)
    assert main(["--rounds", "3", "--only", "records"]) == 0
    assert capsys.readouterr().out.count("500.0 ns a record") == 3


@pytest.mark.parametrize(
    ("direction", "kafka_python", "kio", "missed"),
    [
        ("decode", 150.0, 25.0, False),
        ("decode", 149.0, 99.0, True),
        ("decode", 200.0, 24.0, True),
        ("encode", 150.0, 1.0, False),
        ("encode", 140.0, 99.0, True),
    ],
)
def test_an_unreached_target_is_marked(
    direction: str, kafka_python: float, kio: float, missed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own code takes 100 ns."""
    times = {"proxy.wire": (100.0,), "kafka-python": (kafka_python,), "kio": (kio,)}
    monkeypatch.setattr(wire, "measure", lambda *_: Rounds(times))
    assert whole_message(messages()[-2], direction, 1, 0.1).endswith("MISSED") == missed
