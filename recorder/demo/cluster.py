"""A Kafka cluster of three brokers without Java: librdkafka's mock cluster, real TCP listeners on loopback.

Run as a program, it prints `listening on HOST:PORT,HOST:PORT,HOST:PORT` on standard error, and serves until its
standard input ends or it gets SIGTERM. With a file as its argument, as docs/tutorial.md starts it, it writes the
addresses into that file instead, and serves until SIGTERM. The mock serves Produce up to version 10 and Fetch up to
version 16, creates topics when clients ask for them, and forgets everything when it ends.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

BROKERS = 3
# Seconds that the mock may take for its first answer.
_READY_WITHIN = 15


def start() -> tuple[Any, str]:
    """The client that owns the cluster, and its bootstrap servers. The cluster ends with the client object."""
    from confluent_kafka import Producer

    # bootstrap.servers is replaced by the mock's own; without any value librdkafka complains
    owner = Producer({"test.mock.num.brokers": BROKERS, "bootstrap.servers": "mock", "log_level": 0})
    brokers = owner.list_topics(timeout=_READY_WITHIN).brokers.values()
    return owner, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def main() -> None:
    """Serves until standard input ends, or with a file for the addresses until a signal."""
    owner, servers = start()
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(servers)
        signal.pause()
    else:
        print(f"listening on {servers}", file=sys.stderr, flush=True)
        sys.stdin.read()
    del owner


if __name__ == "__main__":
    main()
