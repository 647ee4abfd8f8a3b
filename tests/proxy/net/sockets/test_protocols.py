"""Tests of what a peer speaks instead of Kafka."""

from __future__ import annotations

import pytest

from proxy.net.sockets.protocols import HTTP, HTTP2, PROXY_HEADER, REDIS, SSH, TLS, spoken
from tests.proxy.conversation.script import request
from tests.tables import each_row


@each_row(
    ("said", "protocol"),
    [
        (b"\x16\x03\x01\x02\0", TLS),
        (b"\x16\x03\x03\x00\x7a", TLS),
        (b"\x15\x03\x03\0\x02\x02\x28", TLS),
        (b"GET / HTTP/1.1\r\n", HTTP),
        (b"POST /", HTTP),
        (b"HTTP/1.1 400 Bad Request\r\n", HTTP),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP2),
        (b"SSH-2.0-Go\r\n", SSH),
        (b"*3\r\n$3\r\nSET\r\n", REDIS),
        (b"PING\r\n", REDIS),
        (b"PROXY TCP4 ", PROXY_HEADER),
        (b"\r\n\r\n\0\r\nQUIT\n", PROXY_HEADER),
        (b"\0\0\0\x10\0\x12\0\3", None),
        (b"\xff\xff\xff\xff", None),
        (b"EHLO mail", "a text protocol"),
        (b"EHL", None),
        (b"EHL\0", None),
        (b"", None),
    ],
)
def test_the_first_bytes_tell_what_is_spoken(said: bytes, protocol: str | None) -> None:
    assert spoken(said) == protocol


@pytest.mark.parametrize("size", [0, 1, 100, 1_000_000])
def test_a_request_of_kafkas_is_none_of_them(size: int) -> None:
    assert spoken(request(0, 3, 1, bytes(size))) is None
