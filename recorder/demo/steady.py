"""Clients that work all the time beside the steps: a shop, its ledger, and three with a bad habit that a report finds.

A report's windows are 5 s here, and a finding must last for three of them, so all clients work for STEADY_S.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from threading import Event
from typing import Any, NamedTuple

PAYMENTS, TELEMETRY = "payments", "telemetry"
# Seconds from the first client's start on: four whole windows, wherever they begin.
STEADY_S = 25.0
# Seconds that the last records may take.
FLUSH_S = 60
_log = logging.getLogger("workload")


class Client(NamedTuple):
    """A client. `work` runs until the event is set. `finding`: the report's rule that finds its bad habit, if any."""

    name: str
    work: Callable[[str, Event], None]
    finding: str | None = None


def shop(servers: str, stop: Event) -> None:
    """Writes payments, acknowledged by all replicas, some in each batch."""
    settings = {"client.id": "shop", "acks": "all", "linger.ms": 250, "compression.type": "zstd"}
    _write(servers, settings, PAYMENTS, payment, paced(50, stop))


def ledger(servers: str, stop: Event) -> None:
    """Reads the payments, as a group of one."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": servers, "group.id": "ledger", "client.id": "ledger"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"}, logger=_log)
    consumer.subscribe([PAYMENTS])
    while not stop.is_set():
        consumer.consume(500, 0.5)
    consumer.close()


def audit(servers: str, stop: Event) -> None:
    """Writes payments too, but asks the leader alone to acknowledge them."""
    settings = {"client.id": "audit", "acks": "1", "linger.ms": 0, "compression.type": "zstd"}
    _write(servers, settings, PAYMENTS, payment, paced(8, stop))


def thermostat(servers: str, stop: Event) -> None:
    """Sends each record as a batch of its own."""
    settings = {"client.id": "thermostat", "acks": "all", "batch.num.messages": 1}
    _write(servers, settings, TELEMETRY, lambda _: b"21.5", paced(150, stop))


def inventory(servers: str, stop: Event) -> None:
    """Asks for Metadata all the time, though nothing changes."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": servers, "client.id": "inventory"}, logger=_log)
    for _ in paced(10, stop):
        client.list_topics(timeout=FLUSH_S)


CLIENTS = (
    Client("shop", shop),
    Client("ledger", ledger),
    Client("audit", audit, "unsafe"),
    Client("thermostat", thermostat, "small_batches"),
    Client("inventory", inventory, "metadata_storm"),
)
# The rules of the report that find something in the demo.
PLANTED = tuple(client.finding for client in CLIENTS if client.finding)


class Steady:
    """The clients at work, until `finished`. Resource handling: leaving the block tells all of them to end."""

    def __init__(self, servers: str, clients: Sequence[Client] = CLIENTS) -> None:
        self._began = time.monotonic()
        self._stop = Event()
        self._pool = ThreadPoolExecutor(len(clients))
        self._work = {client.name: self._pool.submit(client.work, servers, self._stop) for client in clients}

    def __enter__(self) -> Steady:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def finished(self) -> str:
        """Waits for the rest of the time, and until the clients have ended. Returns their names and the time.

        Raises the error of a client.
        """
        self._stop.wait(max(self._began + STEADY_S - time.monotonic(), 0))
        self._stop.set()
        for work in self._work.values():
            work.result()
        return f"{', '.join(self._work)}: {STEADY_S:g} s of work"


def paced(a_second: float, stop: Event) -> Iterator[int]:
    """Numbers from 0 on, at a rate of `a_second`, until the event is set. A late number does not delay later ones."""
    began = time.monotonic()
    for number in count():
        if stop.wait(max(began + number / a_second - time.monotonic(), 0)):
            return
        yield number


def payment(number: int) -> bytes:
    """The shop's record of the payment for the order with this number, as JSON."""
    chance = Random(number)
    items = [{"sku": f"{chance.getrandbits(32):08x}", "pieces": chance.randint(1, 3)} for _ in range(3)]
    paid = {"amount": chance.randint(100, 99_999) / 100, "currency": "EUR", "card": f"{chance.getrandbits(128):032x}"}
    return json.dumps({"order": number, "items": items} | paid).encode()


def _write(
    servers: str, settings: Mapping[str, Any], topic: str, value: Callable[[int], bytes], numbers: Iterable[int]
) -> None:
    """Writes the value of each number, and waits until all are acknowledged. Raises RuntimeError if some are not."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, **settings}, logger=_log)
    for number in numbers:
        producer.produce(topic, value(number), key=b"%d" % number)
        producer.poll(0)
    if left := producer.flush(FLUSH_S):
        raise RuntimeError(f"{left} records were not delivered")
