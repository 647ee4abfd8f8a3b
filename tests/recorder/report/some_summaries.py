"""Plausible reports: with something in every section, quiet, of hostile peers, of the largest size, and empty."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from itertools import cycle, repeat
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from recorder.analysis.summary.bounds import MAX_ROWS, Bounded, Marks, Series, Table, Timeline, Top
from recorder.analysis.summary.sections.clients import Client, Clients, SoftwareTotals
from recorder.analysis.summary.sections.connections import CloseCause, Connections, ConnectionsOfClient
from recorder.analysis.summary.sections.coverage import Coverage, ReadOfApi
from recorder.analysis.summary.sections.delivery import Delivery, DeliveryOfTopic
from recorder.analysis.summary.sections.errors import ErrorOfApi, Errors
from recorder.analysis.summary.sections.events import Event, Events
from recorder.analysis.summary.sections.findings import Evidence, Finding, Findings, Severity, Unit, Unjudged
from recorder.analysis.summary.sections.groups import Group, Groups, Rebalance
from recorder.analysis.summary.sections.latency import HeatCell, Latency, LatencyOfApi, LatencyOfNode
from recorder.analysis.summary.sections.metadata import Metadata, MetadataChange
from recorder.analysis.summary.sections.method import Method, Threshold
from recorder.analysis.summary.sections.partitions import LoadOfNode, Partition, Partitions
from recorder.analysis.summary.sections.topics import EventsOfTopic, Side, Topics, TopicTotals, TopicUse
from recorder.analysis.summary.sections.traffic import Traffic, TrafficOfApi
from recorder.analysis.summary.whole import Summary
from recorder.missing import Gaps, Missing
from tests.hostile_text import TEXT

SECOND = 10**9
# 2026-11-20 13:05:00 UTC
START = 1_795_179_900 * SECOND
END = START + 3725 * SECOND
SESSION = "20261120T130500-7f3a"
CAPTURE = "/var/lib/kafka-wiretap/capture"
LINE = Timeline.over(START, END)
# the bins in which everything is slow
SLOW = range(34, 41)
MARKUP = "</title></style></script><img src=http://evil.example/x onerror=alert(1)>"
# markup that a cell shows whole; then all that could control a terminal or mislead a reader, in pieces that fit
EVIL = (
    MARKUP,
    '" onload="alert(1)',
    "`|](http://evil.example) <!-- ",
    *(TEXT[at : at + 12] for at in range(0, len(TEXT), 12)),
)

# API: requests, usual ms, spread, bytes of a request and of its response
_APIS = {
    "Produce": (181_204, 2.4, 0.5, 9_300, 96),
    "Fetch": (96_310, 3.1, 0.7, 140, 17_600),
    "OffsetCommit": (12_044, 1.4, 0.4, 210, 80),
    "Heartbeat": (7_210, 0.5, 0.3, 90, 16),
    "Metadata": (1_406, 1.1, 0.6, 120, 2_900),
    "InitProducerId": (312, 7.5, 0.8, 70, 30),
    "FindCoordinator": (118, 0.9, 0.4, 60, 70),
    "ListOffsets": (96, 0.8, 0.3, 110, 90),
    "ApiVersions": (318, 0.4, 0.3, 60, 420),
}
_TOPICS = {
    "orders": (12, 912_000_000, 2.9),
    "payments": (6, 341_000_000, 1.0),
    "clickstream.raw": (48, 288_000_000, 1.1),
    "inventory-updates": (6, 64_000_000, 2.0),
    "audit.v2": (3, 21_000_000, 0.0),
    "email-outbox": (3, 9_400_000, 1.0),
    "__consumer_offsets": (50, 0, 0.0),
}


def lively() -> Summary:
    """A shop's hour: a slow disk, a stuck consumer, an old client, a hot partition, a gap."""
    dice = random.Random(5)
    return Summary(
        LINE,
        _coverage(dice),
        _findings(),
        _latency(dice),
        _delivery(dice),
        _errors(dice),
        _traffic(dice),
        _topics(),
        _groups(dice),
        _partitions(dice),
        _clients(),
        _metadata(),
        _connections(dice),
        _events(),
        _method(),
    )


def _wave(dice: random.Random, base: float, spread: float = 0.15) -> tuple[float, ...]:
    """Returns a value per bin around `base`, with an afternoon's ups and downs."""
    return tuple(
        base * (1 + 0.35 * math.sin(at / LINE.bins * 5)) * math.exp(dice.gauss(0, spread)) for at in range(LINE.bins)
    )


