"""Tests of pairing two sides: each row has its values before and after, and the change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recorder.analysis.change import pairs
from recorder.analysis.change.facts import (
    ApiFacts,
    CaptureFacts,
    ClientFacts,
    ErrorFacts,
    ManyClients,
    TopicFacts,
    VersionFacts,
)
from recorder.analysis.change.judged import Cases, Change
from recorder.analysis.change.pairs import UNANSWERED
from recorder.analysis.change.whole import Verdict, changes
from recorder.analysis.summary.bounds import Table, Top
from recorder.analysis.summary.sections.delivery import DeliveryOfTopic
from recorder.analysis.summary.sections.findings import MAX_SUBJECTS, Finding, Findings, Unit, Unjudged
from recorder.analysis.summary.sections.groups import Group
from recorder.analysis.summary.sections.partitions import LoadOfNode
from tests.recorder.report.some_sides import finding, work

SECOND = 10**9


def side(*apis: ApiFacts, **facts: Any) -> CaptureFacts:
    """A capture of ten seconds."""
    own: dict[str, Any] = {"recorded_ns": 10 * SECOND, "frames": 1, "apis": apis}
    return CaptureFacts(**own | facts)


def fires(*found: Finding, **facts: Any) -> CaptureFacts:
    """A capture in which rules found something."""
    return side(findings=Findings(found=Table(found), **facts))


def test_a_percentile_is_compared_where_both_sides_have_enough_answers() -> None:
    before, after = side(work("Produce", 1000, 1, 2, 3)), side(work("Produce", 250, 2, 4, 6))
    (row,) = pairs.latency(before, after, 0.2)
    assert row.percentiles == {"p50_ms": Change.WORSE, "p95_ms": Change.WORSE, "p99_ms": Change.UNKNOWN}
    assert row.change is Change.WORSE


def test_an_api_of_few_answers_is_not_judged_nor_one_that_is_on_one_side_alone() -> None:
    before, after = side(work("Produce", 19, 1, 2, 3), work("Fetch", 500, 1, 1, 1)), side(work("Produce", 900, 9, 9, 9))
    assert {row.api: row.change for row in pairs.latency(before, after, 0.2)} == dict.fromkeys(
        ("Produce", "Fetch"), Change.UNKNOWN
    )


@pytest.mark.parametrize("wait", ["wait", "includes_wait"])
def test_a_longer_wait_is_no_worse_one(wait: str) -> None:
    before, after = side(work("Fetch", 500, 1, 1, 1, wait=wait)), side(work("Fetch", 500, 9, 9, 9, wait=wait))
    (row,) = pairs.latency(before, after, 0.2)
    assert (row.wait, row.change) == (wait, Change.MORE)


def test_captures_of_different_length_are_compared_by_the_second() -> None:
    before = side(work("Produce", 100, 1, 2, 3))
    after = side(work("Produce", 200, 1, 2, 3), recorded_ns=20 * SECOND)
    (row,) = pairs.traffic(before, after, 0.2)
    assert row.before is not None
    assert row.after is not None
    assert (row.before.requests, row.after.requests) == (100, 200)
    assert (row.before.requests_a_second, row.after.bytes_a_second) == (10, 10_000)
    assert (row.change, row.bytes_change) == (Change.UNCHANGED, Change.UNCHANGED)


def test_traffic_counts_waits_too_and_is_neither_good_nor_bad() -> None:
    before = side(work("Fetch", 100, 1, 2, 3), work("Old", 1, 1, 1, 1))
    after = side(work("Fetch", 100, 1, 2, 3), work("Fetch", 100, 500, 500, 500, wait="wait"), work("New", 1, 1, 1, 1))
    assert {row.api: row.change for row in pairs.traffic(before, after, 0.2)} == {
        "Fetch": Change.MORE,
        "Old": Change.GONE,
        "New": Change.NEW,
    }


def test_a_capture_of_a_single_moment_has_no_rates() -> None:
    (row,) = pairs.traffic(side(work("Fetch", 9, 1, 1, 1), recorded_ns=0), side(work("Fetch", 9, 1, 1, 1)), 0.2)
    assert row.change is Change.UNKNOWN
    assert row.before is not None
    assert row.before.requests_a_second is None


def test_errors_are_shares_of_the_answers_that_could_be_read() -> None:
    before = side(
        read={"Produce": 1000}, errors=(ErrorFacts("Produce", "OLD", 100), ErrorFacts("Produce", "BOTH", 100))
    )
    after = side(read={"Produce": 5000}, errors=(ErrorFacts("Produce", "NEW", 500), ErrorFacts("Produce", "BOTH", 500)))
    found = {row.error: (row.before, row.after, row.change) for row in pairs.errors(before, after, 0.2)}
    assert found == {
        "OLD": (Cases(100, 1000), Cases(0, 5000), Change.GONE),
        "NEW": (Cases(0, 1000), Cases(500, 5000), Change.NEW),
        "BOTH": (Cases(100, 1000), Cases(500, 5000), Change.UNCHANGED),
    }


def test_an_error_is_not_gone_if_its_api_was_not_used() -> None:
    before = side(read={"Produce": 1000}, errors=(ErrorFacts("Produce", "OLD", 100),))
    (row,) = pairs.errors(before, side(), 0.2)
    assert row.change is Change.UNKNOWN


def test_normal_errors_are_more_and_less() -> None:
    before = side(read={"Fetch": 1000}, errors=(ErrorFacts("Fetch", "FLOW", 100, True),))
    after = side(read={"Fetch": 1000}, errors=(ErrorFacts("Fetch", "FLOW", 300, True),))
    assert [row.change for row in pairs.errors(before, after, 0.2)] == [Change.MORE]
    assert [row.change for row in pairs.errors(after, before, 0.2)] == [Change.LESS]


def test_requests_without_an_answer_stand_among_the_errors() -> None:
    before, after = side(work("Fetch", 1000, 1, 1, 1)), side(work("Fetch", 1000, 1, 1, 1, unanswered=90))
    (row,) = pairs.errors(before, after, 0.2)
    assert (row.error, row.before, row.after, row.change) == (UNANSWERED, Cases(0, 1000), Cases(90, 1000), Change.NEW)


def test_versions_change_if_one_comes_goes_or_takes_over() -> None:
    def spoke(**versions: dict[int, int]) -> CaptureFacts:
        return side(versions=tuple(VersionFacts(api, *one) for api, told in versions.items() for one in told.items()))

    before = spoke(Same={1: 10, 2: 10}, Newer={9: 10}, Shift={1: 90, 2: 10}, Old={1: 1})
    after = spoke(Same={1: 100, 2: 90}, Newer={12: 10}, Shift={1: 10, 2: 90}, New={1: 1})
    found = {row.api: row.change for row in pairs.versions(before, after, 0.2)}
    changed = dict.fromkeys(("Newer", "Shift"), Change.CHANGED)
    assert found == {"Same": Change.UNCHANGED, **changed, "Old": Change.GONE, "New": Change.NEW}


def test_clients_are_compared_by_their_id_and_software() -> None:
    before = ManyClients((ClientFacts("app-*", "java 3", 9), ClientFacts("old", None, 1), ClientFacts(None, "c", 3)))
    after = ManyClients((ClientFacts("app-*", "java 4", 9), ClientFacts("new", "go", 1), ClientFacts(None, "c", 5)))
    found = {
        row.client_id: (row.before, row.after, row.change)
        for row in pairs.clients(side(clients=before), side(clients=after))
    }
    assert found == {
        "app-*": (("java 3",), ("java 4",), Change.CHANGED),
        "old": (("",), (), Change.GONE),
        "new": ((), ("go",), Change.NEW),
        None: (("c",), ("c",), Change.UNCHANGED),
    }


def test_a_cut_list_of_clients_leaves_the_missing_ones_unknown() -> None:
    before = side(clients=ManyClients((ClientFacts("app", None, 9),)))
    after = side(clients=ManyClients((ClientFacts("other", None, 9),), total=99_999))
    assert {row.client_id: row.change for row in pairs.clients(before, after)} == {
        "app": Change.UNKNOWN,
        "other": Change.NEW,
    }


def test_findings_come_and_go_by_rule_and_subject() -> None:
    before = fires(finding("slow", "Fetch", 100), finding("slow", "Produce", 100), finding("churn", "Fetch", 9))
    after = fires(finding("slow", "Produce", 300), finding("slow", "Metadata", 100), finding("churn", "Fetch", 9))
    found = [(row.rule, row.subject, row.change) for row in pairs.findings(before, after, 0.2)]
    assert found == [
        ("slow", "Produce", Change.WORSE),
        ("slow", "Metadata", Change.NEW),
        ("slow", "Fetch", Change.GONE),
        ("churn", "Fetch", Change.UNCHANGED),
    ]


def test_counts_grow_with_a_captures_length_and_are_not_compared() -> None:
    (row,) = pairs.findings(fires(finding("gaps", "g", 1, Unit.COUNT)), fires(finding("gaps", "g", 9, Unit.COUNT)), 0.2)
    assert row.change is Change.UNCHANGED


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (fires(unjudged=Table((Unjudged("slow", "too short"),))), "too short"),
        (side(findings=Findings(not_judged="no frames")), "no frames"),
        (fires(*(finding("slow", f"s{at}", 1) for at in range(MAX_SUBJECTS))), "only the first 20 subjects are told"),
    ],
    ids=["rule", "capture", "cut"],
)
def test_a_finding_is_not_gone_where_its_rule_could_not_be_judged(other: CaptureFacts, why: str) -> None:
    before = fires(finding("slow", "Fetch", 100))
    for both in ((before, other), (other, before)):
        (row,) = (row for row in pairs.findings(*both, 0.2) if row.subject == "Fetch")
        assert row.change is Change.UNKNOWN
        assert why in row.why


def test_worse_rows_come_first_then_new_ones_then_the_rest_by_size() -> None:
    before = side(*(work(api, 500, 5, 5, 5) for api in ("A", "B")), work("C", 900, 5, 5, 5), work("D", 700, 5, 5, 5))
    after = replace(before, apis=(work("A", 500, 1, 1, 1), work("B", 500, 9, 9, 9), *before.apis[2:]))
    assert [row.api for row in pairs.latency(before, after, 0.2)] == ["B", "A", "C", "D"]


def test_a_topics_acks_idempotence_codec_and_records_a_batch_are_compared() -> None:
    before = TopicFacts("orders", 10, 10, 10, 100, {"none": 10}, {"-1": 10})
    same = TopicFacts("orders", 200, 200, 200, 2000, {"none": 200}, {"-1": 200})
    (row,) = pairs.topics(side(topics=Table((before,))), side(topics=Table((same,))), 0.2)
    assert (row.change, {*row.of.values()}) == (Change.UNCHANGED, {Change.UNCHANGED})
    other = TopicFacts("orders", 10, 0, 10, 10, {"zstd": 10}, {"1": 10})
    (row,) = pairs.topics(side(topics=Table((before,))), side(topics=Table((other,))), 0.2)
    assert row.of == {
        "acks": Change.CHANGED,
        "idempotent": Change.CHANGED,
        "codec": Change.CHANGED,
        "records_a_batch": Change.LESS,
    }
    assert row.change is Change.CHANGED


def test_a_topic_a_group_or_a_node_on_one_side_alone_is_new_or_gone_unless_the_other_sides_list_is_cut() -> None:
    none, cut = side(), side(topics=Table((), 9), groups=Top((), 9), nodes=Table((), 9))
    some = side(
        topics=Table((TopicFacts("orders", 1),)), groups=Top((Group("billing"),)), nodes=Table((LoadOfNode(1),))
    )
    for compare in (pairs.topics, pairs.groups, pairs.nodes):
        assert [row.change for row in compare(none, some, 0.2)] == [Change.NEW]
        assert [row.change for row in compare(some, none, 0.2)] == [Change.GONE]
        assert [row.change for row in compare(cut, some, 0.2)] == [Change.UNKNOWN]


def test_a_slower_delivery_is_worse_if_there_are_enough_batches() -> None:
    before, after = (
        side(deliveries=Table((DeliveryOfTopic("orders", 300, *times), DeliveryOfTopic("few", 3, *times))))
        for times in ((4.0, 9.0, 20.0), (9.0, 9.0, 99.0))
    )
    found = {row.topic: row for row in pairs.deliveries(before, after, 0.2)}
    assert found["orders"].percentiles == {
        "p50_ms": Change.WORSE,
        "p95_ms": Change.UNCHANGED,
        "p99_ms": Change.UNKNOWN,
    }
    assert (found["orders"].change, found["few"].change) == (Change.WORSE, Change.UNKNOWN)
    assert changes(before, after).verdict is Verdict.WORSE


def test_a_groups_members_lag_and_rebalances_by_the_second_are_compared() -> None:
    before = side(groups=Top((Group("billing", members=3, rebalances=2, most_lag=100),)))
    twice_as_long = {"recorded_ns": 20 * SECOND}
    same = side(groups=Top((Group("billing", members=3, rebalances=4, most_lag=100),)), **twice_as_long)
    (row,) = pairs.groups(before, same, 0.2)
    assert row.change is Change.UNCHANGED
    (row,) = pairs.groups(before, side(groups=Top((Group("billing", members=2, rebalances=9, most_lag=900),))), 0.2)
    assert row.of == {"members": Change.LESS, "rebalances": Change.MORE, "lag": Change.MORE}
    assert row.change is Change.CHANGED


def test_a_nodes_share_of_bytes_and_the_partitions_that_it_leads_are_compared() -> None:
    before = side(nodes=Table((LoadOfNode(1, 2, 50, 50), LoadOfNode(2, 2, 50, 50))))
    after = side(nodes=Table((LoadOfNode(1, 2, 500, 500), LoadOfNode(2, 3, 500, 500))))
    found = {row.node: row for row in pairs.nodes(before, after, 0.2)}
    assert (found[1].change, found[1].share_before, found[1].share_after) == (Change.UNCHANGED, 0.5, 0.5)
    assert found[2].change is Change.MORE
