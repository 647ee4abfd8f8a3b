"""The account of a gap: what the tap saw of it, and what the compactor makes of that."""

import random

from proxy.conversation.conversation import Conversation
from proxy.conversation.routes import Routes
from recorder.capture import gap
from recorder.capture.gap import Gap, lost_by_api
from tests.recorder.capture import traffic

RNG = random.Random(1)
METADATA = traffic.call(RNG, traffic.METADATA, 1, "c")
HEARTBEAT = traffic.call(RNG, traffic.HEARTBEAT, 2, "c")


def account(**changes: object) -> dict[str, object]:
    return {"early": [], "requests": {}, "responses": {}} | changes


def test_requests_that_were_in_flight_are_named_and_later_ones_are_counted() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    lost = Gap(talk, (0, 0), gap.REASON_FULL, 2)
    talk.requests(HEARTBEAT.request, 3)
    step = talk.responses(METADATA.answer or b"", 4)
    lost.saw(step.finished, step.one_way)
    told = lost.account()
    assert told["early"] == [(0, "Metadata")]
    assert told["requests"] == {"Heartbeat": 1}
    assert told["responses"] == {"Metadata": 1}
    assert (told["reason"], told["since_ns"]) == ("queue_full", 2)


def test_frames_that_are_still_arriving_at_the_end_are_lost_too() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    lost = Gap(talk, (0, 0), gap.REASON_FULL, 2)
    talk.requests(HEARTBEAT.request[:-1], 3)
    talk.responses((METADATA.answer or b"")[:-1], 4)
    told = lost.account()
    assert told["requests"] == {"Heartbeat": 1}
    assert told["responses"] == {"Metadata": 1}


def test_a_response_that_the_gap_before_has_counted_is_not_counted_again() -> None:
    talk = Conversation(Routes())
    talk.requests(METADATA.request, 1)
    talk.responses((METADATA.answer or b"")[:-1], 2)
    lost = Gap(talk, (0, 0), gap.REASON_FULL, 3, talk.responses_side.open)
    step = talk.responses((METADATA.answer or b"")[-1:], 4)
    lost.saw(step.finished, step.one_way)
    assert lost.account()["responses"] == {}


def test_requests_that_the_log_has_are_not_lost() -> None:
    told = account(early=[(4, "Fetch"), (5, "Produce")], requests={"Fetch": 2}, responses={"Fetch": 1})
    assert lost_by_api(told, 5, None, 4) == {
        "Fetch": {"requests": 2, "responses": 1},
        "Produce": {"requests": 1},
    }


def test_a_request_that_the_hole_has_cut_is_lost() -> None:
    assert lost_by_api(account(), 5, "Fetch", 1) == {"Fetch": {"requests": 1}}
    assert lost_by_api(account(), 5, "", 1) == {"other": {"requests": 1}}


def test_frames_that_no_exchange_accounts_for_are_others() -> None:
    assert lost_by_api(account(requests={"Fetch": 1}), 0, None, 3) == {"Fetch": {"requests": 1}, "other": {"frames": 2}}
