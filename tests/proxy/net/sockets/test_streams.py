import errno
import os
import random
import socket
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.sockets.race import HEAD_START
from proxy.net.sockets.streams import LeadsBack, PeerLost, Stream, accepted, dial
from proxy.schema.addresses import Address
from tests.proxy.net.peers import HOST, Peer, connected, deaf, takes_turns

MUCH = 1024 * 1024


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Stream, Peer]]:
    one, other = connected(buffers=64 * 1024)
    stream, peer = Stream(one, "peer"), Peer(other)
    yield stream, peer
    stream.close()
    peer.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.listen()
        yield sock


class Resolver(trio.abc.HostnameResolver):
    """A resolver that knows one name, with several addresses."""

    def __init__(self, *numbers: str) -> None:
        self.numbers = numbers

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        assert host == b"several.invalid"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port)) for number in self.numbers]

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError("nobody asks for names")


async def test_a_chunk_is_what_the_peer_sent_and_the_last_one_is_empty(ends):
    stream, peer = ends
    await peer.say(b"one")
    assert await stream.receive() == b"one"
    await peer.say(b"two")
    await peer.finish()
    assert await stream.receive() == b"two"
    assert await stream.receive() == b""


async def test_send_now_returns_the_bytes_that_the_peer_did_not_take(ends):
    stream, peer = ends
    chunk = random.Random(0).randbytes(MUCH)
    rest, behind = stream.send_now([chunk, b"behind"])
    assert 0 < len(rest) < len(chunk)
    assert behind == b"behind"
    assert await peer.hear(len(chunk) - len(rest)) + bytes(rest) == chunk


async def test_receiving_waits_for_the_peer(ends, nursery):
    stream, peer = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    assert got == []
    assert stream.is_waiting
    await peer.say(b"late")
    await wait_all_tasks_blocked(0.01)
    assert got == [b"late"]
    assert not stream.is_waiting


async def test_wake_ends_the_wait_for_data(ends, nursery):
    stream, _ = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    stream.wake()
    await wait_all_tasks_blocked()
    assert got == [None]


async def test_being_woken_before_waiting_counts_once(ends, autojump_clock):
    stream, _ = ends
    stream.wake()
    stream.wake()
    assert await stream.receive() is None
    with trio.move_on_after(1) as waited:
        await stream.receive()
    assert waited.cancelled_caught


async def test_a_woken_receiver_gets_none_first_and_loses_no_data(ends, nursery):
    stream, peer = ends
    got = []

    async def receive_two() -> None:
        got.append(await stream.receive())
        got.append(await stream.receive())

    nursery.start_soon(receive_two)
    await wait_all_tasks_blocked()
    await wait_all_tasks_blocked()
    stream.wake()
    await peer.say(b"data")
    await wait_all_tasks_blocked(0.01)
    assert got == [None, b"data"]


async def test_a_wake_after_a_cancelled_wait_ends_the_next_wait(ends):
    stream, _ = ends
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.receive()
    stream.wake()
    assert await stream.receive() is None


async def test_put_back_bytes_come_first_after_other_tasks_had_their_turn(ends, nursery):
    stream, peer = ends
    turns = []

    async def other() -> None:
        turns.append("other")

    await peer.say(b"one")
    assert await stream.receive() == b"one"
    stream.put_back(b"ne")
    await peer.say(b"two")
    nursery.start_soon(other)
    assert await stream.receive(1) == b"n"
    assert not stream.is_waiting
    assert await stream.receive() == b"e"
    assert turns == ["other"]
    assert await stream.receive() == b"two"


async def test_bytes_put_back_by_their_callback_are_delivered_again(ends):
    stream, peer = ends
    taken = []

    def take(chunk: bytes) -> bytes | None:
        taken.append(chunk[:2])
        if chunk[2:]:
            stream.put_back(chunk[2:])
            return chunk
        return None

    await peer.say(b"abcdef")
    assert await stream.receive_until(take) == b"abcdef"
    assert await stream.receive_until(take) == b"cdef"
    with trio.move_on_after(0.01):
        await stream.receive_until(take)
    assert taken == [b"ab", b"cd", b"ef"]


