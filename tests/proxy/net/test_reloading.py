from __future__ import annotations

import logging
import signal
import socket
import threading
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net import reloading
from proxy.net.change import Change
from proxy.net.reloading import ReloadedSettings
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wire.keys import HEARTBEAT
from tests.logs import keys_of
from tests.proxy.net.changes import Noted
from tests.proxy.net.cluster import PING, PONG, asked, ping
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import Watcher, listens, settings, whole
from tests.proxy.net.threads import no_threads


def reasons(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [str(keys_of(record)["reason"]) for record in caplog.records if record.message == event]


async def test_new_settings_change_what_cuts_no_connection(broker):
    before = settings(broker.address)
    grown = settings(broker.address, named={7: Address(HOST, 0)})
    new = ReloadedSettings(whole(grown, drain_seconds=0), "what is kept")
    async with proxying(before, drain_seconds=60, reload=lambda: new) as proxy:
        client = await proxy.client()
        await ping(client)
        await proxy.read_again()
        await proxy.nodes(7)
        await ping(client)
        assert proxy.proxy.settings.drain_seconds == 0
        assert proxy.watcher.seen("chosen") == [("chosen", "what is kept")]


async def test_wrong_settings_change_nothing(broker, caplog):
    def reload() -> ReloadedSettings:
        raise BadSetting("drian is no setting; right would be drain", "metrics = 1 is no text")

    async with proxying(settings(broker.address), drain_seconds=60, reload=reload) as proxy:
        await proxy.read_again()
        await ping(await proxy.client())
        assert proxy.proxy.settings.drain_seconds == 60
    assert caplog.text.count("settings stay as they are") == 2


async def test_a_reload_that_one_cluster_refuses_changes_no_cluster(broker, caplog):
    """The first cluster's new listener is ready when the second one refuses; it is closed again."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        at = Address(*free.getsockname())
    east, west = (settings(broker.address, name=name) for name in ("east", "west"))
    new = (replace(east, nodes={7: at}), replace(west, nodes={7: Address("192.0.2.1", 9094)}))
    noted = Noted()
    asks = ReloadedSettings(whole(*new, drain_seconds=1), "what is kept", noted.change())
    async with proxying(east, west, drain_seconds=60, reload=lambda: asks) as proxy:
        await proxy.read_again()
        assert "--node 7=192.0.2.1:9094 can't be listened on" in reasons(caplog, "settings stay as they are")[0]
        assert not listens(at.port)
        assert proxy.proxy.settings.drain_seconds == 60
        assert (noted.said, proxy.watcher.seen("chosen")) == ([], [])


async def test_a_fault_while_settings_are_read_again_ends_nothing(broker, caplog):
    def reload() -> ReloadedSettings:
        raise KeyError("capture")

    async with proxying(settings(broker.address), reload=reload) as proxy:
        await proxy.read_again()
        await ping(await proxy.client())
        assert not proxy.finished.is_set()
    assert "settings stay as they are: a fault" in caplog.text


def faulty() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("where", ["recorder", "taken"])
async def test_a_fault_while_settings_are_put_into_effect_leaves_all_of_the_old_ones(
    broker, caplog, monkeypatch, where
):
    new = settings(broker.address, advertised={1: Address("kafka-1.example.org", 443)})
    taken = Change(faulty if where == "taken" else lambda: None, lambda: None)
    watcher = Watcher()
    if where == "recorder":
        monkeypatch.setattr(watcher, "selection_change", lambda recording: (faulty, lambda: None))
    async with proxying(
        settings(broker.address),
        watcher=watcher,
        drain_seconds=60,
        reload=lambda: ReloadedSettings(whole(new, drain_seconds=1), "new", taken),
    ) as proxy:
        await proxy.nodes(1)
        told = proxy.cluster.nodes.advertised(1)
        await proxy.read_again()
        (record,) = [record for record in caplog.records if record.message.startswith("settings stay as they are")]
        assert record.exc_info
        assert proxy.cluster.nodes.advertised(1) == told
        assert proxy.proxy.settings.drain_seconds == 60
        if where == "taken":
            assert [event[1] for event in watcher.seen("chosen")] == ["new", "as before"]
        await ping(await proxy.client(1))
        # and the settings may be read again
        await proxy.read_again()


async def test_a_file_that_hangs_stops_nothing_but_what_waits_for_it(broker, caplog, monkeypatch):
    """The file may be a FIFO without a writer, or on a disk that is gone. SIGHUP comes again meanwhile, and SIGTERM."""
    monkeypatch.setattr(reloading, "READ_SECONDS", 0.05)
    hangs, released, reads = threading.Event(), threading.Event(), 0

    def reload() -> ReloadedSettings:
        nonlocal reads
        reads += 1
        hangs.set()
        released.wait()
        raise BadSetting("is heard by nobody any more")

    async with proxying(settings(broker.address), reload=reload) as proxy:
        for _ in range(2):
            await proxy.read_again()
            await ping(await proxy.client())
        said = reasons(caplog, "settings stay as they are")
        assert len(said) == 2
        assert all("they can't be read within" in line for line in said)
        # the second one waited for the first: only one thread hangs
        assert reads == 1
        signal.raise_signal(signal.SIGHUP)
        proxy.stop()
        await proxy.ends_with(0)
        released.set()


async def test_several_hangups_at_a_time_are_one_more(broker):
    may_go_on, reads = threading.Event(), 0

    def reload() -> ReloadedSettings:
        nonlocal reads
        reads += 1
        may_go_on.wait()
        return ReloadedSettings(whole(settings(broker.address)))

    async with proxying(settings(broker.address), reload=reload) as proxy:
        signal.raise_signal(signal.SIGHUP)
        with trio.fail_after(PATIENCE):
            while not reads:
                await wait_all_tasks_blocked(0.005)
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
            await wait_all_tasks_blocked(0.005)
        may_go_on.set()
        with trio.fail_after(PATIENCE):
            while len(proxy.watcher.seen("chosen")) < 2:
                await wait_all_tasks_blocked(0.005)
        await wait_all_tasks_blocked(0.02)
        assert reads == 2


async def test_a_proxy_that_stops_takes_over_nothing(broker, withheld, caplog):
    caplog.set_level(logging.INFO)
    may_go_on = threading.Event()

    def reload() -> ReloadedSettings:
        may_go_on.wait()
        return ReloadedSettings(whole(settings(broker.address)))

    async with proxying(settings(broker.address), reload=reload) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        signal.raise_signal(signal.SIGHUP)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        may_go_on.set()
        with trio.fail_after(PATIENCE):
            while "settings stay as they are: the proxy stops" not in caplog.text:
                await wait_all_tasks_blocked(0.005)
        assert proxy.watcher.seen("chosen") == []
        withheld.set()
        await client.hears(PONG)
        client.close()
        await proxy.ends_with(0)


async def test_a_hangup_without_settings_to_read_again_ends_nothing(broker):
    async with proxying(settings(broker.address)) as proxy:
        signal.raise_signal(signal.SIGHUP)
        await wait_all_tasks_blocked(0.01)
        await ping(await proxy.client())
        assert not proxy.finished.is_set()


async def test_settings_that_no_thread_can_read_stay_as_they_are(broker, caplog):
    async with proxying(settings(broker.address), reload=lambda: pytest.fail("read without a thread")) as proxy:
        with no_threads():
            await proxy.read_again()
            client = await proxy.client()
            await ping(client)
        assert reasons(caplog, "settings stay as they are") == ["they can't be read: no thread can be had"]
        client.close()
