from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from proxy.config import ProxyProtocolVersion
from proxy.net.sockets.proxy_protocol import ClientEndpoints, encode_header
from proxy.net.sockets.proxy_protocol_reader import NoHeader, read_header
from proxy.net.sockets.streams import NothingSent, PeerLost, Stream
from proxy.schema.addresses import Address
from tests.proxy.net.peers import Peer, connected

ENDPOINTS = ClientEndpoints(Address("192.0.2.7", 50123), Address("198.51.100.1", 9092))
BOTH = pytest.mark.parametrize("version", [ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO])


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Stream, Peer]]:
    one, other = connected()
    stream, peer = Stream(one, "balancer"), Peer(other)
    yield stream, peer
    stream.close()
    peer.close()


@BOTH
async def test_a_header_is_read_and_the_bytes_after_it_are_left(version, ends):
    client, balancer = ends
    await balancer.say(encode_header(version, ENDPOINTS), b"the first request")
    assert await read_header(client, 5) == ENDPOINTS
    assert await client.receive() == b"the first request"


@BOTH
async def test_a_header_may_come_byte_by_byte(version, ends, nursery):
    client, balancer = ends

    async def speak() -> None:
        for byte in encode_header(version, ENDPOINTS):
            await balancer.say(bytes([byte]))
            await trio.sleep(0)

    nursery.start_soon(speak)
    assert await read_header(client, 5) == ENDPOINTS


async def test_bytes_that_begin_no_header_raise_no_header(ends):
    client, balancer = ends
    await balancer.say(b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\4test")
    with pytest.raises(NoHeader, match="begin no header"):
        await read_header(client, 5)


@BOTH
async def test_a_missing_header_is_waited_for_until_its_timeout(version, ends, autojump_clock: MockClock):
    client, balancer = ends
    await balancer.say(encode_header(version, ENDPOINTS)[:-1])
    with pytest.raises(NoHeader, match="not come in time"):
        await read_header(client, 5)
    assert trio.current_time() == pytest.approx(5)


async def test_a_cut_header_is_refused(ends):
    client, balancer = ends
    await balancer.say(b"PROXY TCP4 ")
    await balancer.finish()
    with pytest.raises(NoHeader, match="middle"):
        await read_header(client, 5)


@pytest.mark.parametrize("ends_it", [Peer.close, Peer.reset])
async def test_a_balancer_may_probe_the_listener(ends, ends_it):
    client, balancer = ends
    ends_it(balancer)
    with pytest.raises(NothingSent):
        await read_header(client, 5)


@pytest.mark.parametrize(
    ("said", "protocol"), [(b"\x16\x03\x01\2\0\1\0\1\xfc\3\3" + bytes(9), "TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")]
)
async def test_what_is_spoken_instead_of_a_header_is_named(ends, said, protocol):
    client, balancer = ends
    await balancer.say(said)
    with pytest.raises(NoHeader, match=f"the client speaks {protocol} instead"):
        await read_header(client, 5)


async def test_a_reset_within_a_header_is_a_reset(ends):
    client, balancer = ends
    await balancer.say(b"PROXY TCP4 192.0.2.1 ")
    await wait_all_tasks_blocked(0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_reset_soon, balancer)
        with pytest.raises(PeerLost) as lost:
            await read_header(client, 5)
    assert not isinstance(lost.value, NothingSent)


async def _reset_soon(balancer: Peer) -> None:
    await wait_all_tasks_blocked(0.01)
    balancer.reset()
