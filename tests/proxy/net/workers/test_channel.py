from __future__ import annotations

import errno
import resource
import socket
import struct
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from proxy.net.workers.channel import Channel, ChannelBroken, channel_pair
from tests.proxy.net.peers import HOST, PATIENCE


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Sockets that are closed at the test's end."""
    made: list[socket.socket] = []
    yield made
    for sock in made:
        sock.close()


@pytest.fixture
async def ends(nursery: trio.Nursery) -> AsyncIterator[tuple[Channel, Channel]]:
    here, there = channel_pair()
    both = here, Channel(there)
    for channel in both:
        nursery.start_soon(channel.run)
    yield both
    for channel in both:
        channel.close()


def listening(sockets: list[socket.socket]) -> socket.socket:
    sock = socket.create_server((HOST, 0))
    sockets.append(sock)
    return sock


async def received(channel: Channel):
    with trio.fail_after(PATIENCE):
        message = await channel.receive()
    assert message is not None
    return message


async def test_messages_arrive_in_order(ends):
    for number in range(100):
        ends[0].send({"number": number})
    assert [(await received(ends[1])).payload for _ in range(100)] == [{"number": number} for number in range(100)]


async def test_both_ends_of_a_channel_send_messages(ends):
    ends[0].send({"from": "here"})
    ends[1].send({"from": "there"})
    assert (await received(ends[1])).payload == {"from": "here"}
    assert (await received(ends[0])).payload == {"from": "there"}


async def test_a_message_may_be_larger_than_a_socket_takes(ends):
    said = {"much": ["word"] * 500_000}
    ends[0].send(said)
    assert (await received(ends[1])).payload == said


async def test_a_message_may_come_in_any_pieces(nursery):
    channel, there = channel_pair()
    data = b'{"number":1}'
    wire = trio.socket.from_stdlib_socket(there)
    with wire:
        for byte in struct.pack(">I", len(data)) + data:
            await wire.send(bytes([byte]))
        assert (await received(channel)).payload == {"number": 1}
    channel.close()


async def test_sockets_arrive_with_the_message_that_they_were_given_to(ends, sockets):
    made = [listening(sockets) for _ in range(40)]
    for number, sock in enumerate(made):
        ends[0].send({"number": number}, [sock])
        ends[0].send({"filler": "x" * number * 500})
    for number, sock in enumerate(made):
        message = await received(ends[1])
        sockets += message.sockets
        assert message.payload == {"number": number}
        assert [one.getsockname() for one in message.sockets] == [sock.getsockname()]
        assert (await received(ends[1])).sockets == ()


async def test_a_socket_that_its_owner_has_closed_meanwhile_arrives_all_the_same(ends, sockets):
    sock = socket.create_server((HOST, 0))
    where = sock.getsockname()
    ends[0].send({}, [sock])
    sock.close()
    message = await received(ends[1])
    sockets += message.sockets
    assert message.sockets[0].getsockname() == where


async def test_the_end_of_the_other_side_is_no_message(ends):
    ends[0].send({"last": "words"})
    await ends[0].all_sent()
    ends[0].close()
    assert (await received(ends[1])).payload == {"last": "words"}
    assert await ends[1].receive() is None


async def test_sending_to_a_closed_channel_does_not_block(ends):
    ends[1].close()
    for _ in range(3):
        ends[0].send({"much": "x" * 1_000_000})
        with trio.fail_after(PATIENCE):
            await ends[0].all_sent()


async def test_a_message_that_the_kernel_does_not_take_ends_the_channel_for_both_sides(ends, sockets, monkeypatch):
    async def refused(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")

    monkeypatch.setattr(ends[0]._socket, "sendmsg", refused)
    ends[0].send({}, [listening(sockets)])
    with trio.fail_after(PATIENCE):
        for channel in ends:
            assert await channel.receive() is None


async def test_bytes_that_are_no_message_end_the_channel():
    channel, there = channel_pair()
    there.sendall(struct.pack(">I", 3) + b"{x}")
    with pytest.raises(ChannelBroken, match="not JSON"):
        await channel.receive()
    channel.close()
    there.close()


async def test_sockets_for_which_there_is_no_room_end_the_channel(ends, sockets):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    sock = listening(sockets)
    ends[0].send({}, [sock] * 16)
    await ends[0].all_sent()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (sock.fileno() + 1, hard))
        with pytest.raises(ChannelBroken, match="too many files"):
            await ends[1].receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
