"""`python -m bench.encodings`: the example of KAFKA-9927 rebuilt, its sizes and times beside the document's.

The document: a Metadata response (the body alone) with one topic of 100 partitions "replicated across two brokers"
takes 3216 bytes in the fixed encoding, 1170 in the unsigned one at best and 4026 at worst. What it leaves open is
decided here, once, and nothing is tuned to its figures: `ASSUMPTIONS`. See docs/encodings.md.
"""

import argparse
import gc
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from time import process_time
from timeit import Timer
from typing import Any, NamedTuple

from bench.report import machine
from proxy.wire import apis, catalog
from proxy.wire.catalog import Codec
from proxy.wire.integers import Encoding
from proxy.wire.language import Message
from proxy.wire.sizes import BEST, reencoded, sizes
from recorder.encodings.document import FIGURES

PARTITIONS = 100
VERSION = 9
PATH = "topics.partitions"
SMALL, LARGE = 0, 1 << 28  # from LARGE on an unsigned varint of 32 bits takes five bytes
LARGE_ERROR = 1 << 14  # and one of 16 bits three
WARM = 20  # runs before a case is measured, to know how long it takes

ASSUMPTIONS = (
    "version 9 of the response, the newest when the document was written, with compact lengths and tag buffers",
    "brokers 0 and 1, named broker-0 and broker-1, port 9092, no rack; broker 0 is the controller",
    "a cluster id of 22 characters; a topic named topic, not internal; authorized operations not asked for: -2**31",
    "partitions 0 to 99, led by 0 and 1 in turn, leader epoch 0, no error, no throttling",
    "both brokers are replicas of every partition and in sync, none is offline",
    "at worst: 2**28 is added to broker ids, partition numbers and epochs, and every partition's error is 2**14",
)


class Case(NamedTuple):
    """A row: an encoding of small or large numbers; the document's bytes and microseconds where it has that row."""

    name: str
    encoding: str
    base: int
    bytes: int | None = None
    serialize: int | None = None
    deserialize: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        return example(self.base)


# of the numbers in the document's own rows
BASES = (SMALL, SMALL, LARGE)
CASES = (
    *(Case(name, encoding, base, *told) for (name, encoding, *told), base in zip(FIGURES, BASES, strict=True)),
    Case("signed, small numbers", Encoding.SIGNED, SMALL),
    Case("signed, large numbers", Encoding.SIGNED, LARGE),
    Case("each field its best, small", BEST, SMALL),
    Case("each field its best, large", BEST, LARGE),
)


class Row(NamedTuple):
    """Times of a case as ratios to the fixed encoding's, each round by itself; the document's ratios."""

    case: Case
    serialize: tuple[float, ...]
    deserialize: tuple[float, ...]
    documents: tuple[float, float] | None


def example(base: int) -> dict[str, Any]:
    """The response's values; `base` is added to all ids and epochs."""
    error = LARGE_ERROR if base else 0
    nodes = [base, base + 1]
    partitions = [
        {"error_code": error, "partition_index": base + number, "leader_id": nodes[number % 2], "leader_epoch": base}
        | {"replica_nodes": nodes, "isr_nodes": nodes, "offline_replicas": []}
        for number in range(PARTITIONS)
    ]
    brokers = [{"node_id": node, "host": f"broker-{node - base}", "port": 9092} for node in nodes]
    return {
        "brokers": brokers,
        "cluster_id": "c" * 22,
        "controller_id": base,
        "topics": [{"name": "topic", "partitions": partitions}],
    }


def response() -> Message:
    found = catalog.codec("response", apis.api_key("Metadata"), VERSION)
    assert found is not None
    return found.message


def codec(case: Case) -> Codec:
    """With all integers of 16, 32 and 64 bits in the case's encoding."""
    found = sizes(response(), VERSION, case.values, case.encoding)
    return Codec(reencoded(response(), found.encodings), VERSION)


def size_table() -> list[str]:
    """Bytes of every case, as lines of Markdown."""
    lines = [
        "| | the document | its formula, 100 times | body, the partitions' integers so | body, all integers so |",
        "|---|---|---|---|---|",
    ]
    return lines + [f"| {case.name} | {' | '.join(_sizes(case))} |" for case in CASES]


def _sizes(case: Case) -> tuple[str, str, str, str]:
    everything = sizes(response(), VERSION, case.values, case.encoding)
    alone = {path: encoding for path, encoding in everything.encodings.items() if path.startswith(PATH)}
    body = len(Codec(reencoded(response(), alone), VERSION).encode(case.values))
    # the formulas count neither the array's own count nor the tag buffer behind each partition
    by_formula = everything.fields[PATH] - 1 - PARTITIONS
    return (str(case.bytes or "-"), str(by_formula), str(body), str(everything.total))


def measure(rounds: int = 15, seconds: float = 0.05) -> list[Row]:
    """Every case in every round, `seconds` for each column, each round beginning with another one."""
    timers = {case: _timers(case) for case in CASES}
    repeats = {case: [max(1, int(seconds / (timer.timeit(WARM) / WARM))) for timer in timers[case]] for case in CASES}
    measured: dict[Case, list[list[float]]] = {case: [] for case in CASES}
    gc.collect()
    for number in range(rounds):
        first = number % len(CASES)
        for case in (*CASES[first:], *CASES[:first]):
            both = zip(timers[case], repeats[case], strict=True)
            measured[case].append([timer.timeit(repeat) / repeat for timer, repeat in both])
    return [_row(case, measured) for case in CASES]


def _timers(case: Case) -> tuple[Timer, Timer]:
    """Of `encode` and `decode`, compiled and warm; values in the form that `decode` gives."""
    found = codec(case)
    data = found.encode(case.values)
    values, _ = found.decode(data)
    assert found.encode(values) == data
    encode, decode = found.encode, found.decode
    # Processor time: what else runs on the machine takes none of it.
    return Timer(lambda: encode(values), timer=process_time), Timer(lambda: decode(data), timer=process_time)


def _row(case: Case, measured: Mapping[Case, Sequence[Sequence[float]]]) -> Row:
    fixed = CASES[0]
    both = zip(measured[case], measured[fixed], strict=True)
    serialize, deserialize = zip(*[(mine[0] / base[0], mine[1] / base[1]) for mine, base in both], strict=True)
    documents = None
    if case.serialize and case.deserialize and fixed.serialize and fixed.deserialize:
        documents = (case.serialize / fixed.serialize, case.deserialize / fixed.deserialize)
    return Row(case, serialize, deserialize, documents)


def time_table(rows: Sequence[Row]) -> list[str]:
    """The two columns of times as ratios to the fixed encoding, as lines of Markdown."""
    lines = [
        "| | serialize | the document | deserialize | the document |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        theirs = [f"{ratio:.2f}" for ratio in row.documents] if row.documents else ["-", "-"]
        ours = _spread(row.serialize), _spread(row.deserialize)
        lines.append(f"| {row.case.name} | {ours[0]} | {theirs[0]} | {ours[1]} | {theirs[1]} |")
    return lines


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.encodings", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="a case takes twice that in a round (default 0.05)")
    parser.add_argument("--sizes", action="store_true", help="the table of sizes alone")
    asked = parser.parse_args(arguments)
    print("bytes of one Metadata response:", *(f"  - {one}" for one in ASSUMPTIONS), "", *size_table(), sep="\n")
    if not asked.sizes:
        print(f"\nprocessor time as ratios to fixed, median and range of {asked.rounds} rounds\nmachine: {machine()}\n")
        print(*time_table(measure(asked.rounds, asked.seconds)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
