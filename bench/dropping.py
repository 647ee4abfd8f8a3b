"""`python -m bench.dropping`: recording without records (`capture.records = "drop"`) against recording whole, in one
run; likewise with chosen topics alone, of which the load's is one (`capture.only.topics`), with the log encrypted
(`capture.encrypt`), and with records hashed (`"hash"`).

Five proxies record the same loads in turns, each with a compactor beside it; ratios are of one round, told as the
median with their range.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import report
from bench.__main__ import interleaved, measure
from bench.console import options, say, say_machine
from bench.contenders import RECORDING, Contender, fake_cluster, proxy
from bench.loads import LOADS, Load, Sample, Target

DROPPING = "proxy, dropping records"
ENCRYPTING = "proxy, log encrypted"
HASHING = "proxy, hashing records"
CHOOSING = "proxy, choosing topics"
TARGETS = (Target(DROPPING, RECORDING, 0.9),)
ENCRYPT = {"KAFKA_WIRETAP_CAPTURE__ENCRYPT": "true"}
CHOOSE = {"KAFKA_WIRETAP_CAPTURE__ONLY__TOPICS": "bench"}
# what the bench of all contenders lacks: small requests with records, where the rules cost most
SMALL = tuple(
    Load(
        f"small-{size}-{window}",
        f"Produce requests of one record of {size} bytes, {window} in a write, a second",
        ("small", str(size), str(window)),
    )
    for size in (200, 1000)
    for window in (1, 16)
)
ALL = (*LOADS, *SMALL)
CHOSEN = ("burst", "produce", "produce-7", "fetch", "fetch-16", *(load.name for load in SMALL))


def main(arguments: list[str] | None = None) -> int:
    parser = options("bench.dropping", __doc__, rounds=5, seconds=1)
    parser.add_argument("--only", nargs="*", choices=CHOSEN, default=CHOSEN, help="these loads (default: all)")
    asked = parser.parse_args(arguments)
    say_machine()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [
            stack.enter_context(proxy(upstream, folder, RECORDING, folder / "whole")),
            stack.enter_context(proxy(upstream, folder, DROPPING, folder / "dropped", "--records", "drop")),
            stack.enter_context(proxy(upstream, folder, CHOOSING, folder / "chosen", env=CHOOSE)),
            stack.enter_context(proxy(upstream, folder, ENCRYPTING, folder / "encrypted", env=ENCRYPT)),
            stack.enter_context(
                proxy(
                    upstream, folder, HASHING, folder / "hashed", "--records", "hash", "--hash-key", str(_key(folder))
                )
            ),
        ]
        for load in ALL:
            if load.name in asked.only:
                _compare(load, ways, partial(measure, programs, load, asked.seconds), asked.rounds)
    return 0


def _key(folder: Path) -> Path:
    key = folder / "hash.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(32))
    return key


def _compare(load: Load, ways: list[Contender], measured: Callable[[Contender], Sample], rounds: int) -> None:
    values = interleaved(ways, rounds, measured)
    say(report.table(load.title, values, targets=TARGETS) + "\n")


if __name__ == "__main__":
    sys.exit(main())
