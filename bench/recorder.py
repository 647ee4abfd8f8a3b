"""`python -m bench.recorder`: recording small exchanges for long, and what the compactor takes; ratios in one run.

    sustained   small exchanges in bursts of 64 from one connection, for 20 s each round: through a bare relay, through
                a proxy that does not record, and through one that records, with facts and without. Nothing may be
                dropped; the compactor catches up within as long again, with facts within three times as long
    compactor   small frames, and MB of frames of 1 MB, that it makes into Parquet in a second of a processor

The ways of `sustained` take turns, each round beginning with another one. The compactor's numbers are processor time,
which hardly depends on what else runs. Machines differ, so they are also given as ratios to a plain loop, which splits
the same bytes into frames by their lengths and writes the frames as the only column of a Parquet file.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic, process_time
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bench.console import options, say, say_machine
from bench.contenders import PROXY, RECORDING, RELAY, SETTLE_SECONDS, bare_relay, fake_cluster, proxy
from bench.loads import LOADS, run
from bench.processes import Programs
from proxy.conversation.exchange import Direction
from proxy.wire import catalog
from proxy.wire.framing import LENGTH, framed
from proxy.wire.keys import HEARTBEAT, PRODUCE
from recorder.capture.compactor import compact
from recorder.capture.fact_maker import missing
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import open_tap
from tests.brokers.waiting import wait_for
from tests.recorder.capture.traffic import Chunk, Player, Talk

LOAD = next(load for load in LOADS if load.name == "burst")
WITH_FACTS = "proxy, recording with facts"
WITHOUT_FACTS = {"KAFKA_WIRETAP_CAPTURE__FACTS": "false"}
# the least ratio of recording to not recording, and how many times the load's duration catching up may take
LEAST, CATCH_UP, CATCH_UP_WITH_FACTS = 0.8, 1.0, 3.0
# frames and MB a second of a processor
SMALL_FRAMES, LARGE_MB = 400_000, 250.0
BURST = 64
LARGE = 1_000_000


class Recorded(NamedTuple):
    """A load through a recording proxy: exchanges a second, bytes dropped, seconds until all was caught up."""

    per_second: float
    dropped: float
    catch_up: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints all measures."""
    parser = options("bench.recorder", __doc__, rounds=3, seconds=20)
    parser.add_argument("--only", choices=("sustained", "compactor"), help="one part (default: both)")
    parser.add_argument("--folder", type=Path, help="where to record (default: the temporary folder)")
    asked = parser.parse_args(arguments)
    say_machine()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-", dir=asked.folder) as place:
        if asked.only != "compactor":
            sustained(Path(place), asked.rounds, asked.seconds)
        if asked.only != "sustained":
            compactor(Path(place), asked.rounds)
    return 0


# sustained recording


def sustained(place: Path, rounds: int, seconds: float) -> None:
    """Small exchanges from one connection, for `seconds` through each way, in turns."""
    plain: dict[str, list[float]] = {RELAY: [], PROXY: []}
    recorded: dict[str, list[Recorded]] = {RECORDING: [], WITH_FACTS: []}
    with fake_cluster(place) as (programs, upstream):
        for number in range(rounds):
            ways = [*plain, *recorded]
            for name in ways[number % len(ways) :] + ways[: number % len(ways)]:
                if name in plain:
                    plain[name].append(_plain(programs, upstream, place, name, seconds))
                    say(f"round {number + 1}, {name}: {plain[name][-1]:,.0f} a second")
                else:
                    folder = place / f"capture-{number}-{name == WITH_FACTS}"
                    recorded[name].append(one := _recorded(programs, upstream, place, folder, name, seconds))
                    later = f"caught up {one.catch_up:.1f} s later"
                    say(f"round {number + 1}, {name}: {one.per_second:,.0f} a second, {later}")
    say(f"\n{LOAD.title}, for {seconds:.0f} s, {rounds} rounds: medians, and ratios with their range over the rounds")
    for name, rates in plain.items():
        say(f"  {name:28} {median(rates):9,.0f}")
    for name, results in recorded.items():
        allowed = (CATCH_UP_WITH_FACTS if name == WITH_FACTS else CATCH_UP) * seconds
        to_plain = [one.per_second / other for one, other in zip(results, plain[PROXY], strict=True)]
        to_relay = [one.per_second / other for one, other in zip(results, plain[RELAY], strict=True)]
        catch_up, dropped = max(one.catch_up for one in results), sum(one.dropped for one in results)
        say(f"  {name:28} {median(one.per_second for one in results):9,.0f}")
        say(f"    {_ratio(to_plain)} of not recording, at least {LEAST}: {_reached(median(to_plain) >= LEAST)}")
        say(f"    {_ratio(to_relay)} of the bare relay")
        say(f"    caught up after {catch_up:.1f} s, at most {allowed:.0f}: {_reached(catch_up <= allowed)}")
        say(f"    dropped {dropped:,.0f} bytes: {_reached(not dropped)}")


