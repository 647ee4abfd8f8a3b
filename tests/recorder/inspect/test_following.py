"""Tests of `inspect … --follow` from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result

from proxy.conversation.exchange import Direction
from proxy.wire import catalog, keys, records
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.inspect.commands import inspect
from tests.brokers import children
from tests.brokers.waiting import PATIENCE
from tests.faults.live import ROOT
from tests.recorder.capture import traffic
from tests.recorder.capture.traffic import Chunk, Player, Talk


@contextmanager
def recording(folder: Path) -> Iterator[tuple[Tap, Player]]:
    """A proxy's recorder with an open connection."""
    tap = open_tap(folder, RecordSettings(), "s")
    player = Player(tap)
    player.open(Talk(1, []))
    try:
        yield tap, player
    finally:
        tap.close()


def exchanged(tap: Tap, player: Player, request: bytes, answer: bytes, at_ns: int) -> None:
    player.play(1, Chunk(Direction.REQUEST, traffic.framed(request), at_ns))
    player.play(1, Chunk(Direction.RESPONSE, traffic.framed(answer), at_ns + 1))
    tap.flush()


def beat(tap: Tap, player: Player, number: int, code: int = 0) -> None:
    asked = catalog.encode_request(keys.HEARTBEAT, 4, number, "app", {"group_id": "g"})
    told = catalog.encode_response(keys.HEARTBEAT, 4, number, {"error_code": code})
    exchanged(tap, player, asked, told, number * 1000)


def produce(tap: Tap, player: Player, number: int, value: bytes) -> None:
    batch = records.write_batch([records.Record(0, 1_000, b"k", value)])
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch}]}]
    asked = catalog.encode_request(keys.PRODUCE, 9, number, "app", {"acks": 1, "topic_data": data})
    told = [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": number}]}]
    exchanged(tap, player, asked, catalog.encode_response(keys.PRODUCE, 9, number, {"responses": told}), number * 1000)


def run(monkeypatch: pytest.MonkeyPatch, each_pause: Callable[[], object], *arguments: object) -> Result:
    """Runs a command, which does this in place of each pause between two looks."""
    with monkeypatch.context() as patched:
        patched.setattr("recorder.inspect.following.time.sleep", lambda seconds: each_pause())
        return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


def ids(result: Result) -> list[str]:
    return [json.loads(line)["id"] for line in result.stdout.splitlines()]


def test_frames_and_exchanges_are_shown_as_they_come_the_last_ones_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recording(tmp_path) as (tap, player):
        for number in range(4):
            beat(tap, player, number)
        numbers = iter(range(4, 100))

        def more() -> None:
            beat(tap, player, next(numbers))

        ended = run(monkeypatch, more, "exchanges", tmp_path, "--follow", "--json", "--limit", 3)
        assert (ended.exit_code, ids(ended)) == (0, ["s/1/e4", "s/1/e5", "s/1/e6"])
        ended = run(monkeypatch, more, "frames", tmp_path, "--follow", "--json", "--limit", 3, "--kind", "response")
        assert ids(ended) == ["s/1/15", "s/1/17", "s/1/19"]
        ended = run(monkeypatch, stopping(3, more), "exchanges", tmp_path, "-f", "--json", "--last", 2)
        assert ids(ended) == ["s/1/e8", "s/1/e9", "s/1/e10", "s/1/e11"]


class Stopped(Exception):
    """A test has seen enough."""


def stopping(times: int, more: Callable[[], None]) -> Callable[[], None]:
    """What runs in each pause, and ends the command in the last one."""
    left = iter(range(times - 1, -1, -1))

    def pause() -> None:
        if not next(left):
            raise Stopped
        more()

    return pause


def test_columns_and_filters_are_those_of_any_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording(tmp_path) as (tap, player):
        numbers = iter(range(100))

        def more() -> None:
            produce(tap, player, next(numbers), b"v")
            beat(tap, player, next(numbers), 27)

        wanted = ("exchanges", tmp_path, 'topic == orders and value == "v"', "--follow", "-o", "api,topic,offset")
        csv = run(monkeypatch, more, *wanted, "--csv", "--limit", 2)
        assert csv.stdout.splitlines() == ["api,topic,offset", "Produce,orders,0", "Produce,orders,2"]
        table = run(monkeypatch, more, "errors", tmp_path, "--follow", "--all-errors", "--limit", 1)
        assert table.stdout.splitlines()[1].split()[2:] == ["Heartbeat", "app", "REBALANCE_IN_PROGRESS,", "group", "g"]
        (line,) = run(monkeypatch, more, "errors", tmp_path, "-f", "--json", "--all-errors", "--limit", 1).stdout.split(
            "\n"
        )[:-1]
        told = json.loads(line)
        assert (told["error"], told["group"], told["times"]) == ("REBALANCE_IN_PROGRESS", "g", 1)


def test_records_are_shown_when_they_are_produced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording(tmp_path) as (tap, player):
        numbers = iter(range(100))

        def more() -> None:
            number = next(numbers)
            produce(tap, player, number, b"%d" % number)

        found = run(monkeypatch, more, "records", tmp_path, "--follow", "--grep", "[13]", "--json", "--limit", 2)
        told = [json.loads(line) for line in found.stdout.splitlines()]
        assert [(one["offset"], one["value"], one["produced"]["client_id"]) for one in told] == [
            (1, "1", "app"),
            (3, "3", "app"),
        ]
        lines = run(monkeypatch, more, "records", tmp_path, "--follow", "--limit", 1).stdout.splitlines()
        assert lines[0] == "orders-0 offset 4, key k, value 4"
        # its fetches may come, so nothing is said of them
        assert len(lines) == 2


@pytest.mark.parametrize("order", [("--slowest", "3"), ("--largest", "3"), ("--sort", "latency")])
def test_a_list_without_an_end_has_no_order(tmp_path: Path, order: tuple[str, str]) -> None:
    with recording(tmp_path):
        result = CliRunner().invoke(inspect, ["exchanges", str(tmp_path), "--follow", *order])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"Error: {order[0]} orders a whole list, which has no end with --follow: right is one of both"
    )


def test_a_folder_that_vanishes_ends_the_command_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "capture"
    with recording(folder):
        result = run(monkeypatch, lambda: folder.rename(tmp_path / "away"), "frames", folder, "--follow", "--json")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {folder} has gone\n"


@contextmanager
def running(*arguments: object, **more: Any) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    program = [sys.executable, "-c", "from proxy.cli import main; main()", "inspect"]
    child, _, said = children.spoken_with([*program, *map(str, arguments)], cwd=ROOT, **more)
    try:
        yield child, said
    finally:
        children.stop(child)
        children.close_pipes(child)


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_word(tmp_path: Path, number: signal.Signals) -> None:
    with recording(tmp_path) as (tap, player):
        beat(tap, player, 0)
        errors = tmp_path / "errors"
        with (
            errors.open("w") as file,
            running("exchanges", tmp_path, "-f", "--last", 1, "--json", stderr=file) as (child, said),
        ):
            assert json.loads(said.readline())["id"] == "s/1/e0"
            child.send_signal(number)
            assert child.wait(PATIENCE) == -number
        assert errors.read_text() == ""


@pytest.mark.real
def test_a_reader_that_has_gone_ends_it_although_nothing_comes(tmp_path: Path) -> None:
    with recording(tmp_path) as (tap, player):
        beat(tap, player, 0)
        with running("exchanges", tmp_path, "-f", "--last", 1, "--json") as (child, said):
            assert said.readline()
            said.close()
            assert child.wait(PATIENCE) == -signal.SIGPIPE
