"""Sides of comparisons: two that differ in everything, hostile names, and an empty capture."""

from __future__ import annotations

from typing import Any

from recorder.analysis.change.facts import (
    ApiFacts,
    CaptureFacts,
    ClientFacts,
    ErrorFacts,
    ManyClients,
    TopicFacts,
    VersionFacts,
)
from recorder.analysis.summary.bounds import Table, Top
from recorder.analysis.summary.sections.delivery import DeliveryOfTopic
from recorder.analysis.summary.sections.findings import Evidence, Finding, Findings, Severity, Unit
from recorder.analysis.summary.sections.groups import Group
from recorder.analysis.summary.sections.partitions import LoadOfNode
from recorder.missing import Gaps, Missing
from tests.hostile_text import TEXT

_AT = 1_795_399_675 * 10**9
_SECOND = 10**9


def finding(rule: str, subject: str, measure: float | None, unit: Unit = Unit.MS, **facts: object) -> Finding:
    """Returns a warning of this rule."""
    evidence = (Evidence("s", 4, 8, at_ns=_AT),)
    made = Finding(rule, Severity.WARNING, subject, f"{subject}: {rule}", "mend it", measure=measure, unit=unit)
    return Finding(**{**{name: getattr(made, name) for name in made.__slots__}, "evidence": evidence, **facts})


def work(api: str, answers: int, p50: float, p95: float, p99: float, **facts: Any) -> ApiFacts:
    """Returns an API's facts, with 100 bytes a request and 900 a response."""
    made: dict[str, Any] = {"requests": answers, "responses": answers}
    made |= {"request_bytes": 100 * answers, "response_bytes": 900 * answers}
    return ApiFacts(api, p50_ms=p50, p95_ms=p95, p99_ms=p99, **{**made, **facts})


def monday() -> CaptureFacts:
    """A side of a minute."""
    return CaptureFacts(
        "captures/monday",
        _AT,
        60 * _SECOND,
        8000,
        10_200_000,
        apis=(
            work("Produce", 1200, 3.1, 9.5, 40.2),
            work("Fetch", 1200, 1.1, 3.0, 9.0),
            work("Fetch", 400, 501.0, 502.0, 502.0, wait="wait"),
            work("InitProducerId", 6, 1.0, 2.0, 2.0),
        ),
        read={"Produce": 1200, "Fetch": 1600},
        errors=(ErrorFacts("Produce", "NOT_LEADER_OR_FOLLOWER", 60), ErrorFacts("Fetch", "FENCED", 40, True)),
        versions=(VersionFacts("Produce", 9, 1200), VersionFacts("Fetch", 11, 900), VersionFacts("Fetch", 12, 700)),
        clients=ManyClients((ClientFacts("app-*", "apache-kafka-java 3.9.0", 2000), ClientFacts("legacy", None, 30))),
        topics=Table((TopicFacts("orders", 900, 900, 900, 9000, {"none": 900}, {"-1": 900}), TopicFacts("old", 4))),
        deliveries=Table((DeliveryOfTopic("orders", 900, 4.0, 9.0, 20.0),)),
        groups=Top((Group("billing", members=3, rebalances=1, most_lag=40),)),
        nodes=Table((LoadOfNode(1, 4, 6_000_000, 2_000_000), LoadOfNode(2, 4, 6_000_000, 2_000_000))),
        findings=Findings(
            found=Table(
                (
                    finding("small_batches", "orders by app-*", 900, Unit.BYTES),
                    finding("churn", "worker-*", 3.2, Unit.PER_SECOND),
                )
            )
        ),
    )


def tuesday() -> CaptureFacts:
    """A side of two minutes: Produce is slower, Fetch faster, clients are newer, and some frames are missing."""
    return CaptureFacts(
        "captures/tuesday",
        _AT + 86_400 * _SECOND,
        120 * _SECOND,
        15_000,
        20_000_000,
        missing=Missing([Gaps("queue_full", 2, 0, 120, 8000)]),
        apis=(
            work("Produce", 2400, 5.0, 15.2, 64.3, unanswered=60),
            work("Fetch", 2400, 1.1, 1.9, 5.6),
            work("Fetch", 800, 701.0, 702.0, 702.0, wait="wait"),
        ),
        read={"Produce": 2340, "Fetch": 3200},
        errors=(ErrorFacts("Produce", "NOT_LEADER_OR_FOLLOWER", 10), ErrorFacts("Fetch", "UNKNOWN", 90)),
        versions=(VersionFacts("Produce", 12, 2400), VersionFacts("Fetch", 11, 1800), VersionFacts("Fetch", 12, 1400)),
        clients=ManyClients(
            (ClientFacts("app-*", "apache-kafka-java 4.1.0", 4000), ClientFacts("rdkafka", "lib 2", 9))
        ),
        topics=Table(
            (TopicFacts("orders", 900, 0, 900, 900, {"none": 450, "zstd": 450}, {"1": 900}), TopicFacts("new", 4))
        ),
        deliveries=Table((DeliveryOfTopic("orders", 900, 9.0, 19.0, 40.0),)),
        groups=Top((Group("billing", members=2, rebalances=30, most_lag=9000), Group("audit", members=1))),
        nodes=Table((LoadOfNode(1, 7, 20_000_000, 2_000_000), LoadOfNode(3, 1, 1_000_000, 2_000_000))),
        findings=Findings(
            found=Table((finding("churn", "worker-*", 9.2, Unit.PER_SECOND), finding("slow", "Produce on node 1", 410)))
        ),
    )


def hostile() -> CaptureFacts:
    """A side with hostile names wherever there are names."""
    return CaptureFacts(
        f"captures/{TEXT}",
        _AT,
        60 * _SECOND,
        100,
        1000,
        missing=Missing(notes=[TEXT], died=[TEXT]),
        apis=(work(TEXT, 2000, 1.0, 2.0, 3.0, unanswered=500),),
        read={TEXT: 1000},
        errors=(ErrorFacts(TEXT, TEXT, 500),),
        versions=(VersionFacts(TEXT, 1, 9),),
        clients=ManyClients((ClientFacts(TEXT, TEXT, 9),)),
        topics=Table((TopicFacts(TEXT, 9, 9, 9, 9, {TEXT: 9}, {"1": 9}),)),
        deliveries=Table((DeliveryOfTopic(TEXT, 900, 9.0, 19.0, 40.0),)),
        groups=Top((Group(TEXT, members=2, most_lag=9000),)),
        findings=Findings(found=Table((finding(TEXT, TEXT, 1.0),))),
    )


def nothing() -> CaptureFacts:
    """The side of a capture without a frame."""
    return CaptureFacts("captures/empty", findings=Findings(not_judged="the capture holds no frames"))
