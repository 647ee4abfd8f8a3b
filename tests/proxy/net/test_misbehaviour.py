"""Tests of misbehaving peers: each ends its own connection with its own cause, and leaves no stack trace."""

from __future__ import annotations

import errno
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MappingKind
from proxy.config.tls import ListenerTls
from proxy.conversation import Cause, Unexpected
from proxy.net.connection.causes import BY_PEERS, LINES, SAID_ELSEWHERE
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.schema.addresses import NETWORKS
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import FIND_COORDINATOR, HEARTBEAT, METADATA
from tests.logs import keys_of
from tests.proxy.conversation.script import request, response
from tests.proxy.net.cluster import PING, PONG, Broker
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE, Peer
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_peers import Certificates, TlsPeer, client_context

# a correct client's request after the misbehaviour, and its response
LAST, ANSWERED = request(HEARTBEAT, 3, 99), response(99, b"pong")
NAMED = {"mapping": MappingKind.SNI, "advertise": "kafka-{node_id}.test:9092", "bootstrap_name": "kafka.test"}


class Scene(NamedTuple):
    proxy: Running
    broker: Broker
    signed: Certificates
    monkeypatch: pytest.MonkeyPatch

    async def client(self) -> Peer:
        return await self.proxy.client()

    async def named(self, name: str) -> TlsPeer:
        """A client that requests this server name, and accepts any certificate."""
        at, context = self.proxy.listening, client_context(self.signed.ca)
        context.check_hostname = False
        return TlsPeer(await trio.open_tcp_stream(at.host, at.port), context, asks_for=name)

    def answers(self, make: Callable[[int], bytes | None]) -> None:
        """The broker answers requests other than the last one with these bytes, by their correlation ids."""

        async def answer(key: int, version: int, number: int) -> bytes | None:
            return ANSWERED if number == 99 else make(number)

        self.broker.answer = answer


Misdeed = Callable[[Scene], Awaitable[None]]


async def says(scene: Scene, *frames: bytes) -> None:
    """Sends this, and receives only the end."""
    client = await scene.client()
    with suppress(trio.BrokenResourceError):
        await client.say(*frames)
        await client.hear_all()
    client.close()


async def client_closes(scene: Scene) -> None:
    client = await scene.client()
    await client.say(PING)
    await client.hears(PONG)
    client.close()


async def probes(scene: Scene) -> None:
    (await scene.client()).close()


async def client_resets(scene: Scene) -> None:
    client = await scene.client()
    await client.say(PING)
    await client.hears(PONG)
    client.reset()


async def broker_closes(scene: Scene) -> None:
    scene.answers(lambda number: None)
    await says(scene, PING)


async def broker_resets(scene: Scene) -> None:
    async def reset(self: Broker, stream: trio.SocketStream) -> None:
        await stream.receive_some()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with scene.monkeypatch.context() as only_now:
        only_now.setattr(Broker, "_converse", reset)
        await says(scene, PING)


async def length_is_bad(scene: Scene) -> None:
    await says(scene, b"\xff\xff\xff\xff")


async def answer_is_anothers(scene: Scene) -> None:
    scene.answers(lambda number: response(number + 1))
    await says(scene, PING)


async def version_is_too_new(scene: Scene) -> None:
    await says(scene, request(METADATA, 99, 1))


async def answer_is_garbage(scene: Scene) -> None:
    scene.answers(lambda number: response(number, b"\xff" * 9))
    await says(scene, request(FIND_COORDINATOR, 4, 1, b"\0" * 9))


async def pings(scene: Scene) -> None:
    await says(scene, PING)


async def asks_the_proxys_own_query(scene: Scene) -> None:
    client = await scene.client()
    loop_probe = scene.proxy.cluster._loop_probe
    await client.say(loop_probe.frame)
    await client.hears(loop_probe.loop_answer)
    await client.hears_the_end()
    client.close()


async def unknown_name(scene: Scene) -> None:
    await shakes_hands(scene, "nobody.test")


async def unknown_node(scene: Scene) -> None:
    await shakes_hands(scene, "kafka-7.test")


async def shakes_hands(scene: Scene, name: str) -> None:
    client = await scene.named(name)
    with suppress(trio.BrokenResourceError):
        await client.stream.do_handshake()
        await client.hear_all()
    client.close()


async def says_nothing(scene: Scene) -> None:
    await says(scene)


async def stays(scene: Scene) -> None:
    client = await scene.client()
    await client.say(PING)
    await client.hears(PONG)
    await client.hears_the_end()
    client.close()


async def answer_never_ends(scene: Scene) -> None:
    """The response keeps the space that others wait for."""
    large = [{"key": "k", "error_message": "x" * 30_000, "node_id": 1, "host": HOST, "port": 1}] * 12

    def answer(number: int) -> bytes:
        frame = framed(catalog.encode_response(FIND_COORDINATOR, 4, number, {"coordinators": large}))
        return frame[:-1] if number == 1 else frame

    scene.answers(answer)
    stuck, other = await scene.client(), await scene.client()
    await stuck.say(request(FIND_COORDINATOR, 4, 1, b"\0" * 9))
    with trio.fail_after(PATIENCE):
        while not scene.proxy.cluster._cluster_context.held._held:
            await wait_all_tasks_blocked(0.005)
    await other.say(request(FIND_COORDINATOR, 4, 2, b"\0" * 9))
    assert (await other.hear_frame())[:4] == b"\0\0\0\2"
    other.close()
    stuck.close()


