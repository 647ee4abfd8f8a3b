"""Plausible results of replays: a clean one, one with every kind of problem, one of hostile peers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache

from proxy.wire.catalog import encode_request, encode_response
from proxy.wire.keys import DESCRIBE_CONFIGS, OFFSET_COMMIT, PRODUCE
from recorder.replay.durations import Durations
from recorder.replay.outcome import (
    ApiCounts,
    BeforeKind,
    Cause,
    Difference,
    Ending,
    FromBefore,
    Latency,
    Mismatch,
    Plan,
    ReachedTarget,
    Result,
    Source,
    Stream,
    Touched,
)
from recorder.replay.plan import Exchange, Origin, Peer, Reason
from recorder.replay.results import mismatches
from tests.hostile_text import TEXT

SECOND = 10**9
# 2026-11-20 13:05:00 UTC
START = 1_795_179_900 * SECOND
SESSION = "20261120T130500-7f3a"
SECRET = "hunter2-is-no-password"
SOURCE = Source("/var/lib/kafka-wiretap/capture", (SESSION, "20261120T150000-91c2"), START, START + 3725 * SECOND)
TARGET = ReachedTarget(
    "staging-1.example:9092,staging-2.example:9092",
    "q1Sh-9_ISia_zwGINzRvyQ",
    {1: "staging-1.example:9092", 2: "staging-2.example:9092", 3: "staging-3.example:9092"},
)
OPTIONS = ("twice as fast", "names with the prefix replay-", "--max-mismatches 0")

# API: number of exchanges, median and spread of the latency in ms, how much slower the target is
_APIS = {
    "Produce": (181_204, 2.1, 0.5, 1.3),
    "Fetch": (96_310, 4.0, 0.9, 1.1),
    "OffsetCommit": (12_044, 1.4, 0.4, 0.9),
    "Heartbeat": (7_210, 0.6, 0.3, 1.0),
    "Metadata": (1_406, 1.1, 0.6, 2.6),
    "InitProducerId": (312, 7.5, 0.8, 1.2),
    "FindCoordinator": (118, 0.9, 0.4, 1.1),
    "ListOffsets": (96, 0.8, 0.3, 1.0),
    "JoinGroup": (24, 0.0, 0.0, 1.0),
}


def durations(each_ns: Iterable[int]) -> Durations:
    """Returns durations of these lengths."""
    made = Durations()
    for one in each_ns:
        made.add(one)
    return made


def equal() -> Result:
    """A replay without differences."""
    result = deepcopy(_begun())
    for name, (recorded, *_) in _APIS.items():
        result.apis[name] = ApiCounts(recorded=recorded, sent=recorded, answered=recorded)
    result.streams = [Stream("10.0.3.17 orders-app", "orders", at, equal=14_000 + at) for at in range(6)]
    result.made = Counter({"Metadata, for leaders and topic ids": 14, "FindCoordinator": 6})
    return result


def different() -> Result:
    """A replay with something in every table."""
    result = equal()
    produce, fetch, commit = (result.apis[name] for name in ("Produce", "Fetch", "OffsetCommit"))
    produce.sent, produce.answered, produce.lost, produce.retried = 180_772, 180_769, 3, 41
    produce.recorded += 1_311
    produce.withheld = Counter({Reason.NO_PRODUCER: 411, Reason.NO_SESSION: 21, Reason.REFUSED: 1_311})
    produce.partitions = Counter({Reason.NO_TOPIC: 96, Reason.REFUSED: 7})
    fetch.sent = fetch.answered = 96_298
    fetch.withheld = Counter({Reason.NO_TOPIC: 12})
    commit.mismatches = Counter({"error": 118, "value": 4})
    produce.mismatches = Counter({"error": 3})
    result.apis["AlterConfigs"] = ApiCounts(recorded=6, withheld=Counter({Reason.NEEDS_ADMIN: 6}))
    result.mismatches = [*_commits(9), produce_mismatch(), *_commits(90)]
    result.streams += [
        Stream("10.0.3.17 orders-app", "payments", 0, equal=8_120, missing=3),
        Stream("10.0.3.18 orders-app", "payments", 1, equal=8_004, reordered=12, extra=1),
        Stream("10.0.4.2 audit", "payments", 2, equal=7_990, unread=377),
    ]
    result.streams.append(Stream("10.0.4.2 audit", "payments", 3, equal=40, before=1_204))
    result.before = (
        FromBefore(BeforeKind.RECORDS, "payments", 1_204),
        FromBefore(BeforeKind.OFFSET, "payments", 3),
        FromBefore(BeforeKind.MEMBER, "audit", 17),
    )
    result.stood_still_ns = Counter({"the target's answer to Heartbeat": 12 * SECOND})
    result.left_open = ["transaction billing-7 (EndTxn: no answer)"]
    result.maybe_twice = Counter({"payments": 1_200, "audit": 30})
    return result


def interrupted() -> Result:
    """A replay that Ctrl-C has ended."""
    result = different()
    result.ending, result.position_ns = Ending.INTERRUPTED, 1_204 * SECOND
    return result


def hostile() -> Result:
    """A replay of a capture in which every name tries to control a terminal or a page."""
    evil = f"</script><img src=http://evil.example/x onerror=alert(1)>{TEXT}"
    result = interrupted()
    result.source = replace(SOURCE, capture=f"/tmp/{evil}", sessions=(evil,))
    result.target = ReachedTarget(evil, evil, {1: evil})
    result.options = (evil,)
    result.apis[evil] = ApiCounts(recorded=1, withheld=Counter({evil: 1}), mismatches=Counter({evil: 1}))
    result.made[evil] = 1
    result.before = (FromBefore(BeforeKind.RECORDS, evil, 1),)
    result.stood_still_ns[evil] = SECOND
    result.latency[evil] = Latency(durations([5, 6]), durations([7]))
    result.left_open.append(evil)
    result.streams.append(Stream(evil, evil, 0, missing=1))
    difference = Difference(f"topics[{evil}].name", evil, evil)
    result.mismatches.insert(0, replace(_commits(1)[0], session=evil, api=evil, kind=evil, differences=(difference,)))
    return result


@cache
def _begun() -> Result:
    """A result with all durations. They are drawn once: it takes as long as everything else that a test does."""
    chance = random.Random(1)
    result = Result(SOURCE, TARGET, OPTIONS, START + 90_000 * SECOND, START + 91_870 * SECOND, SOURCE.span_ns)
    for name, (recorded, median, spread, slower) in _APIS.items():
        if median:
            latency = result.latency.setdefault(name, Latency())
            for _ in range(min(recorded, 2_000)):
                latency.recorded.add(int(1e6 * median * chance.lognormvariate(0, spread)))
                latency.replayed.add(int(1e6 * median * slower * chance.lognormvariate(0, spread)))
    for _ in range(300):
        polls = result.latency_of("Fetch", "empty polls")
        polls.recorded.add(int(chance.uniform(480e6, 505e6)))
        polls.replayed.add(int(chance.uniform(495e6, 512e6)))
    for _ in range(3_000):
        own, others = (int(chance.expovariate(1 / 4e5)) if chance.random() < 0.3 else 0 for _ in range(2))
        itself = int(chance.expovariate(1 / 1.2e5))
        parts = {Cause.OWN_ANSWERS: own, Cause.OTHER_ANSWERS: others, Cause.REPLAY: itself}
        result.add_late(sum(parts.values()), parts)
    return result


def _commits(number: int) -> list[Mismatch]:
    return [commit_mismatch(at) for at in range(number)]


def commit_mismatch(at: int = 0) -> Mismatch:
    """An OffsetCommit that the target refuses; the recorded response has an older version."""
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 4_000 + at}]}]
    values = {"group_id": "orders-app", "generation_id_or_member_epoch": 3, "member_id": "m-1", "topics": topics}
    ok, refused = (
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": code}]}]} for code in (0, 22)
    )
    exchange = Exchange(
        Origin(SESSION, 4, 8 + at),
        OFFSET_COMMIT,
        6,
        encode_request(OFFSET_COMMIT, 6, at, "orders-app", values),
        at * SECOND,
        at * SECOND,
        Peer("10.0.3.17", "orders-app"),
        answer_frame=encode_response(OFFSET_COMMIT, 6, at, ok),
    )
    difference = Difference("topics[orders].partitions[0].error_code", "0", "22")
    answer = encode_response(OFFSET_COMMIT, 6, at, refused | {"throttle_time_ms": 5})
    return mismatches.of_exchange(exchange, "error", [difference], answer, at_ns=START + at * SECOND)


def produce_mismatch() -> Mismatch:
    """A Produce with a response only from the recorded cluster."""
    exchange = Exchange(
        Origin(SESSION, 7, 311),
        PRODUCE,
        9,
        encode_request(PRODUCE, 9, 1, "billing", {"acks": -1, "timeout_ms": 30_000, "topic_data": []}),
        0,
        0,
        Peer("10.0.3.20", "billing"),
        answer_frame=encode_response(PRODUCE, 9, 1, {"responses": []}),
    )
    return mismatches.of_exchange(exchange, "unanswered", [], None, at_ns=START)


def secret_mismatch() -> Mismatch:
    """A DescribeConfigs whose recorded response is masked, but not the target's."""

    def answer(value: str) -> bytes:
        config = {"name": "sasl.jaas.config", "value": value, "config_source": 5}
        result = {"error_code": 0, "resource_type": 2, "resource_name": "orders", "configs": [config]}
        return encode_response(DESCRIBE_CONFIGS, 4, 1, {"results": [result]})

    exchange = Exchange(
        Origin(SESSION, 9, 2),
        DESCRIBE_CONFIGS,
        4,
        encode_request(DESCRIBE_CONFIGS, 4, 1, "admin", {"resources": []}),
        0,
        0,
        Peer("10.0.3.21", "admin"),
        answer_frame=answer("\0" * len(SECRET)),
    )
    difference = Difference("results[2 orders].configs[sasl.jaas.config].value", "\0" * len(SECRET), SECRET)
    return mismatches.of_exchange(exchange, "value", [difference], answer(SECRET))


