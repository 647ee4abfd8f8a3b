"""librdkafka's mock cluster in a child process: several brokers on real TCP ports, no Java, ready in a moment.

The cluster serves Produce up to version 10 and Fetch up to 16, knows classic groups, transactions and metadata, and
keeps everything in memory.
"""

import sys
from pathlib import Path

from tests.brokers import children
from tests.brokers.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


class MockCluster:
    """A cluster that runs within `with`; `bootstrap` is "host:port,host:port" of all its brokers."""

    def __init__(self, brokers: int = 3) -> None:
        self._brokers = brokers
        self.bootstrap = ""

    def __enter__(self) -> "MockCluster":
        command = [sys.executable, "-m", __name__, str(self._brokers)]
        self._child, _, said = children.spoken_with(command, cwd=ROOT)
        self.bootstrap = said.readline().strip()
        if not self.bootstrap:
            raise RuntimeError(f"the mock cluster ended with exit code {self._child.wait()}; its stderr says why")
        return self

    def __exit__(self, *_: object) -> None:
        children.stop(self._child)
        children.close_pipes(self._child)


def _serve(brokers: int) -> None:
    """The child: the cluster lives as long as its producer, that is until stdin ends."""
    from confluent_kafka import Producer

    owner = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
    known = owner.list_topics(timeout=PATIENCE).brokers
    print(",".join(f"{broker.host}:{broker.port}" for broker in known.values()), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
