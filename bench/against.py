"""`python -m bench.against CHECKOUT`: this checkout's proxy against another's, say of the commit before a change.

`--python` has other interpreters run the other proxy, which may be of this checkout: `python -m bench.against .
--python PATH PATH`. All proxies run all the time and take turns; ratios are taken within a round. Each load has two
ratios. Trust the one of processor time, which other work hardly changes.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from bench import report
from bench.__main__ import interleaved, measure
from bench.console import options, say, say_machine
from bench.contenders import PROXY, fake_cluster, proxy
from bench.loads import LOADS, Load

# what a feature may cost: a twentieth of the exchanges a second
TARGET = 0.95


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("bench.against", __doc__, rounds=21, seconds=0.5)
    parser.add_argument("checkout", type=Path, help="the root of the other checkout")
    parser.add_argument("--only", nargs="*", choices=[load.name for load in LOADS], default=["lone", "burst"])
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], metavar="PATH", help="run the other proxy (default: this one)"
    )
    asked = parser.parse_args(arguments)
    say_machine()
    # without the working folder, which is this checkout, the path decides before what is installed
    env = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(asked.checkout.resolve())}
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [stack.enter_context(proxy(upstream, folder, PROXY))]
        for number, python in enumerate(asked.python, 1):
            name = f"other {number}, {version(python)}"
            ways.append(stack.enter_context(proxy(upstream, folder, name, env=env, python=python)))
        for load in LOADS:
            if load.name in asked.only:
                rounds = interleaved(ways, asked.rounds, partial(measure, programs, load, asked.seconds))
                say(table(load, rounds))
    return 0


def version(python: str) -> str:
    """An interpreter's own words. Raises OSError, CalledProcessError: it does not run."""
    return subprocess.run([python, "-V"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def table(load: Load, rounds: report.Rounds) -> str:
    """The ratios of this to each other, above 1 where this one is better, and the verdicts by processor time."""
    return "\n".join([load.title, *(_compared(load, rounds, name) for name in rounds if name != PROXY)])


def _compared(load: Load, rounds: report.Rounds, name: str) -> str:
    speed = report.ratios(rounds, *((name, PROXY) if load.is_time else (PROXY, name)))
    used = [other.processor_us / mine.processor_us for mine, other in zip(rounds[PROXY], rounds[name], strict=True)]
    mine, other = (median(sample.processor_us for sample in rounds[way]) for way in (PROXY, name))
    verdict = "reached" if median(used) >= TARGET else "MISSED"
    return (
        f"  as fast as {name}: {_range(speed)}\n"
        f"  in as little of a processor: {_range(used)}, {mine:.2f} us to {other:.2f}; target {TARGET}: {verdict}"
    )


def _range(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())
