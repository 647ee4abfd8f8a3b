"""`python -m bench.against CHECKOUT`: this checkout's proxy against another's, say of the commit before a change.

Both proxies run all the time and take turns; ratios are taken within a round. Each load has two ratios. Trust the one
of processor time, which other work hardly changes.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from bench import report
from bench.__main__ import interleaved, measure
from bench.contenders import PROXY, fake_cluster, proxy
from bench.loads import LOADS, Load

OTHER = "the other"
# what a feature may cost: a twentieth of the exchanges a second
TARGET = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other checkout")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each load runs in a round (default 0.5)")
    parser.add_argument("--only", nargs="*", choices=[load.name for load in LOADS], default=["lone", "burst"])
    asked = parser.parse_args(arguments)
    print("machine: " + report.machine(), flush=True)
    # without the working folder, which is this checkout, the path decides before what is installed
    env = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(asked.checkout.resolve())}
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [stack.enter_context(proxy(upstream, folder, PROXY))]
        ways.append(stack.enter_context(proxy(upstream, folder, OTHER, env=env)))
        for load in LOADS:
            if load.name in asked.only:
                rounds = interleaved(ways, asked.rounds, partial(measure, programs, load, asked.seconds))
                print(table(load, rounds), flush=True)
    return 0


def table(load: Load, rounds: report.Rounds) -> str:
    """The ratios of this to the other, above 1 where this one is better, and the verdict by processor time."""
    speed = report.ratios(rounds, *((OTHER, PROXY) if load.is_time else (PROXY, OTHER)))
    used = [other.processor_us / mine.processor_us for mine, other in zip(rounds[PROXY], rounds[OTHER], strict=True)]
    mine, other = (median(sample.processor_us for sample in rounds[name]) for name in (PROXY, OTHER))
    verdict = "reached" if median(used) >= TARGET else "MISSED"
    return (
        f"{load.title}\n"
        f"  as fast as the other {_range(speed)}\n"
        f"  in as little of a processor {_range(used)}, {mine:.2f} us to {other:.2f}; target {TARGET}: {verdict}"
    )


def _range(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())
