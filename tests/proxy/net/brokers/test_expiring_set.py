from __future__ import annotations

import trio

from proxy.net.brokers.expiring_set import ExpiringSet


async def test_what_was_found_holds_for_a_while(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    assert "it" not in found
    found.add("it")
    await trio.sleep(59)
    assert "it" in found
    await trio.sleep(2)
    assert "it" not in found


async def test_what_is_found_again_holds_from_then_on(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    found.add("it")
    await trio.sleep(50)
    found.add("it")
    await trio.sleep(50)
    assert "it" in found


async def test_what_is_so_no_more_holds_no_longer(autojump_clock):
    found: ExpiringSet[str] = ExpiringSet(60)
    found.add("it")
    found.discard("it")
    found.discard("it")
    assert "it" not in found


async def test_what_was_found_long_ago_takes_no_memory(autojump_clock):
    found: ExpiringSet[int] = ExpiringSet(5)
    for number in range(20):
        found.add(number)
        await trio.sleep(1)
    assert len(found._added) <= 5
