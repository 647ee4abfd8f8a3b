"""Tests of TLS streams against trio's own: cut into pieces, cut off, corrupted."""

from __future__ import annotations

import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from proxy.net.sockets.streams import RECEIVE_SIZE, Stream
from tests.proxy.net.peers import PATIENCE, takes_turns
from tests.proxy.net.tls_peers import (
    Split,
)
from tests.sweeps import examples

MUCH = 1024 * 1024


# relayed bytes


async def test_a_chunk_is_what_the_peer_sent_and_the_last_one_is_empty(ends):
    await ends.peer.say(b"one")
    assert await ends.stream.receive() == b"one"
    await ends.peer.say(b"two")
    await ends.peer.ends()
    assert await ends.stream.receive() == b"two"
    assert await ends.stream.receive() == b""
    assert await ends.stream.receive() == b""


async def test_the_end_of_the_connection_is_an_end_without_tls_saying_so(ends):
    await ends.peer.say(b"one")
    await ends.peer.below.send_eof()
    assert await ends.stream.receive() == b"one"
    assert await ends.stream.receive() == b""


async def test_records_come_in_one_chunk_as_large_as_a_plain_streams(ends, nursery):
    nursery.start_soon(ends.peer.say, bytes(MUCH))
    sizes: list[int] = []
    while sum(sizes) < MUCH:
        await wait_all_tasks_blocked(0.001)
        sizes.append(len(await ends.stream.receive()))
    assert max(sizes) > 32 * 1024
    assert max(sizes) <= RECEIVE_SIZE


async def test_no_more_is_received_than_requested_and_the_rest_stays(ends):
    await ends.peer.say(b"frame and more")
    assert await ends.stream.receive(5) == b"frame"
    assert await ends.stream.receive(4) == b" and"
    assert await ends.stream.receive() == b" more"


async def test_put_back_bytes_come_first_after_other_tasks_had_their_turn(ends, nursery):
    turns = []

    async def other() -> None:
        turns.append("other")

    await ends.peer.say(b"one and more")
    assert await ends.stream.receive(3) == b"one"
    ends.stream.put_back(b"ne")
    nursery.start_soon(other)
    assert await ends.stream.receive(1) == b"n"
    assert await ends.stream.receive() == b"e"
    assert turns == ["other"]
    assert await ends.stream.receive() == b" and more"


@pytest.mark.parametrize("is_put_back", [False, True])
async def test_a_call_that_is_cancelled_takes_nothing(ends, is_put_back):
    await ends.peer.say(b"frame and more")
    chunk = await ends.stream.receive(5)
    if is_put_back:
        ends.stream.put_back(chunk)
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends.stream.receive()
    assert scope.cancelled_caught
    received = b"" if is_put_back else chunk
    while received != b"frame and more":
        received += await ends.stream.receive()


async def test_pieces_are_sent_in_order_to_a_slow_peer(ends, nursery):
    pieces = [b"a" * MUCH, memoryview(b"b" * MUCH)[1:], b"", b"c"]
    nursery.start_soon(ends.stream.send, pieces)
    assert await ends.peer.hear(2 * MUCH) == b"a" * MUCH + b"b" * (MUCH - 1) + b"c"


async def test_a_chunk_is_one_send(ends, monkeypatch):
    sends = []
    send = Stream.send

    async def counted(self: Stream, pieces: list[bytes]) -> None:
        sends.append(len(pieces))
        await send(self, pieces)

    monkeypatch.setattr(Stream, "send", counted)
    await ends.stream.send([b"a" * 1000, b"b" * 1000, memoryview(b"c" * 17_000)])
    assert sends == [1]
    assert await ends.peer.hear(19_000) == b"a" * 1000 + b"b" * 1000 + b"c" * 17_000


async def test_a_large_piece_is_not_encrypted_all_at_once(ends, nursery, monkeypatch):
    sizes: list[int] = []
    send = Stream.send

    async def sized(self: Stream, pieces: list[bytes]) -> None:
        sizes.extend(map(len, pieces))
        await send(self, pieces)

    monkeypatch.setattr(Stream, "send", sized)
    nursery.start_soon(ends.stream.send, [bytes(4 * MUCH)])
    await ends.peer.hear(4 * MUCH)
    assert max(sizes) < 2 * RECEIVE_SIZE


