"""A Kafka cluster of three brokers without Java: librdkafka's mock cluster, real TCP listeners on loopback.

Run as a program: says `listening on HOST:PORT,HOST:PORT,HOST:PORT` on standard error, serves until its standard input
ends or it gets SIGTERM. The mock serves Produce up to 10 and Fetch up to 16, creates topics when they are asked for,
and forgets everything when it ends.
"""

from __future__ import annotations

import sys
from typing import Any

BROKERS = 3
# How long the mock may take to answer its first question, in seconds.
_READY_WITHIN = 15


def start() -> tuple[Any, str]:
    """The client that owns the cluster (drop it, and the cluster is gone) and its bootstrap servers."""
    from confluent_kafka import Producer

    # bootstrap.servers is replaced by the mock's own; without any value librdkafka complains
    owner = Producer({"test.mock.num.brokers": BROKERS, "bootstrap.servers": "mock", "log_level": 0})
    brokers = owner.list_topics(timeout=_READY_WITHIN).brokers.values()
    return owner, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def main() -> None:
    """Serve until standard input ends."""
    owner, servers = start()
    print(f"listening on {servers}", file=sys.stderr, flush=True)
    sys.stdin.read()
    del owner


if __name__ == "__main__":
    main()
