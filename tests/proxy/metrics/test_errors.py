"""Tests of counting errors in responses by API, and unread responses by reason."""

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.conversation import Cause, Conversation, Routes, Routes07
from proxy.metrics.split_responses import SplitResponses
from proxy.metrics.traffic import Traffic
from proxy.rewrite import api_versions
from proxy.wire import catalog
from proxy.wire.error_reader import MAX_ELEMENTS, NOTHING
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.proxy.conversation.script import framed, request, response
from tests.proxy.metrics.exchanges import anywhere, at_once, exchange, failed
from tests.tables import each_row

VENDOR = 12_345
FAILED = {("SaslHandshake", "SASL_AUTHENTICATION_FAILED"): 1}


def answer(key: int, version: int, number: int, **values: Any) -> bytes:
    return framed(catalog.encode_response(key, version, number, values))


def counted(requests: Sequence[bytes], responses: Sequence[bytes], talk: Conversation | None = None) -> Traffic:
    """Returns the counts of requests, and of responses to them, each of which is a chunk."""
    talk, traffic = talk or Conversation(Routes()), Traffic()
    split_responses = SplitResponses(talk.responses_side)
    talk.requests(b"".join(requests), 1)
    for now, chunk in enumerate(responses, 1000):
        step = talk.responses(chunk, now)
        traffic.finished(step.finished, now, step.data, split_responses.follow(step), anywhere())
    return traffic


def heartbeats(count: int) -> list[bytes]:
    return [request(HEARTBEAT, 4, number) for number in range(count)]


def test_a_burst_in_which_some_fail_names_their_errors() -> None:
    codes = [0, 25, 0, 27, 25, 0]
    burst = b"".join(answer(HEARTBEAT, 4, number, error_code=code) for number, code in enumerate(codes))
    traffic = counted(heartbeats(6), [burst])
    assert traffic.errors.named == {("Heartbeat", "UNKNOWN_MEMBER_ID"): 2, ("Heartbeat", "REBALANCE_IN_PROGRESS"): 1}
    assert not traffic.errors.unread


def test_answers_between_others_are_read_where_they_stand() -> None:
    """They have the size of the others, but are not next to them."""
    asked = [request(HEARTBEAT, 4, 0), request(HEARTBEAT, 3, 1), request(HEARTBEAT, 4, 2)]
    codes = [0, 27, 25]
    burst = b"".join(answer(HEARTBEAT, 4 - n % 2, n, error_code=code) for n, code in enumerate(codes))
    assert counted(asked, [burst]).errors.named == {
        ("Heartbeat", "UNKNOWN_MEMBER_ID"): 1,
        ("Heartbeat", "REBALANCE_IN_PROGRESS"): 1,
    }


def test_answers_that_are_alike_are_read_where_they_stand_with_other_bytes_between() -> None:
    """The other bytes are, for example, a response to an opaque request that was given up."""
    burst, traffic = at_once(exchange(), exchange()), Traffic()
    data = failed(25) + framed(b"given up") + failed(27)
    burst[1].response_at = len(data) - len(failed(27))
    traffic.finished(burst, 0, data, NOTHING, anywhere())
    assert traffic.errors.named == {("Heartbeat", "UNKNOWN_MEMBER_ID"): 1, ("Heartbeat", "REBALANCE_IN_PROGRESS"): 1}


def test_a_code_that_the_catalog_lacks_is_other() -> None:
    burst = [answer(HEARTBEAT, 4, number, error_code=code) for number, code in enumerate([999, -2, 32_767])]
    assert counted(heartbeats(3), burst).errors.named == {("Heartbeat", "other"): 3}


def test_an_error_is_named_as_kafka_names_it_below_0_too() -> None:
    traffic = counted(heartbeats(1), [answer(HEARTBEAT, 4, 0, error_code=-1)])
    assert traffic.errors.named == {("Heartbeat", "UNKNOWN_SERVER_ERROR"): 1}


def test_each_partition_that_failed_counts() -> None:
    partitions = [{"index": n, "error_code": code} for n, code in enumerate([6, 0, 6, 3])]
    produced = answer(PRODUCE, 9, 0, responses=[{"name": "t", "partition_responses": partitions}])
    traffic = counted([request(PRODUCE, 9, 0, b"\0\0\xff\xff")], [produced])
    assert traffic.errors.named == {
        ("Produce", "NOT_LEADER_OR_FOLLOWER"): 2,
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }


def test_a_response_with_more_elements_than_the_bound_is_marked() -> None:
    partitions = [{"index": n} for n in range(MAX_ELEMENTS)]
    produced = answer(PRODUCE, 9, 0, responses=[{"name": "t", "partition_responses": partitions}])
    traffic = counted([request(PRODUCE, 9, 0, b"\0\0\xff\xff")], [produced])
    assert traffic.errors.unread == {("Produce", "too_many_elements"): 1}


def test_a_bad_response_is_malformed() -> None:
    traffic = counted(heartbeats(2), [response(0, b"\0\0\0"), response(1)])
    assert traffic.errors.unread == {("Heartbeat", "malformed"): 2}


def test_responses_to_opaque_requests_are_not_searched_for_errors() -> None:
    strange = [request(VENDOR, 0, 1), request(HEARTBEAT, 99, 2)]
    traffic = counted(strange, [response(1, b"\0\1" * 9), response(2, b"\0\1" * 9)])
    assert traffic.errors.unread == {("other", "unknown_version"): 1, ("Heartbeat", "unknown_version"): 1}
    assert not traffic.errors.named


