"""TLS over a stream, against trio's own; cut into pieces, cut off, garbled."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import Clients, ListenerTls, UpstreamTls, Version
from proxy.net.sockets import tls as tls_streams
from proxy.net.sockets.streams import RECEIVE_SIZE, PeerLost, Stream
from proxy.net.sockets.tls import LiveCredentials, NoHandshake, TlsStream, towards_broker, towards_client
from tests.certificates import Authority
from tests.proxy.net.peers import PATIENCE, Peer, connected
from tests.proxy.net.threads import no_threads
from tests.proxy.net.tls_peers import (
    Certificates,
    TlsPeer,
    broker_context,
    certificates,
    client_context,
    dialling,
    listening,
    plain_pair,
)

MUCH = 1024 * 1024


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["1.2", "1.3"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    return {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[request.param]


@dataclass
class Ends:
    stream: TlsStream
    peer: TlsPeer

    async def shake_hands(self) -> None:
        async with trio.open_nursery() as both:
            both.start_soon(self.stream.handshake, PATIENCE)
            both.start_soon(self.peer.stream.do_handshake)

    def close(self) -> None:
        self.stream.close()
        self.peer.close()


def client_and_proxy(
    signed: Certificates, tls: ListenerTls, context: ssl.SSLContext, name: str = "localhost", buffers: int = 0
) -> Ends:
    stream, sock = plain_pair(buffers)
    return Ends(TlsStream(stream, listening(tls)), TlsPeer(sock, context, asks_for=name))


@pytest.fixture
async def ends(signed: Certificates, version: ssl.TLSVersion) -> AsyncIterator[Ends]:
    """A client and the proxy that have come to speak TLS."""
    context = client_context(signed.ca)
    context.maximum_version = version
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), context, buffers=64 * 1024)
    await ends.shake_hands()
    yield ends
    ends.close()


# what passes


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
    sizes = []
    while sum(sizes) < MUCH:
        await wait_all_tasks_blocked(0.001)
        sizes.append(len(await ends.stream.receive()))
    assert max(sizes) > 32 * 1024
    assert max(sizes) <= RECEIVE_SIZE


async def test_no_more_is_received_than_asked_for_and_the_rest_stays(ends):
    await ends.peer.say(b"frame and more")
    assert await ends.stream.receive(5) == b"frame"
    assert await ends.stream.receive(4) == b" and"
    assert await ends.stream.receive() == b" more"


async def test_what_is_put_back_comes_again_before_anything_else_once_others_have_had_their_turn(ends, nursery):
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
    sizes = []
    send = Stream.send

    async def sized(self: Stream, pieces: list[bytes]) -> None:
        sizes.extend(map(len, pieces))
        await send(self, pieces)

    monkeypatch.setattr(Stream, "send", sized)
    nursery.start_soon(ends.stream.send, [bytes(4 * MUCH)])
    await ends.peer.hear(4 * MUCH)
    assert max(sizes) < 2 * RECEIVE_SIZE


async def test_both_directions_at_once_lose_nothing(ends):
    heard = []

    async def receive() -> None:
        while sum(map(len, heard)) < 4 * MUCH:
            heard.append(await ends.stream.receive())

    async with trio.open_nursery() as all_four:
        all_four.start_soon(ends.stream.send, [b"x" * MUCH] * 4)
        all_four.start_soon(ends.peer.say, b"y" * 4 * MUCH)
        all_four.start_soon(receive)
        assert await ends.peer.hear(4 * MUCH) == b"x" * 4 * MUCH
    assert b"".join(heard) == b"y" * 4 * MUCH


async def test_who_waits_is_woken_and_who_is_woken_loses_nothing(ends, nursery):
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


async def test_cancelled_receiving_goes_on(ends):
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends.stream.receive()
    await ends.peer.say(b"later")
    assert await ends.stream.receive() == b"later"


async def test_each_receive_leaves_others_their_turn(ends):
    await ends.peer.say(b"x" * 100)
    await wait_all_tasks_blocked(0.01)
    turns = []

    async def receive() -> None:
        for _ in range(50):
            await ends.stream.receive(1)
            turns.append("stream")

    async def somebody() -> None:
        for _ in range(50):
            await trio.lowlevel.checkpoint()
            turns.append("somebody")

    async with trio.open_nursery() as both:
        both.start_soon(receive)
        both.start_soon(somebody)
    assert "somebody" in turns[:3]


# however the records are cut


@dataclass
class Split:
    """A client and the proxy, with the test between them."""

    stream: TlsStream
    peer: TlsPeer
    to_proxy: trio.SocketStream
    to_client: trio.SocketStream

    @classmethod
    async def begin(cls, signed: Certificates) -> Split:
        inner, to_proxy = plain_pair()
        to_client, outer = connected()
        streams = [trio.SocketStream(trio.socket.from_stdlib_socket(sock)) for sock in (to_client, outer)]
        peer = TlsPeer(streams[1], client_context(signed.ca), asks_for="localhost")
        split = cls(TlsStream(inner, listening(ListenerTls(signed.proxy))), peer, to_proxy, streams[0])
        with trio.CancelScope() as passing:
            async with trio.open_nursery() as both:
                both.start_soon(passed, to_proxy, streams[0])
                both.start_soon(passed, streams[0], to_proxy)
                both.start_soon(split.stream.handshake, PATIENCE)
                await peer.stream.do_handshake()
                await wait_all_tasks_blocked(0.01)
                passing.cancel()
        return split

    async def took(self) -> bytes:
        """What the client has sent."""
        await wait_all_tasks_blocked(0.005)
        return bytes(await self.to_client.receive_some())

    async def gives(self, data: bytes) -> None:
        """Hands it on to the proxy."""
        await self.to_proxy.send_all(data)

    def close(self) -> None:
        self.stream.close()
        self.peer.close()
        self.to_proxy.socket.close()
        self.to_client.socket.close()


async def passed(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    async for chunk in source:
        await sink.send_all(chunk)


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
            heard += await split.stream.receive()
    assert heard == data
    split.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(st.binary(max_size=40_000), max_size=6),
    cuts=st.lists(st.integers(1, 20_000), min_size=1, max_size=6),
    most=st.integers(1, 40_000),
)
def test_whatever_is_said_cut_and_asked_for_arrives(signed, said, cuts, most):
    async def main() -> None:
        split = await Split.begin(signed)
        heard = []

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


# ends


async def test_to_a_peer_that_has_ended_nothing_is_sent_and_nothing_breaks(ends):
    await ends.peer.ends()
    assert await ends.stream.receive() == b""
    await ends.stream.send([b"an answer"])


async def test_the_end_of_what_is_sent_is_tls_own_and_the_connections(ends):
    await ends.stream.send([b"last"])
    await ends.stream.send_eof()
    assert await ends.peer.hear_all() == b"last"
    # trio's stream raises if TLS has not said its end; what is below has ended too
    assert await ends.peer.below.receive_some() == b""


async def test_closing_says_the_end_too(ends):
    ends.stream.close()
    strict = ends.peer.stream
    strict._https_compatible = False
    assert await strict.receive_some() == b""


async def test_closing_twice_is_closing_once(ends):
    ends.stream.close()
    ends.stream.close()


async def test_what_was_cut_off_in_a_record_is_not_followed_by_an_end(ends, monkeypatch):
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.stream.send, [bytes(4 * MUCH)])
            await wait_all_tasks_blocked(0.01)
            scope.cancel()
    sent = []

    async def note(self: Stream, pieces: list[bytes]) -> None:
        sent.extend(pieces)

    monkeypatch.setattr(Stream, "send", note)
    await ends.stream.send_eof()
    assert sent == []


async def test_finishing_lets_the_peer_take_what_was_sent_while_it_sends_itself(ends, nursery):
    await ends.peer.say(b"never read")

    async def answer_and_close() -> None:
        await ends.stream.send([b"y" * MUCH])
        await ends.stream.finish(PATIENCE)
        ends.stream.close()

    nursery.start_soon(answer_and_close)
    assert await ends.peer.hear_all() == b"y" * MUCH
    await ends.peer.ends()
    ends.peer.close()


async def test_a_reset_says_which_stream_broke(ends):
    ends.peer.below.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    ends.peer.close()
    with pytest.raises(PeerLost) as lost:
        await ends.stream.receive()
    assert lost.value.stream is ends.stream


async def test_garbage_between_records_ends_the_connection_after_what_came_before(signed):
    split = await Split.begin(signed)
    await split.peer.say(b"good")
    await split.gives(await split.took() + b"\x17\x03\x03\x00\x20" + b"garbage!" * 4)
    assert await split.stream.receive() == b"good"
    with pytest.raises(PeerLost):
        assert await split.stream.receive() == b"never"
    split.close()


async def test_a_changed_byte_is_never_passed_on(signed):
    split = await Split.begin(signed)
    await split.peer.say(b"good")
    record = bytearray(await split.took())
    record[-1] ^= 1
    await split.gives(bytes(record))
    with pytest.raises(PeerLost, match="TLS"):
        await split.stream.receive()
    split.close()


async def test_a_peer_that_asks_to_renegotiate_is_refused_and_served(signed):
    """Python can't ask; what is held is that the option is set."""
    assert listening(ListenerTls(signed.proxy)).context.options & ssl.OP_NO_RENEGOTIATION
    assert dialling(UpstreamTls(signed.ca.path)).context.options & ssl.OP_NO_RENEGOTIATION