def _coverage(dice: random.Random) -> Coverage:
    busy = [round(value) for value in _wave(dice, 4900)]
    lost = [None] * LINE.bins
    busy[47] //= 3
    return Coverage(
        capture=CAPTURE,
        sessions=Table((SESSION,)),
        clusters=("main",),
        first_at_ns=START,
        last_at_ns=END,
        frames=598_036,
        exchanges=299_018,
        bytes=3_442_000_000,
        missing=Missing([Gaps("queue_full", 2, 0, 8_204, 61_000_000)], cut_frames=12, cut_bytes=9_100),
        exchanges_over_time=Series("requests", tuple(busy)),
        lost_over_time=Series("frames lost", (*lost[:47], 6_112, 2_092, *lost[49:])),
        read=Table((ReadOfApi("Fetch", 96_301, 96_214, {"cut": 12, "too_large": 75}),)),
    )


def _findings() -> Findings:
    found = (
        Finding(
            "gaps",
            Severity.CRITICAL,
            "the capture",
            "61.0 MB of traffic were not recorded: the recorder's queue was full twice",
            "Give the recorder more memory (--record-queue) or a faster disk; counts below are lower bounds.",
            START + 2820 * SECOND,
            START + 2940 * SECOND,
            61_000_000,
            0,
            Unit.BYTES,
            0.018,
            (Evidence(SESSION, 3, sequence=18_204, at_ns=START + 2825 * SECOND),),
        ),
        Finding(
            "slow",
            Severity.CRITICAL,
            "Produce on node 2",
            "Produce on node 2 took 412 ms at p99, usually 9.8 ms; nodes 1 and 3 stayed at their usual 9 to 11 ms",
            "Look at the disk and the request queue of node 2 from 13:39 to 13:46; acks=all makes its followers wait.",
            START + 2040 * SECOND,
            START + 2460 * SECOND,
            412.0,
            100.0,
            Unit.MS,
            0.11,
            tuple(
                Evidence(
                    SESSION,
                    12 + at,
                    exchange=4_117 + 13 * at,
                    at_ns=START + (2100 + at) * SECOND,
                    measure=981.0 - 77 * at,
                )
                for at in range(5)
            ),
        ),
        Finding(
            "stalled",
            Severity.CRITICAL,
            "group billing, orders 7",
            "Group billing has committed nothing for orders 7 since 13:44:10, and is 41 208 records behind",
            "A record that cannot be processed keeps the member from its next poll: look at offset 1 184 230.",
            START + 2350 * SECOND,
            END,
            41_208,
            0,
            evidence=(Evidence(SESSION, 31, exchange=902, at_ns=START + 2350 * SECOND),),
        ),
        Finding(
            "cut_off",
            Severity.WARNING,
            "legacy-export (kafka-python 1.4.7)",
            "kafka-python 1.4.7 sends Produce v2; Kafka 4.0 starts at v3",
            "Upgrade the client before the brokers, or leave out its setting api_version=(0, 10).",
            evidence=(Evidence(SESSION, 40, exchange=3), Evidence(SESSION, 44, exchange=3)),
        ),
        Finding(
            "hot_partition",
            Severity.WARNING,
            "orders 3",
            "orders 3 takes 3.4 times an even share of its topic",
            "Choose a key with more values, or a sticky partitioner for records without one.",
            measure=3.4,
            threshold=3.0,
            unit=Unit.RATIO,
            share=0.28,
        ),
        Finding(
            "metadata_storm",
            Severity.NOTICE,
            "cart-service, 10.0.3.44",
            "cart-service asks for metadata 2.3 times a second on each connection",
            "Share one client among threads instead of making one for each request.",
            START + 600 * SECOND,
            START + 3600 * SECOND,
            2.3,
            1.0,
            Unit.PER_SECOND,
        ),
    )
    quiet = ("errors", "unanswered", "throttled", "duplicates", "bad_crc", "churn", "empty_fetches", "rebalances")
    unjudged = (
        Unjudged("clock", "no producer sets CreateTime"),
        Unjudged("stale_leader", "no leader changed, and connections began unseen"),
    )
    return Findings(Table(found), quiet, Table(unjudged))


