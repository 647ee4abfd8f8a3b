"""What facts cost, and what they spare `inspect`: a capture is recorded, compacted, and asked an operator's questions.

    compacting   processor seconds of `kafka-wiretap compact` over the recorded log
    facts        those of `kafka-wiretap facts` over the frames, as a ratio; the size of facts against that of Parquet
    questions    seconds of each command of docs/inspect.md that the plain installation answers: with facts, and where
                 they are missing at first

`python -m bench.facts --megabytes N`. The traffic is that of `bench.spark_captures.mixed`: ten topics, records of a
kilobyte. The tap records it as it would in a proxy. What a command takes that finds nothing to do is no cost of the
work, and taken off. Processor time of children hardly depends on what else runs; seconds by the clock do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.console import say
from bench.contenders import KAFKA_WIRETAP
from bench.spark_captures import CONNECTIONS, Mixture, exchanges, key_of, topic_of
from proxy.conversation.exchange import Direction
from recorder.capture import frames as c
from recorder.capture.partitions import FACTS_FOLDER
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture.traffic import Chunk, Player, Talk, framed

MIXTURE = Mixture(records=2, value=1000, topics=10, refused_every=97)
# exchanges of all connections between two looks at whether the log's writer keeps up
_AT_ONCE = 1000
_CONNECTION = 33
_TOPIC = topic_of(_CONNECTION, MIXTURE.topics)
QUESTIONS = {
    "who produces to a topic": ("topics", "--topic", _TOPIC, "--api", "Produce"),
    "the slowest Produce of a minute": (
        *("exchanges", "--api", "Produce", "--since", "-30m", "--until", "-29m", "--slowest", "1"),
    ),
    "the record with a key": ("records", "--topic", _TOPIC, "--key", key_of(_CONNECTION, 100).decode()),
    "a client's errors by partition": ("errors", "--client", f"client-{_CONNECTION}"),
    "clients that are too old": ("clients",),
}


class Spent(NamedTuple):
    """What a command took: seconds by the clock, and of a processor."""

    seconds: float
    processor: float


def main(arguments: list[str]) -> None:
    """Prints all measures."""
    parser = argparse.ArgumentParser(prog="python -m bench.facts", description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=54, help="megabytes of frames (default 54)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as place:
        capture = record(Path(place) / "capture", asked.megabytes)
        compacting = _work("compact", capture)
        plain = Path(place) / "plain"
        shutil.copytree(capture, plain)
        making = _work("facts", capture, "--processes", "1")
        say(f"{asked.megabytes} MB of frames: compacting takes {compacting:.1f} s of a processor")
        say(f"making facts: {making:.1f} s, {making / compacting:.2f} times compacting")
        sizes = {name: _size(capture / name) for name in (c.FRAMES_FOLDER, FACTS_FOLDER)}
        share = sizes[FACTS_FOLDER] / sizes[c.FRAMES_FOLDER]
        say(f"facts: {sizes['facts'] / 1e6:.2f} MB, {share:.3f} times the frames' Parquet")
        for question, (command, *options) in QUESTIONS.items():
            # a question about all of a capture makes the facts
            shutil.rmtree(plain / FACTS_FOLDER, ignore_errors=True)
            told, twin = (_spent("inspect", command, str(folder), *options) for folder in (capture, plain))
            print(
                f"{question}: {told.seconds:.1f} s ({told.processor:.1f} of a processor), "
                f"where facts are missing {twin.seconds:.1f} ({twin.processor:.1f})",
                flush=True,
            )


def record(folder: Path, megabytes: int) -> Path:
    """Records about so many megabytes of frames into a capture, and leaves them to the compactor."""
    tap = open_tap(folder, RecordSettings(cluster="main", queue=1 << 30))
    player = Player(tap)
    for connection in range(CONNECTIONS):
        player.open(Talk(connection, [], client=f"10.0.0.{connection}:5000"))
    for number, (connection, chunk) in enumerate(_chunks(megabytes)):
        player.play(connection, chunk)
        if number % _AT_ONCE == 0:
            tap.flush()
    for connection in range(CONNECTIONS):
        player.close(connection)
    tap.close()
    return folder


def _chunks(megabytes: int) -> Iterator[tuple[int, Chunk]]:
    for pair in exchanges(megabytes, MIXTURE):
        for row in pair:
            direction = Direction.RESPONSE if row[c.KIND] == c.RESPONSE else Direction.REQUEST
            yield row[c.CONNECTION], Chunk(direction, framed(row[c.FRAME]), row[c.AT_NS])


def _work(command: str, capture: Path, *options: str) -> float:
    """Processor seconds of a command over a capture, without those that it takes where nothing is left to do."""
    first, second = (_spent(command, str(capture), *options) for _ in range(2))
    return first.processor - second.processor


def _spent(*arguments: str) -> Spent:
    """Runs a command of kafka-wiretap to its end. Errors: CalledProcessError."""
    began, before = perf_counter(), os.times()
    subprocess.run([*KAFKA_WIRETAP, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Spent(perf_counter() - began, used)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


if __name__ == "__main__":
    main(sys.argv[1:])
