"""`python -m bench.live`: what metrics by topic, client and group cost, in one run.

Four proxies take the same loads in turns: with and without a capture, with and without `[live]`. What reads the traffic
then is a niced process beside the proxy; asked is that both ways with it are at least 0.95 of recording without it.
"""

import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import report
from bench.__main__ import interleaved, measure
from bench.console import options, say, say_machine
from bench.contenders import PROXY, RECORDING, fake_cluster, proxy
from bench.loads import LOADS, Target

LIVE, RECORDING_LIVE = "proxy, live", "proxy, recording, live"
TARGETS = (Target(LIVE, RECORDING, 0.95), Target(RECORDING_LIVE, RECORDING, 0.95))
ASKED = {f"KAFKA_WIRETAP_LIVE__{name}": "1000" for name in ("TOPICS", "CLIENTS", "GROUPS")}
CHOSEN = ("burst", "produce", "produce-7", "fetch")


def main(arguments: list[str] | None = None) -> int:
    parser = options("bench.live", __doc__, rounds=5, seconds=1)
    parser.add_argument("--only", nargs="*", choices=CHOSEN, default=CHOSEN, help="these loads (default: all)")
    asked = parser.parse_args(arguments)
    say_machine()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [
            stack.enter_context(proxy(upstream, folder, PROXY)),
            stack.enter_context(proxy(upstream, folder, LIVE, env=ASKED)),
            stack.enter_context(proxy(upstream, folder, RECORDING, folder / "capture")),
            stack.enter_context(proxy(upstream, folder, RECORDING_LIVE, folder / "capture-live", env=ASKED)),
        ]
        for load in LOADS:
            if load.name in asked.only:
                values = interleaved(ways, asked.rounds, partial(measure, programs, load, asked.seconds))
                say(report.table(load.title, values, targets=TARGETS) + "\n")
        for way in ways:
            if missed := way.metrics().get("live_missed_frames_total"):
                say(f"{way.name}: {missed:,.0f} frames were not counted by topic, client or group")
    return 0


if __name__ == "__main__":
    sys.exit(main())