# who may speak with whom


async def refused(ends: Ends) -> tuple[str, str]:
    """Why there was no handshake, as the proxy has it and as the peer does."""
    said = []

    async def peer() -> None:
        try:
            await ends.peer.stream.do_handshake()
            # with TLS 1.3 a client is done before its certificate has been looked at
            await ends.peer.stream.receive_some()
        except trio.BrokenResourceError as error:
            said.append(str(error.__cause__))
            await ends.peer.says_what_is_left()

    async with trio.open_nursery() as both:
        both.start_soon(peer)
        with pytest.raises(NoHandshake) as error:
            await ends.stream.handshake(PATIENCE)
        assert error.value.stream is ends.stream
        ends.stream.close()
    return str(error.value), said[0]


async def test_the_name_that_a_client_asks_for_is_known(signed):
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), client_context(signed.ca), "LocalHost")
    await ends.shake_hands()
    assert ends.stream.server_name == "localhost"
    assert ends.stream.principal is None
    ends.close()


async def test_a_client_that_names_an_ip_address_asks_for_no_name(signed):
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), client_context(signed.ca), "127.0.0.1")
    await ends.shake_hands()
    assert ends.stream.server_name is None
    ends.close()


@pytest.mark.parametrize("clients", list(Clients))
async def test_a_clients_certificate_says_who_it_is(signed, version, clients):
    context = client_context(signed.ca, signed.client)
    context.maximum_version = version
    ends = client_and_proxy(signed, ListenerTls(signed.proxy, client_ca=signed.ca.path, clients=clients), context)
    await ends.shake_hands()
    assert ends.stream.principal.startswith("CN=client,OU=Testing cert ")
    ends.close()


