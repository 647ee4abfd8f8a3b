from __future__ import annotations

import weakref

import trio

from proxy.net.brokers.expiring_set import ExpiringSet


async def test_an_added_item_stays_until_it_expires(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    assert "it" not in found
    found.add("it")
    await trio.sleep(59)
    assert "it" in found
    await trio.sleep(2)
    assert "it" not in found


async def test_adding_an_item_again_restarts_its_time(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    found.add("it")
    await trio.sleep(50)
    found.add("it")
    await trio.sleep(50)
    assert "it" in found


async def test_a_discarded_item_is_gone(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    found.add("it")
    found.discard("it")
    found.discard("it")
    assert "it" not in found


async def test_expired_items_take_no_memory(autojump_clock):
    class Item: ...

    found, alive = ExpiringSet[Item](5), weakref.WeakSet[Item]()
    for _ in range(20):
        item = Item()
        found.add(item)
        alive.add(item)
        await trio.sleep(1)
    assert item in found
    assert len(alive) <= 5
