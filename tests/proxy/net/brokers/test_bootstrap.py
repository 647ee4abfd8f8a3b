from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.brokers.bootstrap import Bootstrap
from proxy.net.sockets.race import AllLost
from proxy.net.sockets.streams import PeerLost
from proxy.schema.addresses import Address
from proxy.wire.keys import HEARTBEAT
from tests.proxy.net.cluster import Broker
from tests.proxy.net.frames import ping, pong
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings

ONE, TWO, THREE = (Address(f"b{number}.invalid", 9092) for number in (1, 2, 3))


class Servers:
    def __init__(self, *down: Address) -> None:
        self.bootstrap = Bootstrap("main", (ONE, TWO, THREE))
        self.down = set(down)
        self.tried: list[Address] = []

    async def reached(self) -> Address:
        """Returns the server that a client reaches."""
        self.tried.clear()
        return await self.bootstrap.first_success(self._attempt, lambda server: None)

    async def _attempt(self, server: Address) -> Address:
        self.tried.append(server)
        if server in self.down:
            raise PeerLost(f"{server} is down")
        return server


async def test_the_first_bootstrap_server_is_taken_while_all_are_up():
    servers = Servers()
    for _ in range(3):
        assert await servers.reached() == ONE
        assert servers.tried == [ONE]


async def test_the_server_that_answered_last_is_tried_first(caplog):
    servers = Servers(ONE)
    assert await servers.reached() == TWO
    servers.down.clear()
    assert await servers.reached() == TWO
    assert servers.tried == [TWO]
    (said,) = caplog.records
    assert said.keys == {"cluster": "main", "was": ONE, "now": TWO}


async def test_the_other_servers_are_tried_in_order_when_the_current_one_is_down():
    servers = Servers(ONE)
    await servers.reached()
    servers.down = {TWO}
    assert await servers.reached() == ONE
    assert servers.bootstrap.order == (ONE, TWO, THREE)


async def test_the_servers_order_stays_if_none_can_be_reached():
    servers = Servers(ONE, TWO, THREE)
    with pytest.raises(AllLost, match=r"b1.invalid:9092 is down; b2.invalid:9092 is down; b3.invalid:9092 is down"):
        await servers.reached()
    assert servers.bootstrap.order == (ONE, TWO, THREE)


async def test_a_server_that_leaves_clients_unanswered_moves_to_the_end():
    servers = Servers()
    servers.bootstrap.report_silent(str(ONE))
    assert servers.bootstrap.order == (TWO, THREE, ONE)
    # a report about a connection that had begun earlier
    servers.bootstrap.report_silent(str(ONE))
    assert servers.bootstrap.order == (TWO, THREE, ONE)


@pytest.mark.parametrize("half_close", [True, False], ids=["half-close", "reset"])
async def test_a_client_that_gives_up_a_broker_that_hangs_finds_another_the_next_time(nursery, half_close, monkeypatch):
    monkeypatch.setattr("proxy.net.cluster.LINGER_SECONDS", 0.01)
    hung, other = Broker(nodes=()), Broker(nodes=())

    async def never(*request: object) -> None:
        await trio.sleep_forever()

    hung.answer = never
    servers = [await broker.start(nursery) for broker in (hung, other)]
    async with proxying(settings(*servers, half_close_seconds=0.01)) as proxy:
        client = await proxy.client()
        await client.say(ping(1))
        with trio.fail_after(PATIENCE):
            while (HEARTBEAT, 3) not in hung.asked:
                await wait_all_tasks_blocked(0.005)
        await client.finish() if half_close else client.reset()
        with trio.fail_after(PATIENCE):
            while not proxy.closes():
                await wait_all_tasks_blocked(0.005)
        again = await proxy.client()
        await again.say(ping(1))
        await again.hears(pong(1))
    nursery.cancel_scope.cancel()


async def test_a_broker_that_has_answered_before_keeps_its_place(nursery):
    broker, other = Broker(nodes=()), Broker(nodes=())
    servers = [await one.start(nursery) for one in (broker, other)]
    async with proxying(settings(*servers)) as proxy:
        for number in range(3):
            client = await proxy.client()
            await client.say(ping(1))
            await client.hears(pong(1))
            # the next request is incomplete
            await client.say(ping(2)[:-1])
            client.reset()
            with trio.fail_after(PATIENCE):
                while sum(proxy.closes().values()) <= number:
                    await wait_all_tasks_blocked(0.005)
        assert proxy.cluster.upstreams.bootstrap.order == tuple(servers)
    nursery.cancel_scope.cancel()


async def test_a_single_server_is_always_first():
    alone = Bootstrap("main", (ONE,))
    alone.report_silent(str(ONE))
    assert alone.order == (ONE,)


async def test_servers_that_take_turns_do_not_fill_the_log(caplog):
    servers = Servers()
    for down in [ONE, TWO] * 10:
        servers.down = {down}
        await servers.reached()
    assert len(caplog.records) == 2