async def test_a_client_without_a_certificate_is_let_in_where_it_is_optional(signed, version):
    context = client_context(signed.ca)
    context.maximum_version = version
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path, clients=Clients.OPTIONAL)
    ends = client_and_proxy(signed, tls, context)
    await ends.shake_hands()
    assert ends.stream.principal is None
    ends.close()


async def test_a_client_without_a_certificate_is_not_let_in_where_it_is_required(signed, version):
    context = client_context(signed.ca)
    context.maximum_version = version
    ends = client_and_proxy(signed, ListenerTls(signed.proxy, client_ca=signed.ca.path), context)
    ours, theirs = await refused(ends)
    assert ours == "TLS handshake failed: peer did not return a certificate"
    assert theirs
    ends.close()


async def test_a_client_with_a_certificate_of_another_ca_is_not_let_in(signed, tmp_path):
    stranger = Authority(tmp_path, "other").signs("stranger").path
    context = client_context(signed.ca, stranger)
    ends = client_and_proxy(signed, ListenerTls(signed.proxy, client_ca=signed.ca.path), context)
    ours, _ = await refused(ends)
    assert "unable to get local issuer certificate" in ours or "certificate verify failed" in ours
    ends.close()


async def test_a_client_that_does_not_trust_the_proxy_says_so(signed, tmp_path):
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), client_context(Authority(tmp_path, "other")))
    ours, theirs = await refused(ends)
    assert "alert unknown ca" in ours
    assert "CERTIFICATE_VERIFY_FAILED" in theirs
    ends.close()


async def test_a_version_below_the_minimum_is_refused(signed):
    context = client_context(signed.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    ends = client_and_proxy(signed, ListenerTls(signed.proxy, minimum=Version.TLS_1_3), context)
    ours, _ = await refused(ends)
    assert ours == "TLS handshake failed: unsupported protocol"
    ends.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\0\0\0\x1c\0\x12\0\3\0\0\0\1\0\4test", "the client speaks plaintext, and this port is for TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the peer does not speak TLS"),
        (b"\xff" * 100, "the peer does not speak TLS"),
        (b"\x16\x03\x01\x00\x05hello", "TLS handshake failed: "),
    ],
)
async def test_what_is_no_handshake_is_named(signed, said, reason):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    await sock.send_all(said)
    with pytest.raises(NoHandshake, match=reason):
        await client.handshake(PATIENCE)
    client.close()
    sock.socket.close()


