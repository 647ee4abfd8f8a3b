"""Frames to send through a relay, and scripted ends of it."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from trio.testing import wait_all_tasks_blocked

from proxy.rewrite import api_versions
from proxy.units import MIB
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, PRODUCE
from tests.proxy.conversation.script import request, response
from tests.proxy.net.peers import Peer
from tests.proxy.rewrite.responses import CORRELATION_ID

NEWER = api_versions.newest_known() + 1

# sizes of sockets' buffers that are soon full
SMALL = 64 * 1024


def ask(key: int, version: int, correlation_id: int = CORRELATION_ID) -> bytes:
    """Returns a whole request of that API with default fields; a Produce that expects a response."""
    values = {"acks": 1} if key == PRODUCE else {}
    return framed(catalog.encode_request(key, version, correlation_id, "tests", values))


def answer(key: int, version: int, body: dict[str, Any] | None = None, correlation_id: int = CORRELATION_ID) -> bytes:
    return framed(catalog.encode_response(key, version, correlation_id, body or {}))


def ping(correlation_id: int, body: bytes = b"ping") -> bytes:
    return request(HEARTBEAT, 3, correlation_id, body)


def pong(correlation_id: int, body: bytes = b"pong") -> bytes:
    return response(correlation_id, body)


def api_versions_newer(correlation_id: int) -> bytes:
    return request(API_VERSIONS, NEWER, correlation_id, b"\0")


def not_now(stream: Any, pieces: Any) -> Any:
    """Replaces `Stream.send_now` so that all bytes must wait."""
    return pieces


def divert(stream: Any, tell: Any) -> None:
    """Has a stream hand on the bytes to `tell` instead of sending them, and send nothing at once."""
    stream.send, stream.send_now = tell, partial(not_now, stream)


def take_now(peer: Peer) -> bytes:
    return os.read(peer.stream.socket.fileno(), 1)


def say_now(peer: Peer, data: bytes) -> int:
    try:
        return os.write(peer.stream.socket.fileno(), data)
    except BlockingIOError:
        return 0


async def said_until_stuck(peer: Peer, data: bytes) -> int:
    """Sends until the other end, which nobody reads, takes no more; returns how much it took."""
    taken, idle = 0, 0
    while idle < 5:
        now = say_now(peer, data[taken : taken + MIB])
        taken, idle = taken + now, 0 if now else idle + 1
        await wait_all_tasks_blocked(0.01)
    return taken