def _plain(programs: Programs, upstream: str, place: Path, name: str, seconds: float) -> float:
    with (bare_relay if name == RELAY else proxy)(upstream, place) as way:
        return run(programs.load, LOAD, way, seconds).per_second


def _recorded(programs: Programs, upstream: str, place: Path, folder: Path, name: str, seconds: float) -> Recorded:
    env = {} if name == WITH_FACTS else WITHOUT_FACTS
    with proxy(upstream, place, name, folder, env=env) as way:
        rate = run(programs.load, LOAD, way, seconds).per_second
        begun = monotonic()
        try:
            catch_up = way.settle()
            if name == WITH_FACTS:
                catch_up = _facts_made(folder, begun)
        except TimeoutError:
            catch_up = float("inf")
        result = Recorded(rate, way.metrics()["recorder_dropped_bytes_total"], catch_up)
    shutil.rmtree(folder)
    return result


def _facts_made(folder: Path, begun: float) -> float:
    """Seconds since `begun` until no published file lacks facts. Raises TimeoutError."""
    wait_for(lambda: not any(missing(folder)), "facts", seconds=SETTLE_SECONDS)
    return monotonic() - begun


# the compactor


def compactor(place: Path, rounds: int) -> None:
    """Frames, and MB, that become Parquet in a second of a processor."""
    for name, chunks, is_large in (
        (f"small frames in bursts of {BURST}", [*small_exchanges(200_000, BURST)], False),
        ("small frames one by one", [*small_exchanges(100_000, 1)], False),
        ("frames of 1 MB", [*large_frames(200)], True),
    ):
        log = record(place / f"log-{name}", chunks)
        # the first time, code and files are cold
        _compact_seconds(log, place / "compacted")
        spent, plain = list[float](), list[float]()
        for _ in range(rounds):
            plain.append(_plain_seconds(chunks, place))
            spent.append(_compact_seconds(log, place / "compacted"))
        amount = sum(map(len, chunks)) / 1e6 if is_large else sum(1 for chunk in chunks for _ in _bodies(chunk))
        rate, asked, unit = amount / median(spent), LARGE_MB if is_large else SMALL_FRAMES, "MB " if is_large else ""
        to_plain = _ratio([one / other for one, other in zip(spent, plain, strict=True)])
        say(f"compactor, {name}: {rate:,.0f} {unit}a processor second, {asked:,.0f} asked: {_reached(rate >= asked)}")
        say(f"    {to_plain} times the plain loop's time")


def _compact_seconds(log: Path, folder: Path) -> float:
    shutil.copytree(log, folder)
    begun = process_time()
    compact(folder)
    spent = process_time() - begun
    shutil.rmtree(folder)
    return spent


def _plain_seconds(frames: Sequence[bytes], folder: Path) -> float:
    """What the plain loop takes of a processor. `frames`: the streams' bytes, a piece for each chunk."""
    begun = process_time()
    bodies = [body for chunk in frames for body in _bodies(chunk)]
    pq.write_table(pa.table({"frame": pa.array(bodies, pa.binary())}), folder / "plain.parquet", compression="zstd")
    return process_time() - begun


def _bodies(stream: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(stream):
        stop = at + LENGTH.size + LENGTH.unpack_from(stream, at)[0]
        yield stream[at + LENGTH.size : stop]
        at = stop


def record(folder: Path, chunks: Iterable[bytes]) -> Path:
    """Records a connection, requests and responses in turns, and leaves the log to the compactor."""
    tap = open_tap(folder, RecordSettings(cluster="main", when_full=WhenFull.WAIT), "bench")
    player = Player(tap)
    player.open(Talk(1, []))
    for number, chunk in enumerate(chunks):
        player.play(1, Chunk(Direction(number % 2), chunk, 1_000 * number + 1))
        if tap.must_wait:
            tap.flush()
    player.close(1)
    tap.close()
    return folder


def small_exchanges(exchanges: int, burst: int) -> Iterator[bytes]:
    """Heartbeats as the load generator sends them, `burst` in a chunk, and their responses."""
    asked = {"group_id": "a-group", "generation_id": 7, "member_id": "a-member"}
    for at in range(0, exchanges, burst):
        numbers = range(at, min(at + burst, exchanges))
        yield b"".join(framed(catalog.encode_request(HEARTBEAT, 4, number, "bench", asked)) for number in numbers)
        yield b"".join(framed(catalog.encode_response(HEARTBEAT, 4, number, {})) for number in numbers)


def large_frames(requests: int) -> Iterator[bytes]:
    """Produce requests of 1 MB of random bytes, as of a producer that compresses, and their responses."""
    random = Random(1)
    for number in range(requests):
        partition = {"index": 0, "records": random.randbytes(LARGE)}
        asked = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "bench", "partition_data": [partition]}]}
        yield framed(catalog.encode_request(PRODUCE, 9, number, "bench", asked))
        yield framed(catalog.encode_response(PRODUCE, 9, number, {"responses": []}))


def _ratio(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _reached(is_reached: bool) -> str:
    return "reached" if is_reached else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