async def test_a_woken_receiver_gets_none_before_the_put_back_bytes(ends):
    stream, _ = ends
    stream.put_back(b"rest")
    stream.wake()
    assert await stream.receive() is None
    assert await stream.receive() == b"rest"


async def test_a_peer_that_always_has_data_leaves_others_their_turn():
    one, other = connected()
    stream = Stream(one, "peer")

    async def receive() -> None:
        other.send(b"x")
        await stream.receive()

    assert await takes_turns(receive, 5)
    stream.close()
    other.close()


async def test_a_reset_says_which_stream_broke(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost) as lost:
        await stream.receive()
    assert lost.value.stream is stream
    assert isinstance(lost.value.__cause__, ConnectionResetError)


async def test_a_reset_ends_the_wait_for_data(ends, nursery):
    stream, peer = ends

    async def reset() -> None:
        await wait_all_tasks_blocked()
        peer.reset()

    nursery.start_soon(reset)
    with pytest.raises(PeerLost):
        await stream.receive()


async def test_sending_to_a_slow_peer_takes_all_pieces_in_order(ends, nursery):
    stream, peer = ends
    pieces = [b"a" * MUCH, memoryview(b"b" * MUCH)[1:], b"", b"c"]
    nursery.start_soon(stream.send, pieces)
    assert await peer.hear(2 * MUCH) == b"a" * MUCH + b"b" * (MUCH - 1) + b"c"


async def test_sending_waits_while_the_peer_is_slow(ends, nursery):
    stream, peer = ends
    sent = trio.Event()

    async def send() -> None:
        await stream.send([bytes(MUCH)])
        sent.set()

    nursery.start_soon(send)
    await wait_all_tasks_blocked(0.01)
    assert not sent.is_set()
    await peer.hear(MUCH)
    await sent.wait()


async def test_waking_the_receiver_does_not_disturb_the_sender(ends, nursery):
    stream, peer = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    pieces = [b"a" * MUCH, b"b" * MUCH]
    nursery.start_soon(stream.send, pieces)
    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    stream.wake()
    assert await peer.hear(2 * MUCH) == b"".join(pieces)
    assert got == [None]


async def test_closing_ends_the_waits_of_both_tasks(ends, nursery):
    stream, _ = ends
    lost = []

    async def wait(what) -> None:
        with pytest.raises(PeerLost) as caught:
            await what
        lost.append(caught.value.stream)

    nursery.start_soon(wait, stream.send([bytes(4 * MUCH)]))
    nursery.start_soon(wait, stream.receive())
    await wait_all_tasks_blocked()
    stream.close()
    await wait_all_tasks_blocked()
    assert lost == [stream, stream]


async def test_sending_to_a_gone_peer_raises_an_error(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost) as lost:
        await stream.send([b"x"])
    assert lost.value.stream is stream


async def test_a_peer_that_leaves_while_bytes_are_sent_raises_an_error(ends, nursery):
    stream, peer = ends

    async def reset() -> None:
        await wait_all_tasks_blocked(0.01)
        peer.reset()

    nursery.start_soon(reset)
    with pytest.raises(PeerLost):
        await stream.send([bytes(MUCH)])


async def test_receiving_continues_after_the_end_of_stream_was_sent(ends):
    stream, peer = ends
    await stream.send_eof()
    await peer.hears_the_end()
    await peer.say(b"still here")
    assert await stream.receive() == b"still here"


async def test_ending_the_stream_to_a_gone_peer_raises_an_error(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost):
        await stream.receive()
    with pytest.raises(PeerLost):
        await stream.send_eof()


async def test_finishing_lets_the_peer_take_what_was_sent_while_it_sends_itself(ends, nursery):
    stream, peer = ends
    await peer.say(b"never read")
    answer = b"y" * MUCH

    async def answer_and_close() -> None:
        await stream.send([answer])
        await stream.finish(10)
        stream.close()

    nursery.start_soon(answer_and_close)
    first = await peer.hear(10)
    await peer.say(b"and more")
    assert first + await peer.hear_all() == answer
    await peer.finish()


