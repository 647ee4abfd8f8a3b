"""`python -m bench.floods`: what recording hostile frames takes of a processor, as ratios to plain ones.

Each flood goes through tap and compactor alone, in one process, in turns with a flood of plain frames of as many bytes:
the ratio says how many plain bytes a hostile one costs. Growth compares four times as many bytes with as many: 4 means
that the work grows as they do, 16 that it grows as their square.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

from bench.console import say, say_machine
from tests.recorder.capture.floods import FLOODS, REQUEST, WHOLE, Flood, Recorded

PLAIN = "plain"
# so many times as many bytes; up to the target the work grows as they do, whatever the machine does besides
MORE, TARGET = 4, 8.0


class Cost(NamedTuple):
    """Seconds of a processor: in the proxy's process, and in the compactor's."""

    proxy: float
    compactor: float


def cost(flood: Flood, size: int) -> Cost:
    """Of about so many bytes of it."""
    data = flood.sized(size)
    recorded = Recorded(flood.settings)
    recorded.feed_all(REQUEST, flood.before, WHOLE)
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as folder:
        begun = process_time()
        recorded.feed_all(REQUEST, data, flood.size)
        fed = process_time()
        recorded.compact(Path(folder))
        return Cost(fed - begun, process_time() - fed)


def line(name: str, rounds: Sequence[tuple[Cost, Cost, Cost]], size: int) -> str:
    """`rounds`: plain frames, as many bytes of the flood, and MORE times as many."""
    cells = []
    for part in Cost._fields:
        plain, once = (median(getattr(one[at], part) for one in rounds) for at in range(2))
        cells.append(f"{once / size * 1e9:9,.0f} {once / plain:8.1f}")
    growth = median(sum(more) / sum(once) for _, once, more in rounds)
    return f"{name:28} {'   '.join(cells)}   {growth:7.1f} {'reached' if growth <= TARGET else 'MISSED'}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.floods", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kib", type=int, default=64, help="of each flood; four times as much, too")
    parser.add_argument("--only", default="", help="floods whose names hold this")
    asked = parser.parse_args(arguments)
    size = asked.kib * 1024
    say_machine()
    head = f"{'ns/byte':>9} {': plain':>8}"
    say(f"{'':28} {'proxy':18}   compactor\n{'':28} {head}   {head}   growth, at most {TARGET}")
    for name, flood in FLOODS.items():
        if asked.only in name:
            # what is compiled when first asked for is no work of the flood's
            cost(flood, 1)
            rounds = [
                (cost(FLOODS[PLAIN], size), cost(flood, size), cost(flood, MORE * size)) for _ in range(asked.rounds)
            ]
            say(line(name, rounds, size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
