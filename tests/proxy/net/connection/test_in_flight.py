from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Conversation
from proxy.net.cluster import routes
from proxy.net.connection.in_flight import InFlight
from proxy.wire.framing import FrameLimits
from tests.proxy.net.frames import ping, pong


def conversation() -> Conversation:
    return Conversation(routes(), FrameLimits())


def test_a_connection_over_which_nothing_has_gone_is_settled():
    in_flight = InFlight(conversation())
    assert in_flight.is_settled
    assert in_flight.at_boundary


def test_an_owed_response_is_in_flight_until_its_last_byte():
    talk = conversation()
    in_flight = InFlight(talk)
    talk.requests(ping(1), 1)
    assert not in_flight.is_settled
    talk.responses(pong(1)[:-1], 2)
    assert not in_flight.is_settled
    talk.responses(pong(1)[-1:], 3)
    assert in_flight.is_settled


def test_a_response_that_has_been_read_and_not_sent_is_in_flight():
    in_flight = InFlight(conversation())
    in_flight.response_pending = True
    assert not in_flight.is_settled


def test_a_request_that_is_left_incomplete_will_get_no_response():
    talk = conversation()
    in_flight = InFlight(talk)
    talk.requests(ping(1)[:-1], 1)
    assert in_flight.is_settled
    assert not in_flight.at_boundary


async def test_who_waits_until_all_is_settled_looks_again_at_each_response(nursery):
    talk = conversation()
    in_flight = InFlight(talk)
    talk.requests(ping(1) + ping(2), 1)
    seen = []

    async def wait() -> None:
        await in_flight.until_settled()
        seen.append("settled")

    nursery.start_soon(wait)
    for number, expected in ((1, []), (2, ["settled"])):
        await wait_all_tasks_blocked()
        talk.responses(pong(number), 2)
        assert in_flight.sent is not None
        in_flight.sent.set()
        await wait_all_tasks_blocked()
        assert seen == expected