async def test_both_directions_at_once_lose_nothing(ends):
    heard: list[bytes] = []

    async def receive() -> None:
        while sum(map(len, heard)) < 4 * MUCH:
            heard.append(await ends.stream.receive())

    async with trio.open_nursery() as all_four:
        all_four.start_soon(ends.stream.send, [b"x" * MUCH] * 4)
        all_four.start_soon(ends.peer.say, b"y" * 4 * MUCH)
        all_four.start_soon(receive)
        assert await ends.peer.hear(4 * MUCH) == b"x" * 4 * MUCH
    assert b"".join(heard) == b"y" * 4 * MUCH


async def test_wake_ends_the_wait_for_data_and_loses_none(ends, nursery):
    got = []

    async def receive() -> None:
        got.append(await ends.stream.receive())
        got.append(await ends.stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    assert ends.stream.is_waiting
    ends.stream.wake()
    await wait_all_tasks_blocked()
    assert got == [None]
    await ends.peer.say(b"data")
    await wait_all_tasks_blocked(0.01)
    assert got == [None, b"data"]


async def test_being_woken_in_the_middle_of_a_record_loses_nothing(signed):
    relay = await Split.begin(signed)
    await relay.peer.say(b"x" * 10_000)
    record = await relay.took()
    await relay.gives(record[:3000])
    got = []

    async def receive() -> None:
        got.append(await relay.stream.receive())
        got.append(await relay.stream.receive())

    async with trio.open_nursery() as both:
        both.start_soon(receive)
        await wait_all_tasks_blocked(0.01)
        relay.stream.wake()
        await wait_all_tasks_blocked(0.01)
        await relay.gives(record[3000:])
    assert got == [None, b"x" * 10_000]
    relay.close()


async def test_cancelled_receiving_continues(ends):
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends.stream.receive()
    await ends.peer.say(b"later")
    assert await ends.stream.receive() == b"later"


async def test_each_receive_leaves_others_their_turn(ends):
    await ends.peer.say(b"x" * 100)
    await wait_all_tasks_blocked(0.01)
    assert await takes_turns(lambda: ends.stream.receive(1), 50)


# any cuts of the records


@pytest.mark.parametrize("size", [1, 5, 6, 21, 22, 100])
async def test_records_cut_anywhere_are_the_same_bytes(signed, size):
    split = await Split.begin(signed)
    data = bytes(range(256))
    for piece in (data[:1], data[1:100], data[100:]):
        await split.peer.say(piece)
    records = await split.took()
    heard = b""
    async with trio.open_nursery() as nursery:
        for at in range(0, len(records), size):
            await split.gives(records[at : at + size])
            await wait_all_tasks_blocked()
        nursery.start_soon(split.gives, b"")
        while len(heard) < len(data):
            chunk = await split.stream.receive()
            assert chunk is not None
            heard += chunk
    assert heard == data
    split.close()


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(st.binary(max_size=40_000), max_size=6),
    cuts=st.lists(st.integers(1, 20_000), min_size=1, max_size=6),
    most=st.integers(1, 40_000),
)
def test_all_sent_bytes_arrive_for_any_cuts_and_receive_sizes(signed, said, cuts, most):
    async def main() -> None:
        split = await Split.begin(signed)
        heard: list[bytes] = []

        async def say() -> None:
            for piece in said:
                await split.peer.say(piece)
            await split.peer.below.send_eof()

        async def cut() -> None:
            at = 0
            while piece := await split.to_client.receive_some(cuts[at % len(cuts)]):
                at += 1
                await split.gives(bytes(piece))
            await split.to_proxy.send_eof()

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as both:
                both.start_soon(say)
                both.start_soon(cut)
                while chunk := await split.stream.receive(most):
                    assert len(chunk) <= most
                    heard.append(chunk)
        assert b"".join(heard) == b"".join(said)
        split.close()

    trio.run(main)
