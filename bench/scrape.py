"""`python -m bench.scrape`: how long a scrape takes with every API seen, and a dozen nodes.

Processor time of the fastest of many scrapes: other work on the machine only adds. The target is that of Prometheus'
text format.
"""

import argparse
import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from bench.console import say_machine
from proxy.conversation.exchange import Cause, Exchange
from proxy.conversation.login import Login
from proxy.conversation.routes import Routes
from proxy.metrics.collector import ClusterNumbers, registry
from proxy.metrics.traffic import Traffic
from proxy.wire import apis
from proxy.wire.error_reader import NOTHING
from proxy.wire.framing import framed, pack_api_and_version

NODES = 12
TARGET_MS = 20
# of each response: enough zeros for any body without an error
RESPONSE = framed(bytes(64))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=__doc__)
    parser.add_argument("--scrapes", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=NODES)
    asked = parser.parse_args(arguments)
    say_machine()
    page = registry([ClusterNumbers("main", traffic(asked.nodes), list)])
    text = fastest_ms(generate_latest, page, asked.scrapes)
    verdict = "reached" if text < TARGET_MS else "MISSED"
    print(f"{series(page):,} series of {len(apis.api_keys())} APIs and {asked.nodes} nodes")
    print(f"text format {text:.1f} ms; target {TARGET_MS}: {verdict}")
    print(f"OpenMetrics {fastest_ms(openmetrics.generate_latest, page, asked.scrapes):.1f} ms")
    return 0


def traffic(nodes: int) -> Traffic:
    """Returns counts in which each API has been seen in its newest version, and each node."""
    counted, routes = Traffic("20261121T130500Z-bench"), Routes()
    for number in range(nodes):
        connection = counted.connection(number, str(number), Login(decides=True))
        counted.connected(connection)
        for key in apis.api_keys():
            newest = max(apis.versions(key))
            one = Exchange(0, routes.of(pack_api_and_version(key, newest)), 7, 100, 1_000_000, 1_000_000)
            one.response_at, one.response_size = 0, len(RESPONSE) - 4
            one.response_first_ns = one.response_last_ns = 1_300_000
            counted.finished([one], 1_400_000, RESPONSE, NOTHING, connection)
        connection.node.reach = connection.node.reach.after(time.time(), success=True)
        counted.disconnected(connection, Cause.CLIENT_CLOSED)
    return counted


def series(page: CollectorRegistry) -> int:
    return sum(len(family.samples) for family in page.collect())


def fastest_ms(format_page: Callable[[CollectorRegistry], bytes], page: CollectorRegistry, scrapes: int) -> float:
    times = []
    for _ in range(scrapes):
        began = time.process_time()
        format_page(page)
        times.append((time.process_time() - began) * 1000)
    return min(times)


if __name__ == "__main__":
    raise SystemExit(main())
