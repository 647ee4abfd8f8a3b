from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.mapping.nodes import Node
from proxy.net.sockets.lookups import Lookups
from proxy.net.sockets.streams import PeerLost, dial
from proxy.schema.addresses import Address
from tests.proxy.net.cluster import Broker
from tests.proxy.net.frames import ping, pong
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.resolver import SystemResolver, system_resolver
from tests.proxy.net.threads import no_threads

MAX_THREADS = 3


@pytest.fixture
async def system(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SystemResolver]:
    with system_resolver(monkeypatch) as system:
        trio.socket.set_custom_hostname_resolver(Lookups(MAX_THREADS))
        yield system


async def addresses(name: str, port: int = 9092) -> list[Any]:
    found = await trio.socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [where for *_, where in found]


async def test_a_name_has_the_systems_addresses_and_the_port_that_is_requested(system):
    assert await addresses("name.invalid", 9092) == [(HOST, 9092)]
    assert await addresses("name.invalid", 9093) == [(HOST, 9093)]
    assert system.asked["name.invalid"] == 2


async def test_numbers_are_nothing_to_look_up(system):
    assert await addresses(HOST) == [(HOST, 9092)]
    assert not system.asked


async def test_each_caller_of_a_failed_lookup_gets_the_error(system, nursery):
    told = []

    async def ask() -> None:
        with pytest.raises(socket.gaierror, match="Name or service not known") as error:
            await addresses("nobody.invalid")
        told.append(error.value)

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        asking.start_soon(ask)
    assert told[0] is not told[1]


async def test_concurrent_callers_of_a_name_share_one_lookup(system, nursery):
    found = []

    async def ask(port: int) -> None:
        found.extend(await addresses("hangs.invalid", port))

    async with trio.open_nursery() as asking:
        for port in range(1, 21):
            asking.start_soon(ask, port)
        await wait_all_tasks_blocked()
        system.go_on.set()
    assert sorted(found) == [(HOST, port) for port in range(1, 21)]
    assert system.asked["hangs.invalid"] == 1


async def test_a_name_that_hangs_keeps_one_thread_however_many_give_it_up(system):
    await given_up(system, "hangs.invalid")
    before = threading.active_count()
    for _ in range(50):
        await given_up(system, "hangs.invalid")
    assert threading.active_count() == before
    assert await addresses("other.invalid") == [(HOST, 9092)]
    assert system.asked["hangs.invalid"] == 1


async def test_a_cancelled_caller_does_not_cancel_the_shared_lookup(system, nursery):
    found = []

    async def ask() -> None:
        found.append(await addresses("hangs.invalid"))

    async with trio.open_nursery() as patient:
        patient.start_soon(ask)
        await given_up(system, "hangs.invalid")
        system.go_on.set()
    assert found == [[(HOST, 9092)]]


async def test_a_lookup_beyond_the_limit_waits_its_turn_unless_cancelled(system, nursery):
    for number in range(MAX_THREADS):
        await given_up(system, f"hangs-{number}.invalid")
    found = []

    async def ask(name: str) -> None:
        found.append((name, await addresses(name)))

    async with trio.open_nursery() as patient:
        for name in ("a.invalid", "b.invalid"):
            patient.start_soon(ask, name)
        async with trio.open_nursery() as impatient:
            for name in ("b.invalid", "c.invalid"):
                impatient.start_soon(ask, name)
            await wait_all_tasks_blocked()
            impatient.cancel_scope.cancel()
        assert not found
        system.go_on.set()
    assert sorted(found) == [("a.invalid", [(HOST, 9092)]), ("b.invalid", [(HOST, 9092)])]
    assert system.asked["c.invalid"] == 0
    # until it is needed again
    assert await addresses("c.invalid") == [(HOST, 9092)]


async def test_hanging_lookups_do_not_keep_clients_from_other_brokers(monkeypatch, nursery):
    # more names than trio has threads in all
    hanging = [Node(number, f"hangs-{number}.invalid", 9092) for number in range(2, 52)]
    broker = Broker(hanging)
    port = (await broker.start(nursery)).port
    with system_resolver(monkeypatch) as system:
        async with proxying(settings(Address("broker.invalid", port))) as proxy:
            await proxy.nodes(*(node.node_id for node in hanging))
            waiting = [await proxy.client(node.node_id) for node in hanging]
            for one in waiting:
                await one.say(ping(1))
            with trio.fail_after(PATIENCE):
                while sum(name.startswith("hangs") for name in system.asked) < 40:
                    await wait_all_tasks_blocked(0.005)
            client = await proxy.client()
            await client.say(ping(1))
            await client.hears(pong(1))
            for one in waiting:
                one.close()
            system.go_on.set()
    nursery.cancel_scope.cancel()


async def given_up(system: SystemResolver, name: str) -> None:
    """Looks a name up, and is cancelled while a thread is busy with it."""
    async with trio.open_nursery() as asking:
        asking.start_soon(addresses, name)
        with trio.fail_after(PATIENCE):
            while not system.asked[name]:
                await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        asking.cancel_scope.cancel()


async def test_a_name_for_which_there_is_no_thread_is_not_found_and_nothing_else_ends(system):
    with no_threads():
        for _ in range(2):
            with pytest.raises(OSError, match="no thread can be had"):
                await addresses("name.invalid")
        with pytest.raises(PeerLost, match=r"name\.invalid:1 can't be reached: no thread can be had"):
            await dial(Address("name.invalid", 1), PATIENCE)
    assert await addresses("name.invalid") == [(HOST, 9092)]
