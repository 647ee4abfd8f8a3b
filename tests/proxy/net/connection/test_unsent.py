from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Conversation
from proxy.net.cluster import routes
from proxy.net.connection.unsent import OwedResponses
from proxy.wire.framing import FrameLimits
from tests.proxy.net.frames import ping, pong


def conversation() -> Conversation:
    return Conversation(routes(), FrameLimits())


def test_a_connection_over_which_nothing_has_gone_is_settled():
    owed = OwedResponses(conversation())
    assert owed.is_settled


def test_an_owed_response_is_in_flight_until_its_last_byte():
    talk = conversation()
    owed = OwedResponses(talk)
    talk.requests(ping(1), 1)
    assert not owed.is_settled
    talk.responses(pong(1)[:-1], 2)
    assert not owed.is_settled
    talk.responses(pong(1)[-1:], 3)
    assert owed.is_settled


def test_a_response_that_has_been_read_and_not_sent_is_in_flight():
    owed = OwedResponses(conversation())
    owed.chunk_pending = True
    assert not owed.is_settled


def test_a_request_that_is_left_incomplete_will_get_no_response():
    talk = conversation()
    owed = OwedResponses(talk)
    talk.requests(ping(1)[:-1], 1)
    assert owed.is_settled
    assert talk.requests_side.missing == 1


async def test_waiting_for_requests_in_flight_checks_again_at_each_response(nursery):
    talk = conversation()
    owed = OwedResponses(talk)
    talk.requests(ping(1) + ping(2), 1)
    seen = []

    async def wait() -> None:
        await owed.until_settled()
        seen.append("settled")

    nursery.start_soon(wait)
    for number, expected in ((1, []), (2, ["settled"])):
        await wait_all_tasks_blocked()
        talk.responses(pong(number), 2)
        assert owed.more_sent is not None
        owed.more_sent.set()
        await wait_all_tasks_blocked()
        assert seen == expected


async def test_all_tasks_that_wait_for_responses_are_woken(nursery):
    talk = conversation()
    owed = OwedResponses(talk)
    talk.requests(ping(1), 1)
    seen = []

    async def wait() -> None:
        await owed.until_settled()
        seen.append("settled")

    for _ in range(2):
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
    talk.responses(pong(1), 2)
    assert owed.more_sent is not None
    owed.more_sent.set()
    await wait_all_tasks_blocked()
    assert seen == ["settled", "settled"]
