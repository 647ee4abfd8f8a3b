"""Tests of the rules on lasting errors, refusals and silence; errors of the normal flow are no findings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding
from tests.recorder.analysis.by_hand import EVENT, Row, each_second, life

pytestmark = pytest.mark.real
NAMES = (
    "errors", "retriable_errors", "unanswered", "denied", "unknown_topic", "coordinator_moves", "stale_commit",
    "login_breaks", "unexpected_responses", "always_fails",
)  # fmt: skip


def every(number: int, code: int) -> Any:
    """A code in every so many answers."""
    return lambda at: [code] if at % number == 0 else []


def silent(at: int) -> str:
    """One outcome in fifty."""
    return "unanswered" if at % 50 == 0 else "answered"


def impatient(api: str, waits: float, answered_after: float) -> list[Row]:
    """One request a second on a connection of its own; when its last answer comes, and when the client goes: ENDS."""
    rows = each_second(5, api=api, connection=lambda at: number_of(api, at) if at % 5 == 0 else 1)
    for row in rows:
        if row["connection"] > 1:
            row["answered_at"] = row["at"] + timedelta(seconds=answered_after)
            row["gone_at"] = row["at"] + timedelta(seconds=waits)
    return rows


def number_of(api: str, at: int) -> int:
    return 1000 * ("Late", "Leaving", "In time").index(api) + 1000 + at


def ends(rows: list[Row]) -> list[Row]:
    """The clients' ends; takes what says so out of the rows."""
    gone = [(row["connection"], row.pop("gone_at")) for row in rows if "gone_at" in row]
    own = EVENT | {"kind": "half_closed", "detail": '{"by": "client"}'}
    return [own | {"connection": connection, "at": at} for connection, at in gone]


def unasked() -> list[Row]:
    """The events of connections that a broker's unexpected response ended: ENDED_BY is the node of each."""
    return [
        row
        for at, (number, (node, decision)) in enumerate(ENDED_BY.items())
        for row in life(number, 20 + at, 1, "unexpected_response", decision=decision, node=node)
    ]


OUT_OF_ORDER = {"event": "response is out of order", "what": "answered 2 before 1"}
TWICE = {"event": "response comes twice", "what": "answered 7 again"}
# the last one was recorded by an older version
ENDED_BY = {
    9001: (1, OUT_OF_ORDER),
    9002: (2, OUT_OF_ORDER | {"what": "answered 9 before 8"}),
    9003: (2, TWICE),
    9004: (2, None),
}


