"""Members of groups that misbehave for a while, and corrected ones, as in `misuse`.

Each reads a topic of its own, to which one producer keeps sending records in batches.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import aiokafka
from aiokafka.errors import KafkaError
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from tests.brokers import children
from tests.clients.workloads.confluent import place_of
from tests.clients.workloads.misuse import NOISE, Client, Work

# topics, and the partitions of each
TOPICS = dict.fromkeys(("silent", "poison", "sluggish", "each", "left", "busy", "heavy", "crowded", "forgotten"), 1) | {
    "back": 2,
    "restless": 2,
}
# of the rules whose thresholds are rates: a loaded machine is slow
THRESHOLDS = {"overcommit": 8.0, "rebalances": 2.0}
# how long the work between two commits takes now and then: longer than the session of a member that is not heard
SESSION_MS, LONG_WORK, COMMITS_BETWEEN = 1000, 1.5, 30
# of records that stay for a consumer that is slow to ask for the next one; its pauses, as the rule has them, and more
HEAVY_RECORDS, HEAVY_BYTES = 28, 800_000
SLOW_READERS, LONG_PAUSE = 4, 32
# A member in a process of its own, which is told on its standard input to close its consumer, or is killed.
MEMBER = """
import sys
from threading import Thread
from confluent_kafka import Consumer