def _latency(dice: random.Random) -> Latency:
    rows = [_latency_of(dice, api, *facts[:3]) for api, facts in _APIS.items()]
    waits = [
        LatencyOfApi("Fetch", "wait", 61_204, 500.9, 503.2, 508.8, 611.0),
        LatencyOfApi("JoinGroup", "wait", 24, 3_004.0, 3_009.0, 3_010.2, 3_010.2),
    ]
    nodes = [
        LatencyOfNode(api, node, round(_APIS[api][0] / 3), usual, usual * (41 if node == 2 else 4), usual * 60)
        for api, usual in (("Produce", 2.4), ("Fetch", 3.1))
        for node in (1, 2, 3)
    ]
    return Latency(apis=Top((*rows, *waits)), nodes=Table(tuple(nodes)), heat=Marks(tuple(_heat(dice))), long=9_120)


def _latency_of(dice: random.Random, api: str, requests: int, usual: float, spread: float) -> LatencyOfApi:
    middle = _wave(dice, usual, 0.08)
    slow = [
        value * math.exp(2.3 * spread) * (14 if api in ("Produce", "OffsetCommit") and at in SLOW else 1)
        for at, value in enumerate(_wave(dice, usual, 0.2))
    ]
    scattered = tuple(None if requests < 400 and dice.random() < 0.5 else value for value in slow)
    known = sorted(value for value in scattered if value is not None)
    return LatencyOfApi(
        api,
        None,
        requests,
        usual,
        usual * 2.2,
        known[-4],
        known[-1] * 1.8,
        Series("p50", middle),
        Series("p99", scattered),
    )


def _heat(dice: random.Random) -> list[HeatCell]:
    cells = []
    for at in range(LINE.bins):
        for half in range(-4, 22):
            low = 2 ** (half / 2)
            near = math.exp(-(((math.log2(low) - 1.3) / 1.1) ** 2)) * 4_000
            late = math.exp(-(((math.log2(low) - 8) / 0.9) ** 2)) * 300 if at in SLOW else 0
            number = int((near + late) * math.exp(dice.gauss(0, 0.3)))
            cells += [HeatCell(at, low, low * math.sqrt(2), number)] if number else []
    return cells


def _delivery(dice: random.Random) -> Delivery:
    usual = _wave(dice, 5.5, 0.1)
    slow = tuple(value * (30 if at in SLOW else 5) for at, value in enumerate(_wave(dice, 5.5)))
    rows = [
        DeliveryOfTopic(topic, round(total / 9000), 5.2, 12.5, 44.0, 1_204.0, 18.0)
        for topic, (_, total, reads) in _TOPICS.items()
        if reads
    ]
    return Delivery(topics=Table(tuple(rows)), usual_ms=Series("p50", usual), slow_ms=Series("p99", slow))


def _errors(dice: random.Random) -> Errors:
    rows = (
        ErrorOfApi(
            "Produce",
            "NOT_LEADER_OR_FOLLOWER",
            6,
            412,
            0.0023,
            False,
            True,
            START + 2040 * SECOND,
            None,
            "orders 3",
            "4/e811",
        ),
        ErrorOfApi(
            "OffsetCommit",
            "ILLEGAL_GENERATION",
            22,
            37,
            0.0031,
            False,
            False,
            START + 2350 * SECOND,
            END,
            "billing",
            "31/e902",
        ),
        ErrorOfApi("Fetch", "OFFSET_OUT_OF_RANGE", 1, 4, 0.0001, False, False, START, END, "audit.v2 0", "18/e77"),
        ErrorOfApi("Heartbeat", "REBALANCE_IN_PROGRESS", 27, 96, 0.013, True, True, START, END),
        ErrorOfApi("JoinGroup", "MEMBER_ID_REQUIRED", 79, 14, 0.5, True, True, START, END),
    )
    leaders = tuple(dice.randrange(30, 90) if at in SLOW else None for at in range(LINE.bins))
    commits = tuple(dice.randrange(1, 4) if at > 39 and at % 3 else None for at in range(LINE.bins))
    shown = Series("NOT_LEADER_OR_FOLLOWER", leaders), Series("ILLEGAL_GENERATION", commits)
    return Errors(errors=Table(rows), over_time=Top(shown))