def loses(side: str) -> Misdeed:
    async def lost(scene: Scene) -> None:
        until = Stream.receive_until

        async def silent(self: Stream, *given: Any) -> Any:
            if (self.peer == str(scene.broker.address)) is not (side == "broker"):
                return await until(self, *given)
            raise PeerLost("Connection timed out", self) from TimeoutError(errno.ETIMEDOUT, "Connection timed out")

        with scene.monkeypatch.context() as only_now:
            only_now.setattr(Stream, "receive_until", silent)
            await says(scene, PING)

    return lost


async def one_too_many(scene: Scene) -> None:
    client = await scene.client()
    await client.say(PING)
    await client.hears(PONG)
    await says(scene)
    client.close()


# misbehaviours, and the settings under which they are detected
MISDEEDS: dict[Cause, tuple[Misdeed, dict[str, Any]]] = {
    Cause.CLIENT_CLOSED: (client_closes, {}),
    Cause.PROBE: (probes, {}),
    Cause.CLIENT_RESET: (client_resets, {}),
    Cause.BROKER_CLOSED: (broker_closes, {}),
    Cause.BROKER_RESET: (broker_resets, {}),
    Cause.BAD_LENGTH: (length_is_bad, {}),
    Cause.UNEXPECTED_RESPONSE: (answer_is_anothers, {}),
    Cause.UNSUPPORTED_VERSION: (version_is_too_new, {}),
    Cause.NOT_REWRITABLE: (answer_is_garbage, {}),
    Cause.TLS_HANDSHAKE: (pings, {"tls": True}),
    Cause.UNKNOWN_NAME: (unknown_name, {"tls": True, **NAMED}),
    Cause.UNKNOWN_NODE: (unknown_node, {"tls": True, **NAMED}),
    Cause.UPSTREAM_DOWN: (pings, {"upstream": NOWHERE}),
    Cause.LEADS_BACK: (asks_the_proxys_own_query, {}),
    Cause.CLIENT_LOST: (loses("client"), {}),
    Cause.BROKER_LOST: (loses("broker"), {}),
    Cause.IDLE: (says_nothing, {"idle_seconds": 0.08}),
    Cause.AGED: (stays, {"age_seconds": 0.08}),
    Cause.STALLED: (answer_never_ends, {"held_in_all": 500_000, "stalled_seconds": 1}),
    Cause.TOO_MANY_CONNECTIONS: (one_too_many, {"connection_limit": 1}),
    Cause.BAD_PROXY_HEADER: (length_is_bad, {"accept_proxy": True}),
    Cause.UNTRUSTED: (length_is_bad, {"accept_proxy": True, "trusted": NETWORKS.read(["192.0.2.0/24"])}),
}
# causes of the operator, and one that must not occur
NO_PEERS = {Cause.DRAINED, Cause.DRAIN_DEADLINE, Cause.PROXY_FAULT}
OF_ALL = ("held_in_all", "stalled_seconds")
# several run on one proxy; a lost machine affects everything that is read meanwhile
LOST = (Cause.CLIENT_LOST, Cause.BROKER_LOST)
PLAIN = [cause for cause, (_, how) in MISDEEDS.items() if not how and cause not in LOST]


def test_every_cause_that_a_peer_has_a_say_in_is_tried() -> None:
    assert set(MISDEEDS) | NO_PEERS == set(Cause)
    assert not set(MISDEEDS) & NO_PEERS


@pytest.mark.parametrize("cause", MISDEEDS)
async def test_misbehaviour_leaves_no_stack_trace(
    cause: Cause,
    nursery: trio.Nursery,
    signed: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG", "kafka-wiretap")
    broker = Broker()
    await broker.start(nursery)
    misdeed, how = MISDEEDS[cause]
    chosen = {"upstream": broker.address, **how, **({"tls": ListenerTls(signed.proxy)} if "tls" in how else {})}
    of_all = {name: chosen.pop(name) for name in OF_ALL if name in chosen}
    async with proxying(settings(chosen.pop("upstream"), **chosen), **of_all) as proxy:
        await misdeed(Scene(proxy, broker, signed, monkeypatch))
        await is_counted(proxy, cause)
    assert not [record for record in caplog.records if record.exc_info]
    assert "fault" not in caplog.text
    assert_is_said(cause, caplog)
    assert capfd.readouterr().err == ""


def assert_is_said(cause: Cause, caplog: pytest.LogCaptureFixture) -> None:
    """Asserts that the log says why the proxy has ended a connection, on one line, with the peer and the setting."""
    line, elsewhere = LINES.get(cause), SAID_ELSEWHERE.get(cause)
    events = (
        {elsewhere} if line is None else {line.event, *(kind.value for kind in Unexpected), "request has a bad length"}
    )
    level = logging.INFO if line is None else line.level
    said = [record for record in caplog.records if record.levelno >= level and record.message in events]
    assert len(said) == (cause not in BY_PEERS)
    for record in said:
        assert keys_of(record)["client"]
        assert line is None or keys_of(record)["connection"]
        assert "setting" in keys_of(record) or line is None or not line.setting


async def is_counted(proxy: Running, cause: Cause) -> None:
    with trio.fail_after(PATIENCE):
        while not proxy.closes().get(cause):
            await wait_all_tasks_blocked(0.005)


@pytest.mark.parametrize("cause", PLAIN)
async def test_other_clients_are_served_after_a_misbehaviour(
    cause: Cause, nursery: trio.Nursery, signed: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker()
    await broker.start(nursery)
    async with proxying(settings(broker.address)) as proxy:
        scene = Scene(proxy, broker, signed, monkeypatch)
        other = await scene.client()
        await other.say(LAST)
        await other.hears(ANSWERED)
        await MISDEEDS[cause][0](scene)
        await is_counted(proxy, cause)
        await other.say(LAST)
        await other.hears(ANSWERED)