told = []
Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
consumer = Consumer({"bootstrap.servers": sys.argv[1], "client.id": "silent", "group.id": "silent",
                     "session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
consumer.subscribe(["silent"])
while not told:
    consumer.poll(0.2)
consumer.close()
"""


def comes_and_goes(work: Work) -> None:
    with _member(work, "restless") as steady:
        while work.goes_on(0):
            with _member(work, "restless") as brief:
                _polls(7, steady, brief)
            _polls(3, steady)


def stays(work: Work) -> None:
    commits = {"enable.auto.commit": True}
    with _member(work, "restless", **commits) as one, _member(work, "restless", **commits) as other:
        while work.goes_on(0):
            _polls(1, one, other)


def is_one_too_many(work: Work) -> None:
    """Two members read a topic of one partition."""
    commits = {"enable.auto.commit": True}
    with _member(work, "crowded", **commits) as one, _member(work, "crowded", **commits) as other:
        while work.goes_on(0):
            _polls(1, one, other)


def is_enough(work: Work) -> None:
    _reads_all(work, "crowded")


def never_commits(work: Work) -> None:
    with _member(work, "forgotten") as member:
        while work.goes_on(0):
            _polls(1, member)


def commits_now_and_then(work: Work) -> None:
    _reads_all(work, "forgotten")


def ends_silently(work: Work) -> None:
    _with_another(work, lambda child: child.kill())


def says_good_bye(work: Work) -> None:
    _with_another(work, lambda child: child.communicate("leave\n", timeout=30))


def _with_another(work: Work, end: Callable[[subprocess.Popen[str]], object]) -> None:
    """A member that stays, and one that ends once."""
    command = [sys.executable, "-c", MEMBER, work.bootstrap]
    with _member(work, "silent", **{"session.timeout.ms": 6000, "enable.auto.commit": True}) as stays_on:
        child = children.spawn(command, stdin=subprocess.PIPE, text=True)
        _polls(50, stays_on)
        end(child)
        child.wait()
        while work.goes_on(0):
            _polls(1, stays_on)


def tries_again_and_again(work: Work) -> None:
    with _member(work, "poison") as member:
        _commits_one(member)
        while work.goes_on(0.2):
            # what comes behind the commit can't be processed
            for message in member.consume(10, 0.2):
                member.seek(place_of(message))


def passes_it_by(work: Work) -> None:
    _reads_all(work, "poison")


def is_too_slow(work: Work) -> None:
    with _member(work, "sluggish") as member:
        while work.goes_on(0.5):
            _commits_one(member)


def keeps_up(work: Work) -> None:
    _reads_all(work, "sluggish")


def commits_each(work: Work) -> None:
    with _member(work, "each") as member:
        while work.goes_on(0):
            for message in member.consume(100, 0.2):
                member.commit(message=message, asynchronous=False)


def commits_by_time(work: Work) -> None:
    _reads_all(work, "each")


def goes_home(work: Work) -> None:
    with _member(work, "left") as member:
        _commits_one(member)
    while work.goes_on(1):
        pass


def reads_on(work: Work) -> None:
    _reads_all(work, "left")


def polls_seldom(work: Work) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(_heavy(work)) for _ in range(SLOW_READERS)]
        for pause in (LONG_PAUSE, LONG_PAUSE, 1):
            for reader in readers:
                reader.poll(10)
            work.goes_on(pause)
        while work.goes_on(1):
            pass


def polls_often(work: Work) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(_heavy(work)) for _ in range(SLOW_READERS)]
        while work.goes_on(0):
            _polls(1, *readers)


@contextmanager
def _heavy(work: Work) -> Iterator[Consumer]:
    """Fetches a record when it has given the one before to its application."""
    room = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1, "fetch.message.max.bytes": HEAVY_BYTES}
    own = {"group.id": "heavy", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    reader = Consumer(work.settings("heavy", **own, **room))
    reader.assign([TopicPartition("heavy", 0, OFFSET_BEGINNING)])
    try:
        yield reader
    finally:
        reader.close()


def comes_back_by_the_classic_protocol(work: Work) -> None:
    _comes_back(work, "classic")


def comes_back_by_the_newer_one(work: Work) -> None:
    _comes_back(work, "consumer")


def _comes_back(work: Work, protocol: str) -> None:
    """Two static members that give their topics up and subscribe to them again, every five seconds."""
    own = {"group.id": "back", "group.protocol": protocol, "auto.offset.reset": "latest", "enable.auto.commit": True}
    members = [Consumer(work.settings("back", **own, **{"group.instance.id": f"back-{name}"})) for name in "ab"]
    while work.goes_on(0.5):
        for member in members:
            member.subscribe(["back"])
        for _ in range(10):
            for member in members:
                member.consume(500, 0.2)
        for member in members:
            member.unsubscribe()
    for member in members:
        member.close()


def blocks_its_event_loop(work: Work) -> None:
    async def works_long() -> None:
        # heartbeats have to wait
        time.sleep(LONG_WORK)

    asyncio.run(_works_and_commits(work, works_long))


def works_beside_its_event_loop(work: Work) -> None:
    async def works_long() -> None:
        await asyncio.to_thread(time.sleep, LONG_WORK)

    asyncio.run(_works_and_commits(work, works_long))


async def _works_and_commits(work: Work, works_long: Callable[[], Awaitable[None]]) -> None:
    """A member (aiokafka) that commits often, and after long work."""
    own = {"client_id": "busy", "group_id": "busy", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    times = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 5}
    async with aiokafka.AIOKafkaConsumer("busy", bootstrap_servers=work.bootstrap, **own, **times) as member:
        while work.goes_on(0):
            for _ in range(COMMITS_BETWEEN):
                await member.getmany(timeout_ms=120)
                await _commits(member)
            await works_long()
            await _commits(member)


async def _commits(member: aiokafka.AIOKafkaConsumer) -> None:
    # it is told so when it has been given up, and joins again
    with suppress(KafkaError):
        await member.commit()


def _reads_all(work: Work, name: str) -> None:
    with _member(work, name, **{"enable.auto.commit": True, "auto.commit.interval.ms": 1000}) as member:
        while work.goes_on(0):
            member.consume(100, 0.2)


def _commits_one(member: Consumer) -> None:
    """Reads a record, and commits it."""
    message: Message | None = None
    while message is None or message.error():
        message = member.poll(1)
    member.commit(message=message, asynchronous=False)


def _polls(times: int, *members: Consumer) -> None:
    for _ in range(times):
        for member in members:
            member.poll(0.2)


@contextmanager
def _member(work: Work, name: str, **own: object) -> Iterator[Consumer]:
    """A member of the group of that name, which reads the topic of that name; it leaves in the end."""
    settings = {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    member = Consumer(work.settings(name, **settings | {"heartbeat.interval.ms": 500} | own))
    member.subscribe([name])
    try:
        yield member
    finally:
        member.close()


def fills(work: Work) -> None:
    """Sends to all topics, some records a second in a batch; the heavy ones once."""
    producer = Producer(work.settings("fills", **{"linger.ms": 1000, "compression.type": "gzip"}))
    for _ in range(HEAVY_RECORDS):
        producer.produce("heavy", NOISE[:HEAVY_BYTES], partition=0)
        producer.flush(30)
    number = 0
    while work.goes_on(0.05):
        for name in TOPICS.keys() - {"heavy"}:
            producer.produce(name, NOISE[:500], partition=number % TOPICS[name])
        producer.poll(0)
        number += 1
    producer.flush(30)


# the rules that each member is found by; and the same member mended, which none finds
CLIENTS: tuple[tuple[tuple[str, ...], Client, Client], ...] = (
    (("rebalances",), comes_and_goes, stays),
    (("idle_members",), is_one_too_many, is_enough),
    (("never_commits",), never_commits, commits_now_and_then),
    (("silent_leave",), ends_silently, says_good_bye),
    (("stalled",), tries_again_and_again, passes_it_by),
    (("falls_behind",), is_too_slow, keeps_up),
    (("overcommit",), commits_each, commits_by_time),
    (("abandoned",), goes_home, reads_on),
    (("slow_consumer",), polls_seldom, polls_often),
    (("classic_group",), comes_back_by_the_classic_protocol, comes_back_by_the_newer_one),
    (("stale_commit",), blocks_its_event_loop, works_beside_its_event_loop),
    ((), fills, fills),
)
