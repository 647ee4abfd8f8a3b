"""Tests of dialled and accepted connections: the options of their sockets, and brokers that can't be reached."""

import errno
import socket
from collections.abc import Iterable, Iterator

import pytest
import trio

from proxy.net.sockets.race import HEAD_START
from proxy.net.sockets.streams import LeadsBack, PeerLost, Stream, accepted, dial
from proxy.schema.addresses import Address
from tests.proxy.net.peers import HOST, Peer, deaf

# Linux' number of the option, whose name is missing from a Python that was built for an old C library
TCP_NOTSENT_LOWAT = 25


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
        assert sock.getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT) == 0


@pytest.mark.ipv6
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
