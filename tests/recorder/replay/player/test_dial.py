"""Tests of dialling connections to the target."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace

import pytest
import trustme

from recorder.replay.player.dial import dial
from tests.recorder.replay.player.broker import LoopbackBroker, serving


async def test_the_kernel_takes_a_large_request_whole() -> None:
    broker = LoopbackBroker()
    async with serving(broker) as target:
        connection, _ = await dial(target, "127.0.0.1", broker.port, None)
        assert connection.plain is not None
        assert connection.plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 0
        await connection.aclose()


@pytest.mark.parametrize("name", ["localhost", "localhost."], ids=["a name as in TLS", "an absolute name"])
async def test_the_dot_of_an_absolute_name_is_neither_sent_nor_looked_for_in_the_certificate(name: str) -> None:
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("localhost").configure_cert(theirs)
    authority.configure_trust(ours)
    asked: list[str | None] = []
    theirs.sni_callback = lambda tls, name, context: asked.append(name)
    broker = LoopbackBroker()
    async with serving(broker, theirs) as target:
        connection, _ = await dial(replace(target, tls=(ours, name)), "127.0.0.1", broker.port, None)
        await connection.aclose()
    assert asked == ["localhost"]