def scenario() -> list[Row]:
    """A minute of many clients, each of which does one thing."""
    metadata: Row = {"api_key": 3, "api": "Metadata"}
    commit: Row = {"api_key": 8, "api": "OffsetCommit"}
    sasl: Row = {"api_key": 36, "api": "SaslAuthenticate"}
    return [
        *each_second(20, api="Final", error_codes=every(50, 10)),
        *each_second(20, api="Rare", error_codes=every(1200, 10)),
        *each_second(20, (0, 60), api="Burst", error_codes=lambda at: [10] if 400 <= at < 420 else []),
        *each_second(20, (0, 8), api="Few", error_codes=[10]),
        *each_second(20, api="Retried", error_codes=every(50, 7)),
        *each_second(20, api="Flowing", error_codes=every(2, 27)),
        *each_second(20, api="Silent", outcome=silent, latency_ns=None),
        *each_second(20, api_key=1, api="Fetch", client_id="poller", outcome=silent),
        *impatient("Late", waits=1, answered_after=2),
        *impatient("Leaving", waits=0, answered_after=2),
        *impatient("In time", waits=2, answered_after=1),
        *each_second(2, client_id="outsider", api="Denying", error_codes=[29]),
        *each_second(2, client_id="typo", error_codes=[3], **metadata),
        *each_second(2, (10, 35), client_id="newcomer", error_codes=[3], **metadata),
        *each_second(0.5, client_id="lost", api="Moved", error_codes=[16]),
        *each_second(0.1, client_id="moves seldom", api="Moved", error_codes=[16]),
        *each_second(10, client_id="late", error_codes=every(20, 22), **commit),
        *each_second(10, client_id="in time", error_codes=every(200, 27), **commit),
        *each_second(1, client_id="expired", connection=7),
        *each_second(1, (30, 31), client_id="expired", connection=7, exchange=lambda at: 100, error_codes=[58], **sasl),
        *each_second(1, (45, 46), client_id="expired", connection=7, exchange=lambda at: 101, error_codes=[58], **sasl),
        *each_second(1, (30, 31), client_id="stranger", connection=8, error_codes=[58], **sasl),
        *each_second(0.5, (0, 56), client_id="locked out", connection=lambda at: 80 + at, error_codes=[58], **sasl),
        *each_second(0.5, client_id="let in", connection=lambda at: 80 + at, error_codes=every(9, 58), **sasl),
        *each_second(10, client_id="welcome", error_codes=[], **metadata),
        *each_second(0.7, client_id="elsewhere", error_codes=[129], **metadata),
        *each_second(0.15, (0, 54), client_id="unheard", node=2, outcome="unanswered", **metadata),
        *each_second(0.05, client_id="hardly tries", error_codes=[129], **metadata),
        *each_second(0.5, client_id="in a rebalance", error_codes=[27]),
        *each_second(0.2, (0, 35), client_id="early", error_codes=[15], api_key=10, api="FindCoordinator"),
        *each_second(1, (31, 32), client_id="stranger", connection=8, exchange=lambda at: 1),
        *each_second(4, (20, 21), connection=lambda at: 9001 + at, api_key=0, api="Produce"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def found(tables: Any) -> dict[str, list[Finding]]:
    rules = [rule for rule in RULES if rule.name in NAMES]
    exchanges = scenario()
    events = [*life(1, 0, 60, "request_timeout"), *unasked(), *ends(exchanges)]
    judged = judge(tables(exchanges, events), rules)
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def subjects(findings: list[Finding]) -> set[str]:
    return {one.subject for one in findings}


def test_final_errors_that_last_are_found_by_api_and_code(found: Any) -> None:
    assert "Final: MESSAGE_TOO_LARGE" in subjects(found["errors"])
    (one,) = [one for one in found["errors"] if one.subject.startswith("Final")]
    assert one.share == pytest.approx(0.02)
    assert one.sentence == (
        "2 % of the answers to Final hold MESSAGE_TOO_LARGE (at worst: 2026-11-21 12:00:05 to 12:00:10 UTC)"
    )
    assert {piece.connection for piece in one.evidence} == {1}
    assert all(piece.exchange % 50 == 0 for piece in one.evidence)


@pytest.mark.parametrize("api", ["Rare", "Burst", "Few", "Retried", "Flowing"])
def test_errors_that_are_rare_short_few_retriable_or_flow_are_no_final_errors(found: Any, api: str) -> None:
    assert not [one for one in subjects(found["errors"]) if one.startswith(api)]


def test_retriable_errors_have_their_own_threshold_and_flow_errors_do_not_count(found: Any) -> None:
    assert "Retried: REQUEST_TIMED_OUT" in subjects(found["retriable_errors"])
    assert not [one for one in subjects(found["retriable_errors"]) if one.startswith(("Final", "Flowing"))]


def test_requests_without_an_answer_are_found_with_their_close_cause_and_long_polls_are_not(found: Any) -> None:
    (one,) = [one for one in found["unanswered"] if one.subject == "Silent on node 1"]
    assert "most of their connections ended by request_timeout (at worst: " in one.sentence


def test_answers_that_come_when_the_client_has_given_up_are_none_and_those_of_clients_that_end_are(found: Any) -> None:
    assert subjects(found["unanswered"]) - {"Metadata on node 2"} == {"Silent on node 1", "Late on node 1"}


def test_clients_that_are_denied_twice_a_second_are_found(found: Any) -> None:
    (one,) = found["denied"]
    assert one.sentence.startswith("outsider at 10.0.0.1 is told TOPIC_AUTHORIZATION_FAILED 2/s by Denying (at worst")


def test_a_topic_that_stays_unknown_is_found_and_one_that_is_just_made_is_not(found: Any) -> None:
    assert subjects(found["unknown_topic"]) == {"typo at 10.0.0.1: Metadata"}


def test_a_client_that_keeps_asking_the_wrong_coordinator_is_found(found: Any) -> None:
    assert subjects(found["coordinator_moves"]) == {"lost at 10.0.0.1: Moved"}


def test_commits_that_come_too_late_are_found_and_those_of_a_rebalance_are_not(found: Any) -> None:
    (one,) = found["stale_commit"]
    assert one.subject == "late at 10.0.0.1"
    assert one.share == pytest.approx(0.05)


def test_a_login_that_fails_on_a_connection_in_use_is_found_and_a_first_one_is_not(found: Any) -> None:
    (one,) = found["login_breaks"]
    assert one.subject == "expired at 10.0.0.1"
    assert {(piece.connection, piece.exchange) for piece in one.evidence} == {(7, 100), (7, 101)}
    assert one.sentence.endswith("(cases: 2)")


def test_a_client_whose_every_try_fails_is_found_however_seldom_it_tries(found: Any) -> None:
    sentences = {one.subject: one.sentence for one in found["always_fails"]}
    assert sentences["elsewhere at 10.0.0.1: Metadata"] == (
        "Every Metadata request of elsewhere at 10.0.0.1 fails: REBOOTSTRAP_REQUIRED (tries: 42)"
    )
    assert sentences["locked out at 10.0.0.1: SaslAuthenticate"] == (
        "Every SaslAuthenticate request of locked out at 10.0.0.1 fails: SASL_AUTHENTICATION_FAILED (tries: 28)"
    )
    assert sentences["unheard at 10.0.0.1: Metadata"] == (
        "Every Metadata request of unheard at 10.0.0.1 fails: no answer (tries: 8)"
    )


@pytest.mark.parametrize("client", ["let in", "hardly tries", "in a rebalance", "early", "welcome"])
def test_a_client_that_succeeds_once_or_tries_seldom_or_is_within_the_protocol_does_not_always_fail(
    found: Any, client: str
) -> None:
    assert not [one for one in subjects(found["always_fails"]) if one.startswith(client)]


def test_connections_that_a_response_out_of_turn_ended_are_found_by_what_was_wrong_with_it(found: Any) -> None:
    said = {one.subject: one for one in found["unexpected_responses"]}
    assert said.keys() == {
        "main: response is out of order",
        "main: response comes twice",
        "main: response is not the one that is awaited",
    }
    one = said["main: response is out of order"]
    assert one.sentence == (
        "Connections that the proxy ended because a broker of cluster main answered out of turn (response is out of "
        "order: answered 2 before 1): 2; the last request of most: Produce; nodes: 1, 2"
    )
    assert {piece.connection for piece in one.evidence} <= {9001, 9002}
