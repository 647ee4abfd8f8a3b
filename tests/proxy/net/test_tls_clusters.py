"""Tests of whole proxies with TLS on either side or both, and of other traffic to their ports."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MappingKind, ProxyProtocolVersion
from proxy.config.tls import Clients, ListenerTls, UpstreamTls
from proxy.mapping.nodes import Node
from proxy.net.reloading import ReloadedSettings
from proxy.net.sockets.proxy_protocol import ClientEndpoints, encode_header
from proxy.net.sockets.proxy_protocol_reader import HeaderParser
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.certificates import Authority
from tests.proxy.conversation.script import request, response
from tests.proxy.net.cluster import PING, PONG, Broker, ping
from tests.proxy.net.peers import HOST, PATIENCE, Peer
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings, whole
from tests.proxy.net.tls_peers import Certificates, TlsPeer, broker_context, certificates, client_context
from tests.proxy.rewrite.responses import read

LARGE = 5 * 1024 * 1024


class TlsBroker(Broker):
    """A broker on a TLS port."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self.context = context

    async def _connection(self, stream: trio.SocketStream) -> None:
        spoken = trio.SSLStream(stream, self.context, server_side=True, https_compatible=True)
        await super()._connection(spoken)


class MuteBroker(Broker):
    """A broker that never answers. `heard`: the bytes of each connection that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytes] = []

    async def _converse(self, stream: trio.SocketStream) -> None:
        heard = b""
        async for chunk in stream:
            heard += chunk
        self.heard.append(heard)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def plain(nursery: trio.Nursery) -> Broker:
    broker = Broker()
    await broker.start(nursery)
    return broker


@pytest.fixture
async def secure(nursery: trio.Nursery, signed: Certificates) -> TlsBroker:
    """A broker that requires a certificate."""
    broker = TlsBroker(broker_context(signed.broker, signed.ca))
    await broker.start(nursery)
    return broker


def shown(signed: Certificates, **others: object) -> UpstreamTls:
    return UpstreamTls(ca=signed.ca.path, certificate=signed.proxy, anyone_may_use_it=True, **others)


async def tls_client(
    proxy: Running, signed: Certificates, node_id: int | None = None, certificate: Path | None = None
) -> TlsPeer:
    plain = await proxy.client(node_id)
    return TlsPeer(plain.stream, client_context(signed.ca, certificate), asks_for=HOST)


async def closed(proxy: Running, **causes: int) -> None:
    """Returns once so many connections have ended for these causes."""
    with trio.fail_after(PATIENCE):
        while proxy.closes() != causes:
            await wait_all_tasks_blocked(0.005)


def reasons(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    found = [record for record in caplog.records if record.message == message and record.levelno >= logging.WARNING]
    return [str(record.keys.get("reason", "")) for record in found]


async def test_clients_speak_tls_and_brokers_do_not(plain, signed):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        await proxy.nodes(1)
        for node_id in (None, 1):
            client = await tls_client(proxy, signed, node_id)
            await ping(client)
            await client.ends()
        await closed(proxy, client_closed=2)
        facts = [event[1] for event in proxy.watcher.seen("opened")]
        assert [(one.tls, one.principal) for one in facts] == [(True, None)] * 2


async def test_tls_is_no_matter_of_the_dialect(secure, signed):
    fetch = framed(b"\0\1" + bytes(6))
    both = {"tls": ListenerTls(signed.proxy), "upstream_tls": shown(signed)}
    async with proxying(settings(secure.address, dialect=Dialect.KAFKA_07, **both)) as proxy:
        client = await tls_client(proxy, signed)
        await client.say(fetch)
        await client.hears(PONG[:4] + bytes(4) + PONG[8:])
        await client.ends()
        await closed(proxy, client_closed=1)


async def test_brokers_speak_tls_and_clients_do_not(secure, signed):
    """The proxy's own query uses TLS too."""
    async with proxying(settings(secure.address, upstream_tls=shown(signed))) as proxy:
        await proxy.nodes(1)
        for node_id in (None, 1):
            client = await proxy.client(node_id)
            await ping(client)
            await client.finish()
            await client.hears_the_end()
        await closed(proxy, client_closed=2)
        assert not any(event[1].tls for event in proxy.watcher.seen("opened"))


async def test_both_speak_tls_and_show_certificates(secure, signed):
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path)
    async with proxying(settings(secure.address, tls=tls, upstream_tls=shown(signed))) as proxy:
        client = await tls_client(proxy, signed, certificate=signed.client)
        await ping(client)
        (facts,) = [event[1] for event in proxy.watcher.seen("opened")]
        assert facts.principal.startswith("CN=client,")
        client.close()