async def test_finishing_tells_the_peer_that_nothing_more_comes(ends, nursery):
    stream, peer = ends
    nursery.start_soon(stream.finish, 1000)
    await peer.hears_the_end()
    await peer.finish()


async def test_finishing_waits_for_the_peer_until_its_timeout(ends, autojump_clock):
    stream, _ = ends
    began = trio.current_time()
    await stream.finish(5)
    assert trio.current_time() - began == 5


async def test_finishing_ends_with_a_peer_that_has_gone(ends):
    stream, peer = ends
    peer.reset()
    await stream.finish(1000)


async def test_closing_twice_is_closing_once(ends):
    stream, peer = ends
    stream.close()
    stream.close()
    await peer.hears_the_end()


def options(sock: socket.socket) -> dict[str, int]:
    tcp = {name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in TCP_OPTIONS}
    return tcp | {"SO_KEEPALIVE": sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)}


TCP_OPTIONS = ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")


@pytest.mark.parametrize(
    ("keepalive", "idle", "between"),
    [(60, 60, 10), (0.2, 1, 1), (10**6, 32767, 5461), (1e300, 32767, 5461), (float("inf"), 32767, 5461)],
)
async def test_small_frames_leave_at_once_and_silent_machines_are_asked(keepalive, idle, between, listener):
    stream = await dial(Address(*listener.getsockname()), 10, keepalive=keepalive)
    other, _ = listener.accept()
    client = accepted(trio.socket.from_stdlib_socket(other), "client", keepalive)
    for end in (stream, client):
        found = options(end._socket)
        assert found.pop("TCP_NODELAY")
        assert found.pop("SO_KEEPALIVE")
        assert found == {"TCP_KEEPIDLE": idle, "TCP_KEEPINTVL": between, "TCP_KEEPCNT": 6}
        end.close()


async def test_a_greeting_is_the_first_that_a_broker_hears(listener):
    stream = await dial(Address(*listener.getsockname()), 10, preamble=b"PROXY UNKNOWN\r\n")
    await stream.send([b"request"])
    broker = Peer(listener.accept()[0])
    await broker.hears(b"PROXY UNKNOWN\r\nrequest")
    stream.close()
    broker.close()


async def test_a_broker_that_goes_while_it_is_greeted_cannot_be_reached(listener, monkeypatch):
    async def lost(self: Stream, pieces: Iterable[bytes]) -> None:
        raise PeerLost("Connection reset by peer", self)

    monkeypatch.setattr(Stream, "send", lost)
    with pytest.raises(PeerLost):
        await dial(Address(*listener.getsockname()), 10, preamble=b"PROXY UNKNOWN\r\n")
    broker = Peer(listener.accept()[0])
    await broker.hears_the_end()
    broker.close()


@pytest.mark.parametrize(
    ("reason", "vanished"),
    [(errno.ETIMEDOUT, True), (errno.EHOSTUNREACH, True), (errno.ECONNRESET, False), (errno.EPIPE, False)],
)
async def test_a_lost_machine_is_distinguished_from_a_peer_that_left(reason, vanished, ends, monkeypatch):
    def fails(self: socket.socket, most: int) -> bytes:
        raise OSError(reason, os.strerror(reason))

    stream, peer = ends
    await peer.say(b"something to be read")
    broken = socket.socket(fileno=stream._socket.detach())
    stream._socket = type("Broken", (socket.socket,), {"recv": fails})(fileno=broken.detach())
    with pytest.raises(PeerLost) as lost:
        await stream.receive()
    assert lost.value.vanished is vanished