def _traffic(dice: random.Random) -> Traffic:
    rows = [
        TrafficOfApi(
            api,
            number,
            number - (3 if api == "Produce" else 0),
            3 if api == "Produce" else 0,
            None,
            number * up,
            number * down,
        )
        for api, (number, _, _, up, down) in _APIS.items()
    ]
    over = [Series(row.api, tuple(round(value) for value in _wave(dice, row.bytes / LINE.bins))) for row in rows]
    return Traffic(apis=Top(tuple(rows)), bytes_over_time=Top(tuple(over[:5]), other=over[6]))


def _topics() -> Topics:
    totals = tuple(
        TopicTotals(
            topic,
            written,
            round(written * reads),
            written // 410,
            round(written * reads) // 410,
            partitions,
            2,
            round(reads),
        )
        for topic, (partitions, written, reads) in _TOPICS.items()
    )
    use = [
        TopicUse(
            row.topic,
            side,
            f"{row.topic.split('.')[0]}-{side.value[:-1]}r",
            software,
            "User:app",
            group,
            number,
            number // 410,
            START,
            END,
        )
        for row in totals
        for side, software, group, number in (
            (Side.WRITES, "apache-kafka-java 3.9.1", None, row.written_bytes),
            (Side.READS, "confluent-kafka-python 2.6.1", "billing", row.read_bytes),
        )
        if number
    ]
    events = (
        EventsOfTopic("payments", "binary", written=880, read=880),
        EventsOfTopic("payments", "binary", "3.2.1", "header ce_datacontenttype", written=12, read=9),
        EventsOfTopic("payments", "structured", written=40),
    )
    return Topics(totals=Top(totals), use=Table(tuple(use)), cloudevents=Table(events))


def _groups(dice: random.Random) -> Groups:
    stuck = tuple(0 if at < 40 else (at - 39) * 1_960 + dice.randrange(400) for at in range(LINE.bins))
    rows = (
        Group(
            "billing",
            "classic",
            4,
            5,
            ("orders", "payments"),
            3,
            5_310,
            stuck[-1],
            stuck[-1],
            1_240_000.0,
            START + 2350 * SECOND,
            Series("lag", stuck),
        ),
        Group(
            "search-indexer",
            "consumer",
            6,
            6,
            ("inventory-updates",),
            1,
            2_204,
            0,
            1_904,
            0.0,
            None,
            Series("lag", _saw(dice, 1_900)),
        ),
        Group(
            "clickstream-etl",
            "classic",
            12,
            13,
            ("clickstream.raw",),
            9,
            11_020,
            208,
            9_120,
            140.0,
            None,
            Series("lag", _saw(dice, 9_000)),
        ),
        Group("email", "share", 3, 3, ("email-outbox",)),
    )
    began = [
        (600, "billing", 4, "joined"),
        (612, "billing", 3, "follow_up"),
        (2_350, "billing", 31, "lost"),
    ]
    began += [(200 + 380 * at, "clickstream-etl", 6 + at, "lost" if at % 3 == 1 else "joined") for at in range(9)]
    rebalances = [
        Rebalance(
            group,
            START + at * SECOND,
            START + (at + took) * SECOND,
            cause,
            4,
            number,
            "need to revoke partitions and re-join",
        )
        for number, (at, group, took, cause) in enumerate(sorted(began), 1)
    ]
    return Groups(groups=Top(rows), rebalances=Table(tuple(rebalances)))


def _saw(dice: random.Random, most: int) -> tuple[int, ...]:
    return tuple(round(most * ((at * 7) % 23) / 23 * dice.random()) for at in range(LINE.bins))


def _partitions(dice: random.Random) -> Partitions:
    marks = []
    for topic, (number, written, reads) in _TOPICS.items():
        shares = [math.exp(dice.gauss(0, 0.25)) for _ in range(number)]
        if topic == "orders":
            shares[3] = 3.4 * sum(shares[:3] + shares[4:]) / (number - 3.4)
        for at, part in enumerate(shares):
            skew = part * number / sum(shares) if written else None
            own = round(written * part / sum(shares))
            in_sync = 2 if topic == "payments" and at == 2 else 3
            marks.append(Partition(topic, at, at % 3 + 1, own, round(own * reads), skew, 3, in_sync))
    nodes = tuple(LoadOfNode(node, 43, 520_000_000 + node * 9_000_000, 1_400_000_000) for node in (1, 2, 3))
    return Partitions(partitions=Marks(tuple(marks)), nodes=Table(nodes))