async def test_frames_longer_than_records_pass_both_ways(secure, signed):
    async def echo(key: int, version: int, correlation_id: int) -> bytes:
        return response(correlation_id, b"y" * LARGE)

    secure.answer = echo
    async with proxying(settings(secure.address, tls=ListenerTls(signed.proxy), upstream_tls=shown(signed))) as proxy:
        client = await tls_client(proxy, signed)
        async with trio.open_nursery() as both:
            both.start_soon(client.say, request(HEARTBEAT, 3, 1, b"x" * LARGE))
            assert (await client.hear_frame())[4:] == b"y" * LARGE
        assert secure.frames[-1].endswith(b"x" * LARGE)
        client.close()


async def test_the_broker_learns_of_a_clients_end_at_once_and_after_what_it_sent(signed, nursery):
    """The end is not held until the broker has answered; a plaintext client's end would be held for 30 s."""
    broker = MuteBroker()
    await broker.start(nursery)
    async with proxying(settings(broker.address, tls=ListenerTls(signed.proxy))) as proxy:
        client = await tls_client(proxy, signed)
        await client.say(PING)
        await client.ends()
        with trio.fail_after(PATIENCE):
            while PING not in broker.heard:
                await wait_all_tasks_blocked(0.005)
        await closed(proxy, client_closed=1)
        client.close()


async def test_a_stop_lets_what_is_in_flight_be_answered_and_says_the_end(plain, signed):
    asked, go_on = trio.Event(), trio.Event()

    async def late(key: int, version: int, correlation_id: int) -> bytes:
        asked.set()
        await go_on.wait()
        return PONG

    plain.answer = late
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        client = await tls_client(proxy, signed)
        client.stream._https_compatible = False
        await client.say(PING)
        await asked.wait()
        proxy.stop()
        go_on.set()
        await client.hears(PONG)
        await client.hears_the_end()
        client.close()
        await proxy.ends_with(0)
        assert proxy.closes() == {"drained": 1}


async def test_connections_live_on_while_certificates_change(plain, tmp_path):
    signed = certificates(tmp_path)
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        old = await tls_client(proxy, signed)
        await ping(old)
        signed.ca.signs("proxy", common_name="the new one")
        new = await tls_client(proxy, signed)
        await ping(new)
        signed.proxy.write_text("broken")
        newest = await tls_client(proxy, signed)
        for client in (old, new, newest):
            await ping(client)
        names = [dict(pair for (pair,) in client.stream.getpeercert()["subject"]) for client in (old, new, newest)]
        assert [name["commonName"] for name in names] == ["proxy", "the new one", "the new one"]
        for client in (old, new, newest):
            client.close()


async def test_other_files_are_taken_for_new_connections_when_settings_are_read_again(plain, tmp_path):
    """Certificates of both sides change: clients and brokers of the old CA are then refused."""
    (tmp_path / "other").mkdir()
    signed, other = certificates(tmp_path), certificates(tmp_path / "other")
    secure = TlsBroker(broker_context(signed.broker, signed.ca))
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path)
    before = settings(plain.address, tls=tls, upstream_tls=UpstreamTls(ca=signed.ca.path, certificate=signed.proxy))
    new = replace(
        before,
        tls=ListenerTls(other.proxy, client_ca=other.ca.path),
        upstream_tls=UpstreamTls(ca=other.ca.path, certificate=other.proxy, server_name="localhost"),
    )
    async with trio.open_nursery() as nursery:
        await secure.start(nursery)
        before, new = (replace(one, upstream=(secure.address,)) for one in (before, new))
        async with proxying(before, reload=lambda: ReloadedSettings(whole(new))) as proxy:
            old = await tls_client(proxy, signed, certificate=signed.client)
            await ping(old)
            secure.context = broker_context(other.broker, other.ca)
            await proxy.read_again()
            client = await tls_client(proxy, other, certificate=other.client)
            await ping(client)
            await ping(old)
            stranger = await tls_client(proxy, other, certificate=signed.client)
            with pytest.raises(trio.BrokenResourceError):
                await ping(stranger)
            for one in (old, client, stranger):
                one.close()
        nursery.cancel_scope.cancel()


async def test_files_that_can_not_be_used_change_nothing(plain, signed, tmp_path, caplog):
    before = settings(plain.address, tls=ListenerTls(signed.proxy))
    new = replace(before, tls=ListenerTls(tmp_path / "none.pem"))
    async with proxying(
        before, drain_seconds=60, reload=lambda: ReloadedSettings(whole(new, drain_seconds=1))
    ) as proxy:
        await proxy.read_again()
        assert "none.pem" in reasons(caplog, "settings stay as they are")[0]
        assert proxy.proxy._settings.drain_seconds == 60
        client = await tls_client(proxy, signed)
        await ping(client)
        client.close()