async def test_a_client_that_says_nothing_is_given_up_in_time(signed, autojump_clock):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    with pytest.raises(NoHandshake, match="no TLS handshake in time"):
        await client.handshake(10)
    assert trio.current_time() > 9
    client.close()
    sock.socket.close()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_a_client_that_goes_during_the_handshake_has_gone(signed, said):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    await sock.send_all(said)
    await sock.send_eof()
    with pytest.raises(NoHandshake, match="closed the connection during the TLS handshake"):
        await client.handshake(PATIENCE)
    client.close()
    sock.socket.close()


# brokers


async def reached(
    tls: UpstreamTls, context: ssl.SSLContext | None, name: str = "localhost"
) -> tuple[Stream, TlsPeer | Peer]:
    """The proxy's connection to a broker. Raises NoHandshake."""
    below, sock = plain_pair()
    broker = Peer(sock) if context is None else TlsPeer(sock, context)

    async def shake_hands() -> None:
        try:
            if isinstance(broker, TlsPeer):
                await broker.stream.do_handshake()
            else:
                await sock.receive_some()
                await sock.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            broker.close()

    lost = None
    async with trio.open_nursery() as both:
        both.start_soon(shake_hands)
        try:
            stream = await towards_broker(below, dialling(tls), name, PATIENCE)
        except NoHandshake as error:
            lost = error
    if lost is not None:
        raise lost
    return stream, broker


async def test_a_broker_is_asked_for_by_its_name_and_answers(signed):
    asked = []
    context = broker_context(signed.broker)
    context.sni_callback = lambda tls, name, context: asked.append(name)
    stream, broker = await reached(UpstreamTls(ca=signed.ca.path), context)
    await stream.send([b"question"])
    await broker.hears(b"question")
    await broker.say(b"answer")
    assert await stream.receive() == b"answer"
    assert asked == ["localhost"]
    stream.close()
    broker.close()


async def test_a_broker_is_shown_the_proxys_certificate(signed):
    tls = UpstreamTls(ca=signed.ca.path, certificate=signed.proxy, anyone_may_use_it=True)
    stream, broker = await reached(tls, broker_context(signed.broker, signed.ca))
    assert (("commonName", "proxy"),) in broker.stream.getpeercert()["subject"]
    assert stream.principal is None
    stream.close()
    broker.close()


async def test_a_broker_of_another_name_is_none(signed):
    with pytest.raises(NoHandshake, match="Hostname mismatch"):
        await reached(UpstreamTls(ca=signed.ca.path), broker_context(signed.broker), "kafka.example.org")


async def test_a_broker_of_any_name_is_taken_where_that_was_asked_for(signed):
    tls = UpstreamTls(ca=signed.ca.path, any_host=True)
    stream, broker = await reached(tls, broker_context(signed.broker), "kafka.example.org")
    stream.close()
    broker.close()


async def test_a_broker_that_wants_a_certificate_says_so_after_the_handshake(signed):
    """As TLS 1.3 has it."""
    below, sock = plain_pair()
    broker = TlsPeer(sock, broker_context(signed.broker, signed.ca))

    async def refuse() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await broker.stream.do_handshake()
        await broker.says_what_is_left()

    async with trio.open_nursery() as both:
        both.start_soon(refuse)
        stream = await towards_broker(below, dialling(UpstreamTls(ca=signed.ca.path)), "localhost", PATIENCE)
    with pytest.raises(PeerLost, match="certificate required"):
        await stream.receive()
    stream.close()
    broker.close()


@pytest.mark.parametrize("any_host", [False, True])
async def test_a_broker_of_another_ca_is_none(signed, tmp_path, any_host):
    other = Authority(tmp_path, "other")
    with pytest.raises(NoHandshake, match="unable to get local issuer certificate"):
        await reached(UpstreamTls(ca=other.path, any_host=any_host), broker_context(signed.broker))


async def test_a_broker_that_speaks_plaintext_is_named_as_such(signed):
    with pytest.raises(NoHandshake, match="is it a plaintext port"):
        await reached(UpstreamTls(ca=signed.ca.path), None)


async def test_a_name_that_cannot_be_asked_for_is_no_brokers(signed):
    below, sock = plain_pair()
    with pytest.raises(NoHandshake, match="can't be asked for"):
        await towards_broker(below, dialling(UpstreamTls(ca=signed.ca.path)), ".bad", PATIENCE)
    sock.socket.close()