def _clients() -> Clients:
    rows = [
        Client(
            "orders-writer",
            "apache-kafka-java",
            "3.9.1",
            "User:shop",
            "10.0.3.17",
            6,
            120_400,
            1_700_000_000,
            START,
            END,
        ),
        Client(
            "billing",
            "confluent-kafka-python",
            "2.6.1",
            "User:billing",
            "10.0.3.21",
            4,
            61_000,
            880_000_000,
            START,
            END,
        ),
        Client(
            "cart-service", "sarama", "1.43.3", "User:shop", "10.0.3.44", 38, 14_200, 31_000_000, START, END, "unsure"
        ),
        Client(
            "legacy-export",
            "kafka-python",
            "1.4.7",
            None,
            "10.0.9.2",
            2,
            3_120,
            21_000_000,
            START,
            END,
            "cut",
            "Produce v2",
        ),
        Client(
            "search-indexer",
            "apache-kafka-java",
            "4.0.0",
            "User:search",
            "10.0.3.60",
            6,
            22_900,
            128_000_000,
            START,
            END,
        ),
    ]
    software = [
        SoftwareTotals("apache-kafka-java", "3.9.1", 1, 120_400),
        SoftwareTotals("confluent-kafka-python", "2.6.1", 1, 61_000),
        SoftwareTotals("apache-kafka-java", "4.0.0", 1, 22_900),
        SoftwareTotals("sarama", "1.43.3", 1, 14_200),
        SoftwareTotals("kafka-python", "1.4.7", 1, 3_120, 1),
    ]
    return Clients(clients=Table(tuple(rows)), software=Top(tuple(software)))