async def test_bytes_that_a_slow_peer_takes_are_counted(ends, nursery):
    stream, peer = ends
    nursery.start_soon(stream.send, [bytes(MUCH)])
    await wait_all_tasks_blocked(0.01)
    before = stream.sent_slowly
    await peer.hear(MUCH // 2)
    await wait_all_tasks_blocked(0.01)
    assert stream.sent_slowly > before
    await peer.hear(MUCH // 2)


async def test_a_socket_that_refuses_its_options_is_used_all_the_same():
    one, other = socket.socketpair()
    stream = Stream(one, "peer")
    other.send(b"x")
    assert await stream.receive() == b"x"
    stream.close()
    other.close()


async def test_an_accepted_connection_knows_its_peer(listener):
    async with await trio.open_tcp_stream(*listener.getsockname()) as client:
        sock, _ = listener.accept()
        stream = accepted(trio.socket.from_stdlib_socket(sock), "client:1")
        await client.send_all(b"x")
        assert stream.peer == "client:1"
        assert await stream.receive() == b"x"
        stream.close()


async def test_dialling_reaches_a_broker(listener):
    stream = await dial(Address(*listener.getsockname()), 10)
    sock, _ = listener.accept()
    sock.send(b"x")
    assert await stream.receive() == b"x"
    assert stream.peer == f"{HOST}:{listener.getsockname()[1]}"
    stream.close()
    sock.close()


async def test_the_kernel_takes_for_a_broker_what_its_buffer_holds(listener):
    stream = await dial(Address(*listener.getsockname()), 10)
    with stream.detach() as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 0


async def test_dialling_reaches_a_broker_over_ipv6():
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        listener.listen()
        stream = await dial(Address("::1", listener.getsockname()[1]), 10)
        assert stream.peer == f"[::1]:{listener.getsockname()[1]}"
        stream.close()


async def test_a_name_with_several_addresses_is_reached_at_the_one_that_accepts(listener):
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", HOST))
    stream = await dial(Address("several.invalid", listener.getsockname()[1]), 10)
    stream.close()


async def test_an_address_of_a_name_that_does_not_answer_costs_a_moment(listener, autojump_clock):
    port = listener.getsockname()[1]
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", HOST))
    with deaf("127.0.0.2", port):
        began = trio.current_time()
        stream = await dial(Address("several.invalid", port), 10)
        assert trio.current_time() - began < 2 * HEAD_START
        stream.close()


async def test_dialling_the_proxy_itself_raises_leads_back_and_sends_nothing(listener):
    with pytest.raises(LeadsBack, match="leads back to this proxy"):
        await dial(Address(*listener.getsockname()), 10, preamble=b"hello", is_own=lambda sock: True)
    with listener.accept()[0] as arrived:
        assert arrived.recv(1) == b""


async def test_a_connection_that_ends_while_it_is_checked_can_not_be_had(listener):
    def ended(sock: socket.socket) -> bool:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    with pytest.raises(PeerLost, match=r"can't be reached: .*not connected"):
        await dial(Address(*listener.getsockname()), 10, is_own=ended)


async def test_an_unreachable_broker_is_lost_with_the_reason():
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        with pytest.raises(PeerLost, match="can't be reached: Connection refused") as lost:
            await dial(Address(*unused.getsockname()), 10)
    assert lost.value.stream is None


async def test_an_unreachable_broker_with_several_addresses_has_a_reason():
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", HOST))
        with pytest.raises(PeerLost, match=r"several.invalid.* can't be reached: .*Connection refused"):
            await dial(Address("several.invalid", unused.getsockname()[1]), 10)


async def test_an_unknown_host_is_reported_without_the_resolvers_number(monkeypatch):
    async def unknown(host: str, port: int) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio, "open_tcp_stream", unknown)
    with pytest.raises(PeerLost) as lost:
        await dial(Address("broker", 9092), 10)
    assert str(lost.value) == "broker:9092 can't be reached: Name or service not known"


async def test_a_broker_that_does_not_answer_is_abandoned_in_time(monkeypatch, autojump_clock):
    async def never(host: str, port: int) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", never)
    with pytest.raises(PeerLost, match=r"broker:9092 can't be reached: no answer in time"):
        await dial(Address("broker", 9092), 10)
    assert trio.current_time() > 9


@pytest.mark.parametrize(
    "address",
    [Address("a..b", 9092), Address("x" * 70, 9092), Address("a\0b", 9092), Address(HOST, 70000)],
    ids=["empty label", "long label", "NUL", "port"],
)
async def test_an_address_that_cannot_be_is_one_that_cannot_be_reached(address):
    with pytest.raises(PeerLost, match="can't be reached"):
        await dial(address, 10)