async def test_a_node_id_without_a_name_does_not_end_the_proxy_at_a_reload(nursery, signed, caplog):
    """A broker has the node id -7; then SIGHUP comes."""
    broker = Broker()
    await broker.start(nursery)
    broker.nodes = [Node(-7, HOST, 9)]
    chosen = settings(
        broker.address,
        mapping=MappingKind.SNI,
        advertise="broker-{node_id}.proxy.test:443",
        bootstrap_name="proxy.test",
        tls=ListenerTls(signed.proxy),
    )
    async with proxying(chosen, reload=lambda: ReloadedSettings(whole(chosen))) as proxy:
        with trio.fail_after(PATIENCE):
            while METADATA not in [key for key, _ in broker.asked]:
                await wait_all_tasks_blocked(0.005)
        await proxy.read_again()
        assert not proxy.finished.is_set()
        assert reasons(caplog, "settings stay as they are") == []


# refused clients


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (PING, "the client speaks plaintext, and this port is for TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the peer does not speak TLS"),
        (b"", "the peer closed the connection during the TLS handshake; this is a TLS port"),
    ],
)
async def test_a_client_without_tls_is_closed_counted_and_logged_once(plain, signed, caplog, said, reason):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        for _ in range(3):
            client = await proxy.client()
            await client.say(said)
            await client.finish()
            await client.hear_all()
            client.close()
        await closed(proxy, tls_handshake=3)
        assert reasons(caplog, "no TLS with a client") == [reason]
        assert not any(record.exc_info for record in caplog.records)
        assert proxy.watcher.seen("opened") == []


async def test_clients_of_tls_on_a_plaintext_port_are_named_in_the_log_once(plain, signed, caplog):
    async with proxying(settings(plain.address)) as proxy:
        for _ in range(3):
            client = await tls_client(proxy, signed)
            with pytest.raises(trio.BrokenResourceError):
                await client.stream.do_handshake()
            client.close()
        await closed(proxy, bad_length=3)
        assert len(reasons(caplog, "client speaks TLS, and this port is for plaintext")) == 1


async def test_a_client_that_says_nothing_is_closed_in_time(plain, signed, autojump_clock):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy), tls_seconds=3)) as proxy:
        client = await proxy.client()
        await client.hears_the_end()
        client.close()
        await closed(proxy, tls_handshake=1)


async def test_no_broker_is_dialled_for_a_refused_client(plain, signed):
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path, clients=Clients.REQUIRED)
    async with proxying(settings(plain.address, tls=tls)) as proxy:
        await proxy.nodes(1)
        before = plain.connections
        client = await tls_client(proxy, signed)
        await client.stream.do_handshake()
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.receive_some()
        client.close()
        await closed(proxy, tls_handshake=1)
        assert plain.connections == before


async def test_a_stop_during_a_handshake_waits_no_longer_than_the_drain(plain, signed):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy)), drain_seconds=0.01) as proxy:
        client = await proxy.client()
        with trio.fail_after(PATIENCE):
            while not proxy.cluster.traffic.connections_opened:
                await wait_all_tasks_blocked(0.005)
        proxy.stop()
        await proxy.ends_with(0)
        client.close()


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (lambda signed, other: UpstreamTls(ca=other.path), "self-signed certificate in certificate chain"),
        (lambda signed, other: shown(signed, server_name="kafka.example.org"), "Hostname mismatch"),
    ],
)
async def test_a_broker_that_is_another_is_down_for_that_reason(secure, signed, tmp_path, caplog, tls, reason):
    upstream = tls(signed, Authority(tmp_path, "other"))
    async with proxying(settings(secure.address, upstream_tls=upstream)) as proxy:
        client = await proxy.client()
        await client.hears_the_end()
        client.close()
        await closed(proxy, upstream_down=1)
        (said,) = reasons(caplog, "upstream is down")
        assert reason in said


# one port for all nodes