def _metadata() -> Metadata:
    rows = (
        MetadataChange(START + 2040 * SECOND, "orders 3", "leader", "2", "3"),
        MetadataChange(START + 2041 * SECOND, "payments 0, payments 2 and 4 more", "in sync", "1, 2, 3", "1, 3"),
        MetadataChange(START + 2460 * SECOND, "orders 3", "leader", "3", "2"),
    )
    moved = {(2040 * SECOND) // LINE.bin_ns: 1, (2460 * SECOND) // LINE.bin_ns: 1}
    lost = {(2041 * SECOND) // LINE.bin_ns: 6}
    bars = [
        Series(name, tuple(at_bin.get(at, 0) for at in range(LINE.bins)))
        for name, at_bin in (("leader", moved), ("in sync", lost))
    ]
    return Metadata(changes=Table(rows), over_time=Top(tuple(bars)))


def _connections(dice: random.Random) -> Connections:
    opened = tuple(dice.choice((None, None, 1, 2, 3)) if at not in SLOW else 14 for at in range(LINE.bins))
    rows = (
        ConnectionsOfClient("cart-service, 10.0.3.44", 38, 2, 41_000.0, 31_000_000, {"client closed": 36}),
        ConnectionsOfClient("orders-writer, 10.0.3.17", 6, 6, None, 1_700_000_000),
        ConnectionsOfClient(
            "legacy-export, 10.0.9.2", 2, 0, 880_000.0, 21_000_000, {"client closed": 1, "broker reset": 1}
        ),
    )
    causes = CloseCause("client closed", 221), CloseCause("broker reset", 9), CloseCause("idle", 4)
    return Connections(total=312, opened=Series("opened", opened), clients=Table(rows), causes=Table(causes))


def _events() -> Events:
    rows = (
        Event(START, "session", "the proxy began"),
        Event(START + 4 * SECOND, "node", "node 3 at kafka-3.shop.example:9092"),
        Event(START + 91 * SECOND, "login", "SCRAM-SHA-256 was refused", f"{SESSION}/9"),
        Event(START + 2820 * SECOND, "gap", "6 112 frames were not recorded: queue_full"),
        Event(END, "session", "the proxy ended in order"),
    )
    return Events(events=Table(rows))


def _method() -> Method:
    return Method(
        program="kafka-wiretap 0.1.0",
        made_at_ns=END + 600 * SECOND,
        took_ns=41 * SECOND,
        window_ns=60 * SECOND,
        notes=("The ratio of compression was measured on 1 % of the batches, chosen by a hash.",),
        thresholds=Table(
            (
                Threshold("slow", 100, Unit.MS, must_last=True),
                Threshold("hot_partition", 3, Unit.RATIO),
                Threshold("metadata_storm", 1, Unit.PER_SECOND, is_own=True),
                Threshold("uncompressed", 0.1, Unit.SHARE),
                Threshold("small_batches", 1024, Unit.BYTES),
            )
        ),
    )


def quiet() -> Summary:
    """Half a minute of one client, without problems and without bodies."""
    line = Timeline.over(START, START + 30 * SECOND)
    why = "the capture holds no bodies"
    row = LatencyOfApi("Produce", None, 30, 1.1, 1.9, 2.4, 2.4, Series("p50", (1.1,)), Series("p99", (2.4,)))
    return Summary(
        timeline=line,
        coverage=Coverage(
            capture="capture", first_at_ns=START, last_at_ns=START + 30 * SECOND, frames=60, exchanges=30, bytes=9_000
        ),
        findings=Findings(quiet=("slow",), unjudged=Table((Unjudged("stalled", why),))),
        latency=Latency(apis=Top((row,))),
        traffic=Traffic(apis=Top((TrafficOfApi("Produce", 30, 30, 0, 0, 8_000, 1_000),))),
        delivery=Delivery(not_judged=why),
        errors=Errors(not_judged=why),
        topics=Topics(not_judged=why),
        groups=Groups(not_judged=why),
        partitions=Partitions(not_judged=why),
    )


def nothing() -> Summary:
    """The report of a capture without a frame."""
    return Summary()


def judged_nowhere() -> Summary:
    """A report in which no section could be made; the reason is foreign text, too."""
    whole = Summary()
    named = [one.name for one in fields(Summary) if one.name != "timeline"]
    return replace(
        whole, **{name: replace(getattr(whole, name), not_judged=f"because of {MARKUP}{TEXT}") for name in named}
    )


def hostile() -> Summary:
    """A report in which every name is hostile."""
    return _filled(Summary, 5, cycle(EVIL), LINE)


def largest() -> Summary:
    """The largest possible report, with the longest names, in the letter that takes the most bytes: &#39;."""
    return _filled(Summary, MAX_ROWS, repeat("'" * 8000), Timeline(START, 60 * SECOND, 120))


Value = TypeVar("Value")


def _filled(kind: type[Value], rows: int, texts: Iterator[str], line: Timeline) -> Value:
    """Returns a value of this class, with so many rows in each table, and these texts in its strings."""
    return kind(
        **{name: _of(hint, name, rows, texts, line) for name, hint in get_type_hints(kind).items() if name != "most"}
    )


def _of(hint: Any, name: str, rows: int, texts: Iterator[str], line: Timeline) -> Any:
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if name == "not_judged":
        return None
    if name == "consequences":
        # a finding holds findings, but not at any depth
        made = [
            Finding(next(texts), Severity.CRITICAL, next(texts), next(texts), next(texts)) for _ in range(min(rows, 5))
        ]
        return tuple(made)
    if kind is Timeline:
        return line
    if kind is Series:
        return Series(next(texts), tuple(1.0 + at % 7 for at in range(line.bins)))
    if isinstance(kind, type) and issubclass(kind, Bounded):
        made = [
            _row(arguments[0], at, rows, texts, line) for at in range(max(rows, 1) if rows < MAX_ROWS else kind.most)
        ]
        return kind(tuple(made), 10**9)
    if kind in (tuple, list):
        return kind(_row(arguments[0], at, rows, texts, line) for at in range(min(rows, 5)))
    if kind is dict:
        return {f"{next(texts)}{at}": 1_000_003 for at in range(5)}
    if NoneType in arguments:
        return _of(next(one for one in arguments if one is not NoneType), name, rows, texts, line)
    if isinstance(kind, type) and is_dataclass(kind):
        return _filled(kind, rows, texts, line)
    return _simple(kind, name, texts)


def _row(kind: Any, at: int, rows: int, texts: Iterator[str], line: Timeline) -> Any:
    """Returns a row of a table; marks don't overlap."""
    if kind is HeatCell:
        return HeatCell(at % line.bins, 2.0 ** (at // line.bins), 2.0 ** (at // line.bins + 1), 1 + at * 7919 % 100_000)
    if kind is Partition:
        return replace(
            _filled(Partition, rows, texts, line), topic=f"{at % 20} {next(texts)[:300]}", partition=at, skew=at % 7 / 2
        )
    return _of(kind, "", rows, texts, line)


def _simple(kind: Any, name: str, texts: Iterator[str]) -> Any:
    if kind is str:
        return next(texts)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    if kind is bool:
        return True
    if name.endswith(("at_ns", "from_ns", "to_ns")):
        return START + 61 * SECOND
    return kind(1_234_567)