async def test_without_credentials_streams_are_as_they_were():
    below, sock = plain_pair()
    assert towards_client(below, None) is below
    assert await towards_broker(below, None, "localhost", 1) is below
    assert (below.is_tls, below.server_name, below.principal) == (False, None, None)
    await below.handshake(1)
    below.close()
    sock.socket.close()


# certificates that change


async def test_the_next_connection_has_the_new_certificate_and_the_old_one_goes_on(tmp_path: Path):
    signed = certificates(tmp_path)
    shared = listening(ListenerTls(signed.proxy))
    both = []
    for name in ("first", "second"):
        signed.ca.signs("proxy", common_name=name)
        below, sock = plain_pair()
        ends = Ends(TlsStream(below, shared), TlsPeer(sock, client_context(signed.ca), asks_for="localhost"))
        await ends.shake_hands()
        both.append(ends)
    for ends, name in zip(both, ("first", "second"), strict=True):
        assert (("commonName", name),) in ends.peer.stream.getpeercert()["subject"]
        await ends.stream.send([b"still here"])
        await ends.peer.hears(b"still here")
        ends.close()


class Files:
    """Credentials of which the files hang whoever looks at them, when told to."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.of = "clusters.main.tls"
        self.context = context
        self.looks = 0
        self.well = threading.Event()
        self.well.set()

    def look(self) -> None:
        self.looks += 1
        self.well.wait()


@pytest.fixture
def files(signed: Certificates) -> Iterator[Files]:
    files = Files(listening(ListenerTls(signed.proxy)).context)
    yield files
    files.well.set()


async def test_files_on_a_disk_that_hangs_are_waited_for_by_one_connection_and_by_one_thread(
    files, caplog, autojump_clock
):
    shared = LiveCredentials(files)
    files.well.clear()
    for number in range(5):
        before = trio.current_time()
        await shared.look()
        assert trio.current_time() - before == pytest.approx(0 if number else tls_streams.LOOK_SECONDS)
    assert files.looks == 1
    (record,) = caplog.records
    assert record.message == "certificates can't be looked at: those from before stay"
    assert record.keys["of"] == "clusters.main.tls"


async def test_once_the_disk_is_well_files_are_looked_at_again(files, monkeypatch):
    monkeypatch.setattr(tls_streams, "LOOK_SECONDS", 0.01)
    shared = LiveCredentials(files)
    files.well.clear()
    await shared.look()
    files.well.set()
    with trio.fail_after(PATIENCE):
        while files.looks < 2:
            await shared.look()
            await trio.sleep(0.001)


async def test_a_look_that_ends_just_as_it_is_given_up_does_not_hang(files, monkeypatch):
    shared, real = LiveCredentials(files), trio.to_thread.run_sync

    async def ends_too_late(look, **options):
        await real(look)
        await trio.sleep_forever()

    monkeypatch.setattr(tls_streams, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(trio.to_thread, "run_sync", ends_too_late)
    for looks in (1, 2):
        await shared.look()
        assert files.looks == looks


async def test_connections_that_begin_while_somebody_looks_share_the_next_look(files, nursery):
    shared, looked = LiveCredentials(files), []

    async def begin(number: int) -> None:
        await shared.look()
        looked.append(number)

    files.well.clear()
    nursery.start_soon(begin, 0)
    with trio.fail_after(PATIENCE):
        while not files.looks:
            await wait_all_tasks_blocked(0.001)
    for number in range(1, 20):
        nursery.start_soon(begin, number)
    await wait_all_tasks_blocked(0.001)
    files.well.set()
    with trio.fail_after(PATIENCE):
        while len(looked) < 20:
            await wait_all_tasks_blocked(0.001)
    # none of them had begun before the second one did
    assert files.looks == 2


async def test_a_handshake_does_not_wait_for_a_disk_that_hangs(files, signed, monkeypatch):
    monkeypatch.setattr(tls_streams, "LOOK_SECONDS", 0.01)
    shared = LiveCredentials(files)
    files.well.clear()
    for _ in range(2):
        below, sock = plain_pair()
        ends = Ends(TlsStream(below, shared), TlsPeer(sock, client_context(signed.ca), asks_for="localhost"))
        await ends.shake_hands()
        ends.close()
    assert files.looks == 1


async def test_files_that_no_thread_can_look_at_stay_as_they_are_and_that_is_said_once(files, caplog):
    shared = LiveCredentials(files)
    with no_threads():
        for _ in range(3):
            await shared.look()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.keys["reason"] == "no thread can be had"
    await shared.look()
    assert files.looks == 1
