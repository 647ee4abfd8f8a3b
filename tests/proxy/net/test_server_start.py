"""Tests of the proxy's start: wrong settings, their precedence, limits of the machine."""

from __future__ import annotations

import gc
import resource
import signal
import socket
from collections.abc import Iterator, Mapping

import pytest

from proxy import net
from proxy.net import server
from proxy.net.brokers.node_ports import bind
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.net.peers import HOST, NOWHERE
from tests.proxy.net.proxies import proxying, stopped
from tests.proxy.net.relays import Watcher, settings, whole


def test_a_busy_listen_port_is_a_bad_setting_and_the_recording_is_closed():
    watcher = Watcher()
    with bind(Address(HOST, 0)) as sock:
        busy = Address(*sock.getsockname())
        with pytest.raises(BadSetting, match=r"--listen 127.* can't be had \(Address already in use\); right would be"):
            net.run(net.Proxy(whole(settings(NOWHERE, listen=busy)), watcher))
    assert watcher.events == [("close",)]


def test_a_busy_metrics_port_is_a_bad_setting():
    with bind(Address(HOST, 0)) as sock:
        busy = Address(*sock.getsockname())
        with pytest.raises(BadSetting, match=r"--metrics 127.* can't be had .*; right would be .* 127.0.0.1:9464"):
            net.run(net.Proxy(whole(settings(NOWHERE), metrics=busy)))


def test_a_node_that_cannot_be_listened_for_is_a_bad_setting():
    with pytest.raises(BadSetting, match=r"--node 1=192.0.2.1:9094 can't be listened on"):
        net.run(net.Proxy(whole(settings(NOWHERE, named={1: Address("192.0.2.1", 9094)}))))


def test_an_unreadable_state_file_is_a_bad_setting(tmp_path):
    (tmp_path / "nodes.json").write_text("not json")
    with pytest.raises(BadSetting, match=r"--state .* can't be read"):
        net.run(net.Proxy(whole(settings(NOWHERE, state=tmp_path / "nodes.json"))))


def test_an_error_of_no_setting_is_raised_unchanged():
    def ready(listening: Mapping[str, Address], metrics: Address | None) -> None:
        raise RuntimeError("nothing to do with settings")

    with pytest.raises(ExceptionGroup) as raised:
        net.run(net.Proxy(whole(settings(NOWHERE)), None, None, ready))
    assert raised.group_contains(RuntimeError)


def test_a_run_ends_with_the_exit_code():
    assert net.run(net.Proxy(whole(settings(NOWHERE)), None, None, stopped)) == 0


async def test_flags_that_win_over_the_state_file_are_logged(broker, caplog):
    with socket.socket() as free:
        free.bind((HOST, 0))
        named = Address(*free.getsockname())
    async with proxying(settings(broker.address, named={1: named}, remembered={1: 40123})) as proxy:
        assert proxy.cluster.nodes.advertised(1) == named
    assert "node 1 does not keep port 40123 of the state file" in caplog.text


@pytest.fixture
def few_files() -> Iterator[None]:
    """The usual limit on open files, or less."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_proxy_may_open_as_many_files_as_it_is_allowed(few_files):
    net.run(net.Proxy(whole(settings(NOWHERE)), None, None, lambda *where: signal.raise_signal(signal.SIGTERM)))
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit == most


def test_loaded_objects_are_frozen_for_the_garbage_collector():
    server._freeze_loaded_objects()
    left = gc.get_freeze_count()
    gc.unfreeze()
    assert left > 10_000
