"""Ordinary work of real clients, in a few seconds: produce with every codec and acks, consume as groups.

It runs as a program with the bootstrap servers as argument, and prints a line of JSON on standard output as each step
begins and ends. If a step fails, the program ends with the reason. All steps together have a deadline. Other clients
work all the time beside the steps (`steady.py`): with the further argument `healthy` only those that do nothing wrong,
with `steps-only` none. The clients don't know the proxy.

acks=0 promises nothing, and the mock cluster handles it wrongly: it answers such a request, which no broker does. The
proxy then ends the connection, and what the client has sent behind that request is lost. Nothing waits for such
records. With `healthy`, the steps leave acks=0 out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

from recorder.demo.steady import CLIENTS, FLUSH_S, STEADY_S, Client, Steady

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: tuple[str, ...] = ("0", "1", "all")
UNSURE_ACKS = "0"
ORDERS, CLICKS = "orders", "clicks"
ORDERS_EACH, CLICKS_EACH = 200, 100
# The mock refuses a member whose SyncGroup comes after the leader's (in one run of thirty), and lets the group rejoin
# only after a session timeout, so the timeout is shorter than the usual 45 s.
SESSION_MS = 6000
# Prefixes of the keys of records that must arrive, and of those sent with acks=0.
SURE, UNSURE = b"sure-", b"unsure-"
# One record of this size and each codec, so that not all frames are small.
LARGE_RECORD = 200_000
# Seconds for all steps: they take about ten, and many times as long on a busy machine; the clients beside them work for
# STEADY_S.
DEADLINE = 300 + STEADY_S
HEALTHY, STEPS_ONLY = "healthy", "steps-only"

_log = logging.getLogger("workload")


def produce_orders(servers: str, acks: Sequence[str] = ACKS) -> str:
    """confluent-kafka: every codec with every acks."""
    sent = sum(_produce(servers, codec, one) for codec, one in product(CODECS, acks))
    unsure = len(CODECS) * (ORDERS_EACH + 1) if UNSURE_ACKS in acks else 0
    summary = f"{sent} records, {len(CODECS)} codecs, acks {', '.join(acks)}"
    return f"{summary} ({unsure} with acks=0, which promises nothing)" if unsure else summary


def _produce(servers: str, codec: str, acks: str) -> int:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": servers, "compression.type": codec, "acks": acks, "linger.ms": 5}
    settings |= {"enable.idempotence": acks == "all", "client.id": f"orders-{codec}-{acks}"}
    producer = Producer(settings, logger=_log)
    key = UNSURE if acks == UNSURE_ACKS else SURE
    for number in range(ORDERS_EACH):
        producer.produce(ORDERS, json.dumps({"order": number, "note": "lorem " * 20}), key=key + b"%d" % number)
    producer.produce(ORDERS, b"x" * LARGE_RECORD, key=key + b"large")
    left = producer.flush(FLUSH_S)
    if left:
        raise RuntimeError(f"{left} records with {codec} and acks={acks} were not delivered")
    return ORDERS_EACH + 1


def consume_orders(servers: str) -> str:
    """confluent-kafka: two groups read everything and commit.

    Each group has one member: the mock answers a member that syncs after its group's leader with bytes that are no
    SyncGroup response, and on a busy machine a second member does sync late.
    """
    wanted = len(CODECS) * (len(ACKS) - 1) * (ORDERS_EACH + 1)
    # by partition and offset: a member that rejoins reads uncommitted records again
    read: dict[str, dict[tuple[int, int], bool]] = {"billing": {}, "shipping": {}}
    members = {group: _consumer(servers, group) for group in read}
    while any(sum(records.values()) < wanted for records in read.values()):
        for group, member in members.items():
            read[group] |= {(one.partition(), one.offset()): _sure(one.key()) for one in member.consume(500, 0.1)}
    for member in members.values():
        member.close()
    return "; ".join(f"{group} read {_told(records)}" for group, records in read.items())


def _told(read: Mapping[tuple[int, int], bool]) -> str:
    """The number of records read, and of those with acks=0. The mapping's values: whether a record had to arrive."""
    unsure = len(read) - sum(read.values())
    return f"{len(read)} records" + (f" ({unsure} with acks=0)" if unsure else "")


def _sure(key: bytes | None) -> bool:
    return key is not None and key.startswith(SURE)


def _consumer(servers: str, group: str) -> Any:
    from confluent_kafka import Consumer

    settings: dict[str, str | int] = {"bootstrap.servers": servers, "group.id": group, "client.id": group}
    settings |= {"session.timeout.ms": SESSION_MS, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings, logger=_log)
    consumer.subscribe([ORDERS])
    return consumer