def test_the_proxys_own_answer_is_an_error_too() -> None:
    talk = Conversation(Routes(answered_by_proxy=lambda key, version: (key, version) == (API_VERSIONS, 99)))
    talk.requests(request(API_VERSIONS, 99, 1), 1)
    talk.answer(talk.in_flight[0], api_versions.unsupported(1))
    traffic, step = Traffic(), talk.own_answers_due(2)
    traffic.finished(step.finished, 2, step.data, SplitResponses(talk.responses_side).follow(step), anywhere())
    assert traffic.errors.named == {("ApiVersions", "UNSUPPORTED_VERSION"): 1}


def test_a_brokers_refusal_of_api_versions_is_read_in_its_own_form() -> None:
    refusal = answer(API_VERSIONS, 0, 1, error_code=35)
    traffic = counted([request(API_VERSIONS, 3, 1)], [refusal])
    assert traffic.errors.named == {("ApiVersions", "UNSUPPORTED_VERSION"): 1}


def test_requests_without_an_answer_have_no_errors() -> None:
    traffic = Traffic()
    traffic.one_way(Conversation(Routes()).requests(request(PRODUCE, 3, 1, b"\xff\xff\0\0"), 1).one_way)
    assert traffic.rows["Produce", "3"].one_way == 1
    assert not traffic.errors.named
    assert not traffic.errors.unread


def test_errors_of_0_7_have_the_names_of_later_versions() -> None:
    asked = [framed(b"\0\1" + b"fetch"), framed(b"\0\4" + b"offsets"), framed(b"\0\2" + b"multifetch")]
    parts = b"\0\0\0\2\0\0" + b"\0\0\0\2\0\3"
    answers = [framed(b"\0\1"), framed(b"\xff\xff"), framed(b"\0\0" + parts)]
    for chunks in (answers, [b"".join(answers)]):
        assert counted(asked, chunks, Conversation(Routes07())).errors.named == {
            ("0.7/fetch", "OFFSET_OUT_OF_RANGE"): 1,
            ("0.7/offsets", "UNKNOWN_SERVER_ERROR"): 1,
            ("0.7/multifetch", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        }


def begun(mechanism: str, *tokens: bytes, talk: Conversation | None = None) -> Conversation:
    """A login of bare tokens, up to these: the client's and the server's in turn."""
    talk = talk or Conversation(Routes())
    name = len(mechanism).to_bytes(2, "big") + mechanism.encode()
    talk.requests(request(SASL_HANDSHAKE, 0, 1, name), 1)
    talk.responses(answer(SASL_HANDSHAKE, 0, 1, mechanisms=[mechanism]), 1)
    for number, token in enumerate(tokens):
        (talk.responses if number % 2 else talk.requests)(framed(token), 2 + number)
    return talk


def ended(talk: Conversation, cause: Cause) -> Traffic:
    traffic = Traffic()
    traffic.closed(cause, talk.unfinished, talk.login)
    return traffic


@each_row("cause", [Cause.BROKER_CLOSED, Cause.BROKER_RESET])
@each_row(
    ("mechanism", "tokens"),
    [
        pytest.param("PLAIN", [b"\0me\0wrong"], id="plain"),
        pytest.param("SCRAM-SHA-256", [b"n,,n=me"], id="scram user"),
        pytest.param("SCRAM-SHA-512", [b"n,,n=me", b"r=salt", b"p=wrong"], id="scram proof"),
        pytest.param("OAUTHBEARER", [b"n,,auth=x", b'{"status":"invalid_token"}', b"\1"], id="oauthbearer"),
    ],
)
def test_a_broker_that_ends_a_login_of_bare_tokens_has_refused_it(
    mechanism: str, tokens: list[bytes], cause: Cause
) -> None:
    traffic = ended(begun(mechanism, *tokens), cause)
    assert traffic.errors.named == FAILED
    assert not traffic.errors.unread


def test_a_login_that_the_client_ends_was_not_refused() -> None:
    traffic = ended(begun("PLAIN", b"\0me\0right"), Cause.CLIENT_CLOSED)
    assert not traffic.errors.named


def test_a_broker_that_ends_the_connection_after_a_login_has_not_refused_it() -> None:
    traffic = ended(begun("PLAIN", b"\0me\0right", b""), Cause.BROKER_CLOSED)
    assert not traffic.errors.named
    assert not traffic.errors.unread


def test_a_refused_login_is_unread_where_the_mechanisms_end_is_unknown() -> None:
    traffic = ended(begun("GSSAPI", b"\x60ticket"), Cause.BROKER_CLOSED)
    assert traffic.errors.unread == {("SaslHandshake", "bare_tokens"): 1}


def test_a_login_followed_by_requests_was_not_refused() -> None:
    talk = begun("GSSAPI", b"\x60ticket", b"token", b"token")
    talk.requests(request(HEARTBEAT, 4, 2), 9)
    traffic = ended(talk, Cause.BROKER_CLOSED)
    assert not traffic.errors.unread
    assert not traffic.errors.named


def test_nine_failed_logins_are_nine_errors() -> None:
    logins = [request(SASL_AUTHENTICATE, 2, number, b"\0\1") for number in range(9)]
    refused = [answer(SASL_AUTHENTICATE, 2, n, error_code=58, error_message="no such user") for n in range(9)]
    traffic = counted(logins, refused)
    assert traffic.errors.named == {("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED"): 9}
