"""Tests of dialling connections to the target."""

from __future__ import annotations

import socket

from recorder.replay.player.dial import dial
from tests.recorder.replay.player.broker import LoopbackBroker, serving


async def test_the_kernel_takes_a_large_request_whole() -> None:
    broker = LoopbackBroker()
    async with serving(broker) as target:
        connection, _, _ = await dial(target, "127.0.0.1", broker.port, None)
        assert connection.plain is not None
        assert connection.plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 0
        await connection.aclose()
