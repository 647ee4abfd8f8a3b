"""`python -m bench`: every load through every way, interleaved, as ratios. See README.md for how to read it."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import consumer, loads, report, sustained
from bench.contenders import LISTENING, RECORDING, Contender, all_ways
from bench.loads import LOADS, Load, Sample
from bench.processes import Programs, build, running

Rounds = dict[str, list[Sample]]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    chosen = [load for load in LOADS if not asked.only or load.name in asked.only]
    say("machine: " + report.machine())
    say(f"{asked.rounds} rounds, each load {asked.seconds} s; medians, and ratios with their range over the rounds\n")
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-", dir=asked.folder) as folder:
        measured = bench(Path(folder), chosen, asked)
    if asked.json:
        asked.json.write_text(json.dumps({"machine": report.machine(), "rounds": measured}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each load runs in a round (default 0.5)")
    parser.add_argument("--sustained", type=float, default=10, help="seconds of sustained recording; 0: none")
    parser.add_argument("--only", nargs="*", choices=[load.name for load in LOADS], help="these loads (default: all)")
    parser.add_argument("--no-record", action="store_true", help="leave recording out")
    parser.add_argument("--no-kafka", action="store_true", help="leave ConsumerPerformance out (it needs Java)")
    parser.add_argument(
        "--folder", type=Path, help="where to record; a disk with some 20 GB free (default: the temporary one)"
    )
    parser.add_argument("--json", type=Path, help="write every round's numbers there")
    return parser


def bench(folder: Path, chosen: Sequence[Load], asked: argparse.Namespace) -> dict[str, Rounds]:
    """Measures and prints what was asked for; returns load -> way -> a sample a round."""
    programs = build(folder)
    with running([programs.broker], folder / "broker.log", LISTENING) as child:
        upstream = f"{child.said[1]}:{child.said[2]}"
        measured = fake_broker(programs, upstream, folder, chosen, asked)
        if asked.sustained and not asked.no_record:
            say("sustained recording, the compactor beside it")
            for load in chosen:
                if not load.is_time:
                    where = folder / f"sustained-{load.name}"
                    say(sustained.measure(programs.load, load, upstream, where, asked.sustained).line())
    if not asked.no_kafka:
        measured["ConsumerPerformance"] = real_broker(folder, asked)
    return measured


def fake_broker(
    programs: Programs, upstream: str, folder: Path, chosen: Sequence[Load], asked: argparse.Namespace
) -> dict[str, Rounds]:
    measured: dict[str, Rounds] = {}
    with all_ways(upstream, folder, recording=not asked.no_record) as ways:
        for load in chosen:
            values = interleaved(
                ways,
                asked.rounds,
                lambda way, load=load: load.value(loads.run(programs.load, load, way, asked.seconds)),
            )
            measured[load.name] = values
            say(report.table(load.title, values, load.is_time, dict(load.targets)) + "\n")
        say(dropped(ways))
    return measured


def real_broker(folder: Path, asked: argparse.Namespace) -> Rounds:
    where = folder / "consumer"
    where.mkdir()
    with consumer.ways(where, recording=not asked.no_record) as (cluster, ways):
        values = interleaved(ways, asked.rounds, lambda way: consumer.megabytes_per_second(cluster, way))
        say(report.table("ConsumerPerformance from a real broker, MB a second", values) + "\n")
        say(dropped(ways))
    return values


def interleaved(ways: Sequence[Contender], rounds: int, measure: Callable[[Contender], Sample]) -> Rounds:
    """Every way once a round, each round beginning with another one."""
    values: Rounds = {way.name: [] for way in ways}
    for number in range(rounds):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            values[way.name].append(measure(way))
            way.settle()
    return values


def dropped(ways: Sequence[Contender]) -> str:
    lost = {way.name: way.metrics()["recorder_dropped_bytes_total"] for way in ways if way.name == RECORDING}
    return "".join(f"{name}: {count / 1e6:,.0f} MB were not recorded\n" for name, count in lost.items())


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