def plan() -> Plan:
    """The plan of a replay of the same capture."""
    return Plan(
        SOURCE,
        TARGET,
        OPTIONS,
        # some requests of both APIs go to two nodes
        requests=Counter({"Produce": 180_000, "Fetch": 96_200, "OffsetCommit": 12_044}),
        sent=Counter(
            {
                ("Produce", 1): 60_211,
                ("Produce", 2): 60_300,
                ("Produce", 3): 60_261,
                ("Fetch", 1): 48_100,
                ("Fetch", 2): 48_198,
                ("OffsetCommit", None): 12_044,
            }
        ),
        withheld=Counter(
            {
                ("Produce", Reason.REFUSED.value): 8,
                ("Produce", Reason.NO_SESSION.value): 21,
                ("AlterConfigs", Reason.NEEDS_ADMIN.value): 6,
            }
        ),
        partitions=Counter({Reason.NO_TOPIC.value: 96}),
        made=Counter({"CreateTopics (--create-topics)": 2}),
        topics=(
            Touched("replay-orders", 181_000, is_written=True),
            Touched("replay-payments", 96_000, is_written=True),
            Touched("replay-catalog", 311),
        ),
        groups=(Touched("replay-orders-app", 12_044, is_written=True), Touched("replay-audit", 40)),
        transactions=(Touched("replay-billing-1", 800, is_written=True),),
    )