NAMED = {"mapping": MappingKind.SNI, "advertise": "kafka-{node_id}.test:9092", "bootstrap_name": "kafka.test"}
UNKNOWN = "the client asks for a name that is no node's, nor the bootstrap listener's"
NAMELESS = "the client asks for no name (SNI), so nobody knows which node it wants"


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A proxy with a certificate for all of its names."""
    folder = tmp_path_factory.mktemp("wild")
    ca = Authority(folder)
    pem = ca.signs("proxy", "kafka.test", *(f"kafka-{number}.test" for number in range(10)), "other.test").path
    return Certificates(ca, pem, pem, pem)


async def asking_for(proxy: Running, wild: Certificates, name: str | None) -> TlsPeer:
    context = client_context(wild.ca)
    context.check_hostname = name is not None
    plain = await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port)
    return TlsPeer(plain, context, asks_for=name)


async def test_a_node_is_found_by_the_name_that_the_client_asks_for(plain, nursery, wild):
    other = Broker()
    await other.start(nursery)
    plain.nodes = [Node(number, HOST, broker.address.port) for number, broker in ((1, plain), (2, other))]
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, "kafka.test")
        await client.say(framed(catalog.encode_request(METADATA, 12, 77, "tests", {})))
        told = read(METADATA, 12, await client.hear_frame())["brokers"]
        assert [(node["host"], node["port"]) for node in told] == [("kafka-1.test", 9092), ("kafka-2.test", 9092)]
        await ping(await asking_for(proxy, wild, "kafka-2.test"))
        assert other.asked == [(HEARTBEAT, 3)]
        await ping(await asking_for(proxy, wild, "KAFKA-1.test"))
        assert plain.asked.count((HEARTBEAT, 3)) == 1
        assert [event[1].node for event in proxy.watcher.seen("opened")] == [None, 2, 1]


async def test_a_client_of_an_unknown_node_is_closed_after_discovery(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, "kafka-9.test")
        await client.hears_the_end()
        await closed(proxy, unknown_node=1)


@pytest.mark.parametrize(("name", "reason"), [("other.test", UNKNOWN), ("kafka-x.test", UNKNOWN), (None, NAMELESS)])
async def test_a_name_that_leads_nowhere_is_refused_in_the_handshake(name, reason, plain, wild, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, name)
        with pytest.raises(trio.BrokenResourceError) as error:
            await client.say(PING)
        assert "UNRECOGNIZED_NAME" in str(error.value.__cause__)
        await closed(proxy, unknown_name=1)
        (record,) = [record for record in caplog.records if record.message == "no TLS with a client"]
        assert record.keys["reason"] == reason
        assert [record.keys[key] for key in record.keys if key == "asked_for"] == ([] if name is None else [name])
        assert (HEARTBEAT, 3) not in plain.asked


async def test_one_reason_for_different_refused_names_is_logged_once(plain, wild, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        for number in range(5):
            client = await asking_for(proxy, wild, f"other-{number}.test")
            with pytest.raises(trio.BrokenResourceError):
                await client.say(PING)
        await closed(proxy, unknown_name=5)
    assert reasons(caplog, "no TLS with a client") == [UNKNOWN]


async def test_without_a_handshake_it_is_no_name_that_was_wrong(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        plain_client = Peer(await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port))
        await plain_client.say(PING)
        await plain_client.hears_the_end()
        await closed(proxy, tls_handshake=1)


async def test_other_mappings_take_any_name(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy))) as proxy:
        await ping(await asking_for(proxy, wild, "other.test"))


# behind a balancer


@pytest.mark.parametrize("version", [ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO])
async def test_a_balancers_header_comes_before_tls(plain, signed, version):
    endpoints = ClientEndpoints(Address("192.0.2.7", 50123), Address("198.51.100.1", 9092))
    chosen = settings(plain.address, tls=ListenerTls(signed.proxy), accept_proxy=True)
    async with proxying(chosen) as proxy:
        sock = (await proxy.client()).stream
        # the header and the first bytes of TLS in one packet
        client = TlsPeer(sock, client_context(signed.ca), asks_for=HOST)
        held = HeldBack(sock, encode_header(version, endpoints))
        client.stream.transport_stream = held
        await ping(client)
        (facts,) = (event[1] for event in proxy.watcher.seen("opened"))
        assert (facts.client, facts.tls) == (str(endpoints.client), True)


class HeldBack(trio.abc.HalfCloseableStream):
    """A stream with other bytes before its first ones."""

    def __init__(self, below: trio.SocketStream, first: bytes) -> None:
        self._below, self._first = below, first

    async def send_all(self, data: bytes) -> None:
        first, self._first = self._first, b""
        await self._below.send_all(first + bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._below.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._below.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._below.send_eof()

    async def aclose(self) -> None:
        await self._below.aclose()


async def test_without_a_header_there_is_no_handshake(plain, signed, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy), accept_proxy=True)) as proxy:
        client = await tls_client(proxy, signed)
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.do_handshake()
        await closed(proxy, bad_proxy_header=1)


async def test_brokers_are_sent_the_header_before_tls(nursery, signed):
    came: list[ClientEndpoints | None] = []

    class Behind(TlsBroker):
        """A balancer that ends TLS and reads headers."""

        async def _connection(self, stream: trio.SocketStream) -> None:
            reader = HeaderParser()
            while reader.missing:
                reader.feed(await stream.receive_some(reader.missing))
            came.append(reader.endpoints)
            await super()._connection(stream)

    broker = Behind(broker_context(signed.broker, signed.ca))
    await broker.start(nursery)
    chosen = settings(broker.address, upstream_tls=shown(signed), send_proxy=ProxyProtocolVersion.TWO)
    async with proxying(chosen) as proxy:
        await proxy.nodes(1)
        client = await proxy.client()
        await ping(client)
        own = ClientEndpoints(Address(*client.stream.socket.getsockname()), proxy.listening)
        assert came[0] is None
        assert came[-1] == own
