"""Tests of gaps: what the tap counts of a gap, and what the compactor makes of the counts."""

import random

from proxy.conversation.conversation import Conversation
from proxy.conversation.routes import Routes
from proxy.wire import keys
from recorder.capture.frames import GAP_FULL
from recorder.capture.gap import Gap, lost_by_api
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import account

RNG = random.Random(1)
METADATA = traffic.call(RNG, keys.METADATA, 1, "c")
HEARTBEAT = traffic.call(RNG, keys.HEARTBEAT, 2, "c")


def broken(next_exchange: int = 0, cut: str | None = None, cut_size: int = 0) -> dict[str, object]:
    return {"next_exchange": next_exchange, "next_response": 0, "cut": cut, "cut_size": cut_size}


def test_requests_that_were_in_flight_are_named_and_later_ones_are_counted() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    lost = Gap(talk, (0, 0), GAP_FULL, 2)
    talk.requests(HEARTBEAT.request, 3)
    step = talk.responses(METADATA.answer or b"", 4)
    lost.count_ended(step.finished, step.one_way)
    told = lost.account()
    assert told["early"] == [(0, "Metadata", len(METADATA.request) - 4)]
    assert (told["requests"], told["request_bytes"]) == ({"Heartbeat": 1}, {"Heartbeat": len(HEARTBEAT.request) - 4})
    size = len(METADATA.answer or b"") - 4
    assert (told["responses"], told["response_bytes"]) == ({"Metadata": 1}, {"Metadata": size})
    assert (told["reason"], told["since_ns"]) == ("queue_full", 2)


def test_frames_that_are_still_arriving_at_the_end_are_lost_too() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    lost = Gap(talk, (0, 0), GAP_FULL, 2)
    talk.requests(HEARTBEAT.request[:-1], 3)
    talk.responses((METADATA.answer or b"")[:-1], 4)
    told = lost.account()
    assert told["requests"] == {"Heartbeat": 1}
    assert told["responses"] == {"Metadata": 1}


def test_a_response_that_the_gap_before_has_counted_is_not_counted_again() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    talk.responses((METADATA.answer or b"")[:-1], 2)
    lost = Gap(talk, (0, 0), GAP_FULL, 3, talk.responses_side.open_exchange)
    step = talk.responses((METADATA.answer or b"")[-1:], 4)
    lost.count_ended(step.finished, step.one_way)
    assert lost.account()["responses"] == {}


def test_requests_that_the_log_has_are_not_lost() -> None:
    sizes = {"request_bytes": {"Fetch": 60}, "response_bytes": {"Fetch": 900}}
    told = account(early=[(4, "Fetch", 7), (5, "Produce", 80)], requests={"Fetch": 2}, responses={"Fetch": 1}, **sizes)
    assert lost_by_api(told, broken(5), 4) == {
        "Fetch": {"requests": 2, "responses": 1, "request_bytes": 60, "response_bytes": 900},
        "Produce": {"requests": 1, "request_bytes": 80},
    }


def test_responses_that_were_kept_back_are_lost_only_where_the_log_does_not_have_them() -> None:
    told = account(early_responses=[(3, "Fetch", 70), (4, "SaslAuthenticate", 80)])
    assert lost_by_api(told, broken(9) | {"next_response": 4}, 1) == {
        "SaslAuthenticate": {"responses": 1, "response_bytes": 80}
    }


def test_a_request_that_the_hole_has_cut_is_lost_whole() -> None:
    assert lost_by_api(account(), broken(5, "Fetch", 33), 1) == {"Fetch": {"requests": 1, "request_bytes": 33}}
    assert lost_by_api(account(), broken(5, "", 9), 1) == {"other": {"requests": 1, "request_bytes": 9}}


def test_frames_that_no_exchange_accounts_for_are_others() -> None:
    told = account(requests={"Fetch": 1}, request_bytes={"Fetch": 5})
    assert lost_by_api(told, broken(), 3) == {"Fetch": {"requests": 1, "request_bytes": 5}, "other": {"frames": 2}}
