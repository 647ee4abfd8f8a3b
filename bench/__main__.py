"""`python -m bench`: every load through every way, interleaved, as ratios. See README.md for how to read it."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench import kroxylicious, loads, real, report, spool, sustained, workers
from bench.console import options, say, say_machine
from bench.contenders import ALL_KROXYLICIOUS, RECORDING, Contender, all_ways, fake_cluster
from bench.loads import LOADS, Load, Sample, Target
from bench.processes import Programs

Rounds = dict[str, list[Sample]]
# what is measured of a way in a round
Measured = TypeVar("Measured")

# how often Kroxylicious runs each load at most before anything is measured
MAX_WARM_UPS = 6
SPOOL_ROUNDS = 3
# Fetch 16+ is recorded as Fetch is
SUSTAINED = ("burst", "produce", "fetch")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    begun = time.monotonic()
    say_machine()
    say(f"{asked.rounds} rounds, each load {asked.seconds} s; medians, and ratios with their range over the rounds")
    asked.java = not asked.no_java and _has_kroxylicious()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-", dir=asked.folder) as folder:
        measured = bench(Path(folder), asked)
    if not asked.no_workers:
        say("\nsmall exchanges from many connections: two workers against one process")
        workers.main(["--rounds", str(asked.rounds), "--seconds", str(asked.seconds), "--connections", "8"])
    say("\n" + summary(measured))
    say(f"\nit took {(time.monotonic() - begun) / 60:.1f} minutes")
    if asked.json:
        asked.json.write_text(json.dumps({"machine": report.machine(), "rounds": measured}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    names = [load.name for load in (*LOADS, *real.REAL_LOADS)]
    parser = options("bench", __doc__, rounds=5, seconds=0.5)
    parser.add_argument("--sustained", type=float, default=4, help="seconds of sustained recording; 0: none")
    parser.add_argument("--only", nargs="*", choices=names, default=names, help="these loads (default: all)")
    parser.add_argument("--no-record", action="store_true", help="leave recording out")
    parser.add_argument("--no-kafka", action="store_true", help="leave the real broker out (it needs Java)")
    parser.add_argument("--no-java", action="store_true", help="leave Kroxylicious out")
    parser.add_argument("--no-workers", action="store_true", help="leave the workers out")
    parser.add_argument(
        "--folder", type=Path, help="where to record; a disk with some 20 GB free (default: the temporary one)"
    )
    parser.add_argument("--json", type=Path, help="write every round's numbers there")
    return parser


def _has_kroxylicious() -> bool:
    try:
        kroxylicious.jars()
    except RuntimeError as error:
        say(f"Kroxylicious {kroxylicious.VERSION} can't be had, so nothing is compared with it: {error}\n")
        return False
    say(f"Kroxylicious {kroxylicious.VERSION}, Maven Central's newest: warmed up, with and without metrics\n")
    return True


def bench(folder: Path, asked: argparse.Namespace) -> dict[str, Rounds]:
    """Measures and prints what was asked for; returns load -> way -> a sample a round."""
    chosen = [load for load in LOADS if load.name in asked.only]
    measured: dict[str, Rounds] = {}
    with fake_cluster(folder) as (programs, upstream):
        if chosen:
            measured |= fake_broker(programs, upstream, folder, chosen, asked)
        if asked.sustained and not asked.no_record:
            measured |= recording(programs, upstream, folder, chosen, asked)
    if not asked.no_kafka:
        measured |= real_broker(programs, folder, asked)
    return measured


def fake_broker(
    programs: Programs, upstream: str, folder: Path, chosen: Sequence[Load], asked: argparse.Namespace
) -> dict[str, Rounds]:
    measured: dict[str, Rounds] = {}
    with all_ways(upstream, folder, recording=not asked.no_record, java=asked.java) as ways:
        for load in chosen:
            # longer than what is measured: a short one hardly gets faster from one run to the next
            warm_up(ways, partial(measure, programs, load, 3 * asked.seconds), load.is_time)
            values = interleaved(ways, asked.rounds, partial(measure, programs, load, asked.seconds))
            measured[load.name] = values
            say(report.table(load.title, values, load.is_time, load.targets) + "\n")
        say(dropped(ways))
    return measured


def summary(measured: Mapping[str, report.Rounds]) -> str:
    """Every target and aim of the loads that were measured, and whether it is reached."""
    judged: list[tuple[str, str, bool, tuple[Target, ...]]] = [
        *((load.name, load.title, load.is_time, load.targets) for load in (*LOADS, *real.REAL_LOADS)),
        ("spool", spool.TITLE, False, spool.TARGETS),
    ]
    lines = ["All targets and aims, by the medians above:"]
    for name, title, is_time, targets in judged:
        if verdicts := report.verdicts(measured.get(name, {}), is_time, targets):
            lines += [f"  {title}", *("    " + verdict for verdict in verdicts)]
    return "\n".join(lines)


def measure(programs: Programs, load: Load, seconds: float, way: Contender) -> Sample:
    return load.value(loads.run(programs.load, load, way, seconds))


def warm_up(ways: Sequence[Contender], measure: Callable[[Contender], Sample], is_time: bool) -> None:
    """Has Kroxylicious run a load until it gets no faster: its code is compiled then."""
    for way in ways:
        if way.name in ALL_KROXYLICIOUS:
            best = 0.0
            for _ in range(MAX_WARM_UPS):
                value = measure(way).value
                speed = 1 / value if is_time else value
                if speed < 1.1 * best:
                    break
                best = speed


def recording(
    programs: Programs, upstream: str, folder: Path, chosen: Sequence[Load], asked: argparse.Namespace
) -> dict[str, Rounds]:
    """Longer than a burst: as fast as the disk takes it, and with the compactor beside it."""
    values: Rounds = {spool.DISK: [], RECORDING: []}
    for number in range(SPOOL_ROUNDS):
        mine = spool.recorded(programs.load, upstream, folder / f"spool-{number}", 2 * asked.seconds)
        values[RECORDING].append(Sample(mine.rate))
        values[spool.DISK].append(Sample(spool.copied(folder, mine.size).rate))
    say(report.table(spool.TITLE, values, targets=spool.TARGETS) + "\n")
    say(f"sustained recording for {asked.sustained} s, the compactor beside it")
    for load in chosen:
        if load.name in SUSTAINED:
            where = folder / f"sustained-{load.name}"
            say(sustained.measure(programs.load, load, upstream, where, asked.sustained).line())
    return {"spool": values}


def real_broker(programs: Programs, folder: Path, asked: argparse.Namespace) -> dict[str, Rounds]:
    where = folder / "real"
    where.mkdir()
    measured: dict[str, Rounds] = {}
    chosen = [load for load in real.REAL_LOADS if load.name in asked.only]
    options = {"recording": not asked.no_record, "java": asked.java}
    with real.broker(where, programs.load, asked.seconds, **options) as broker:
        for load in chosen:
            warm_up(broker.ways, partial(load.measure, broker), load.is_time)
            values = interleaved(broker.ways, load.rounds(asked.rounds), partial(load.measure, broker))
            measured[load.name] = values
            say("\n" + report.table(load.title, values, load.is_time, load.targets))
        say(dropped(broker.ways))
    return measured


def interleaved(
    ways: Sequence[Contender], rounds: int, measure: Callable[[Contender], Measured]
) -> dict[str, list[Measured]]:
    """Every way once a round, each round beginning with another one."""
    values: dict[str, list[Measured]] = {way.name: [] for way in ways}
    for number in range(rounds):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            values[way.name].append(measure(way))
            way.settle()
    return values


def dropped(ways: Sequence[Contender]) -> str:
    lost = {way.name: way.metrics()["recorder_dropped_bytes_total"] for way in ways if way.name == RECORDING}
    return "".join(f"{name}: {count / 1e6:,.0f} MB were not recorded\n" for name, count in lost.items())


if __name__ == "__main__":
    sys.exit(main())