def clicks(servers: str, acks: Sequence[str] = ACKS) -> str:
    """aiokafka: produce with every acks, consume as a group."""
    return asyncio.run(_clicks(servers, acks))


async def _clicks(servers: str, acks: Sequence[str]) -> str:
    from aiokafka import AIOKafkaConsumer

    sent = {kind: await _produce_clicks(servers, *kind) for kind in product((None, "gzip"), acks)}
    wanted = sum(number for (_, one), number in sent.items() if one != UNSURE_ACKS)
    consumer = AIOKafkaConsumer(
        CLICKS, bootstrap_servers=servers, group_id="dashboards", client_id="dash", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        read: dict[tuple[int, int], bool] = {}
        while sum(read.values()) < wanted:
            one = await consumer.getone()
            read[one.partition, one.offset] = _sure(one.key)
        await consumer.commit()
    finally:
        await consumer.stop()
    unsure = sum(sent.values()) - wanted
    of_those = f" ({unsure} with acks=0)" if unsure else ""
    summary = f"{sum(sent.values())} records{of_those}, codecs none and gzip, acks {', '.join(acks)}"
    return f"{summary}; dashboards read {_told(read)}"


async def _produce_clicks(servers: str, codec: str | None, acks: str) -> int:
    from aiokafka import AIOKafkaProducer

    number_or_all = int(acks) if acks.isdigit() else acks
    producer = AIOKafkaProducer(bootstrap_servers=servers, compression_type=codec, acks=number_or_all, client_id="web")
    await producer.start()
    try:
        key = UNSURE if acks == UNSURE_ACKS else SURE
        for number in range(CLICKS_EACH):
            await producer.send(CLICKS, b"click", key=key + b"%d" % number)
        await producer.flush()
    finally:
        await producer.stop()
    return CLICKS_EACH


def go_wrong(servers: str) -> str:
    """A consumer asks for an offset that never existed, so that the capture holds an error."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "lost", "client.id": "lost", "auto.offset.reset": "error"}
    consumer = Consumer(settings, logger=_log)
    consumer.assign([TopicPartition(ORDERS, 0, 10**9)])
    error = None
    while error is None:
        message = consumer.poll(1.0)
        error = None if message is None else message.error()
    consumer.close()
    return f"as expected: {error.str()}"


STEPS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("produce (confluent-kafka)", produce_orders),
    ("consume as two groups (confluent-kafka)", consume_orders),
    ("produce and consume (aiokafka)", clicks),
    ("ask for an offset that is not there", go_wrong),
)


def main() -> None:
    """Runs all steps against the bootstrap servers in the first argument."""
    servers, *options = sys.argv[1:]
    logging.basicConfig(level=logging.CRITICAL)
    doing = ["start the clients that work all the time"]
    # a thread, because a client may be in C code, where no Python signal handler runs
    deadline = threading.Timer(DEADLINE, give_up, (doing, DEADLINE))
    deadline.daemon = True
    deadline.start()
    with ExitStack() as stack:
        steps = steps_of(options)
        if clients := clients_beside(options):
            steady = stack.enter_context(Steady(servers, clients))
            steps.append(("wait for the other clients, which began with the first step", lambda _: steady.finished()))
        for name, step in steps:
            doing.append(name)
            _print_json(step=name)
            started = time.monotonic()
            summary = step(servers)
            _print_json(step=name, done=summary, seconds=round(time.monotonic() - started, 1))


def steps_of(options: Sequence[str]) -> list[tuple[str, Callable[[str], str]]]:
    """The steps."""
    if HEALTHY not in options:
        return [*STEPS]
    sure = [one for one in ACKS if one != UNSURE_ACKS]
    return [(name, partial(step, acks=sure) if step in (produce_orders, clicks) else step) for name, step in STEPS]


def clients_beside(options: Sequence[str]) -> list[Client]:
    """The clients that work beside the steps."""
    if STEPS_ONLY in options:
        return []
    return [client for client in CLIENTS if not (HEALTHY in options and client.finding)]


def give_up(doing: list[str], seconds: float) -> None:
    """Ends the program at once, with a line on standard error. `doing`: the steps so far, the unfinished one last."""
    done = f"; done before: {', '.join(doing[:-1])}" if doing[:-1] else ""
    print(f"out of time {seconds:g} s after the start, in the step: {doing[-1]}{done}", file=sys.stderr, flush=True)
    os._exit(1)


def _print_json(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
