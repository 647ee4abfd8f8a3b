"""Tests of TLS handshakes with clients and brokers: names, certificates, versions, and bytes that are no handshake."""

from __future__ import annotations

import ssl

import pytest
import trio

from proxy.config.tls import Clients, ListenerTls, UpstreamTls, Version
from proxy.net.sockets.streams import NothingSent, PeerLost, Stream
from proxy.net.sockets.tls import NoHandshake, TlsStream, towards_broker, towards_client
from tests.certificates import Authority
from tests.proxy.net.peers import PATIENCE, Peer
from tests.proxy.net.tls_peers import (
    Ends,
    TlsPeer,
    broker_context,
    client_and_proxy,
    client_context,
    dialling,
    listening,
    plain_pair,
)


async def refused(ends: Ends) -> tuple[str, str]:
    """Returns the reasons for the failed handshake, by the proxy and by the peer."""
    said = []

    async def peer() -> None:
        try:
            await ends.peer.stream.do_handshake()
            # with TLS 1.3, a client has finished before its certificate is checked
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
    assert ends.stream.requested_name == "localhost"
    assert ends.stream.principal is None
    ends.close()


async def test_a_client_that_names_an_ip_address_asks_for_no_name(signed):
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), client_context(signed.ca), "127.0.0.1")
    await ends.shake_hands()
    assert ends.stream.requested_name is None
    ends.close()


@pytest.mark.parametrize("clients", list(Clients))
async def test_a_clients_certificate_is_its_principal(signed, version, clients):
    context = client_context(signed.ca, signed.client)
    context.maximum_version = version
    ends = client_and_proxy(signed, ListenerTls(signed.proxy, client_ca=signed.ca.path, clients=clients), context)
    await ends.shake_hands()
    principal = ends.stream.principal
    assert principal is not None
    assert principal.startswith("CN=client,OU=Testing cert ")
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


async def test_a_client_that_does_not_trust_the_proxy_sends_an_alert(signed, tmp_path):
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
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, and this port is for TLS"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the client speaks HTTP/2, and this port is for TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the client speaks SSH, and this port is for TLS"),
        (b"*1\r\n$4\r\nPING\r\n", "the client speaks Redis, and this port is for TLS"),
        (
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "the client sends a PROXY header, and this port takes none from it",
        ),
        (b"\xff" * 100, "the peer does not speak TLS"),
        (b"\x16\x03\x01\x00\x05hello", "TLS handshake failed: "),
    ],
)
async def test_bytes_that_are_no_handshake_are_named(signed, said, reason):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    await sock.send_all(said)
    with pytest.raises(NoHandshake, match=reason):
        await client.handshake(PATIENCE)
    client.close()
    sock.socket.close()


async def test_a_client_that_says_nothing_is_abandoned_in_time(signed, autojump_clock):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    with pytest.raises(NoHandshake, match="no TLS handshake in time"):
        await client.handshake(10)
    assert trio.current_time() > 9
    client.close()
    sock.socket.close()


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_client_that_goes_without_a_byte_was_a_probe(signed, is_reset):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    if is_reset:
        Peer(sock).reset()
    sock.socket.close()
    with pytest.raises(NothingSent):
        await client.handshake(PATIENCE)
    client.close()


async def test_a_client_that_goes_during_the_handshake_has_gone(signed):
    stream, sock = plain_pair()
    client = TlsStream(stream, listening(ListenerTls(signed.proxy)))
    await sock.send_all(b"\x16\x03\x01")
    await sock.send_eof()
    with pytest.raises(NoHandshake, match="closed the connection during the TLS handshake"):
        await client.handshake(PATIENCE)
    client.close()
    sock.socket.close()


async def reached(
    tls: UpstreamTls, context: ssl.SSLContext | None, name: str = "localhost"
) -> tuple[Stream, TlsPeer | Peer]:
    """Returns the proxy's connection to a broker. Raises NoHandshake."""
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


async def test_a_broker_is_requested_by_its_name_and_answers(signed):
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


async def test_the_dot_of_an_absolute_name_is_neither_sent_nor_looked_for_in_the_certificate(signed):
    """RFC 6066: Java's brokers refuse a server name with a dot at its end."""
    asked = []
    context = broker_context(signed.broker)
    context.sni_callback = lambda tls, name, context: asked.append(name)
    stream, broker = await reached(UpstreamTls(ca=signed.ca.path), context, "localhost.")
    assert asked == ["localhost"]
    stream.close()
    broker.close()


async def test_a_broker_is_shown_the_proxys_certificate(signed):
    tls = UpstreamTls(ca=signed.ca.path, certificate=signed.proxy, anyone_may_use_it=True)
    stream, broker = await reached(tls, broker_context(signed.broker, signed.ca))
    assert isinstance(broker, TlsPeer)
    assert (("commonName", "proxy"),) in broker.stream.getpeercert()["subject"]
    assert stream.principal is None
    stream.close()
    broker.close()


async def test_a_broker_with_a_certificate_for_another_name_is_refused(signed):
    with pytest.raises(NoHandshake, match="Hostname mismatch"):
        await reached(UpstreamTls(ca=signed.ca.path), broker_context(signed.broker), "kafka.example.org")


async def test_a_broker_of_any_name_is_accepted_with_any_host(signed):
    tls = UpstreamTls(ca=signed.ca.path, any_host=True)
    stream, broker = await reached(tls, broker_context(signed.broker), "kafka.example.org")
    stream.close()
    broker.close()


async def test_a_broker_that_wants_a_certificate_refuses_after_the_handshake(signed):
    """TLS 1.3 works like this."""
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
async def test_a_broker_with_a_certificate_of_another_ca_is_refused(signed, tmp_path, any_host):
    other = Authority(tmp_path, "other")
    with pytest.raises(NoHandshake, match="unable to get local issuer certificate"):
        await reached(UpstreamTls(ca=other.path, any_host=any_host), broker_context(signed.broker))


async def test_a_broker_that_speaks_plaintext_is_named_as_such(signed):
    with pytest.raises(NoHandshake, match="is it a plaintext port"):
        await reached(UpstreamTls(ca=signed.ca.path), None)


async def test_a_name_that_sni_can_not_carry_is_no_brokers(signed):
    below, sock = plain_pair()
    with pytest.raises(NoHandshake, match="can't be a server name"):
        await towards_broker(below, dialling(UpstreamTls(ca=signed.ca.path)), ".bad", PATIENCE)
    sock.socket.close()


async def test_without_credentials_streams_are_as_they_were():
    below, sock = plain_pair()
    assert towards_client(below, None) is below
    assert await towards_broker(below, None, "localhost", 1) is below
    assert (below.is_tls, below.requested_name, below.principal) == (False, None, None)
    await below.handshake(1)
    below.close()
    sock.socket.close()
