"""Reads the PROXY protocol's header from a client's socket. The header comes first, before a TLS handshake."""

from __future__ import annotations

import trio

from proxy.net.sockets.proxy_protocol import ClientEndpoints, HeaderParser, Malformed
from proxy.net.sockets.streams import Stream


class NoHeader(Exception):
    """The connection does not begin with a whole header; the message says why. Close the connection."""


class NothingSent(Exception):
    """The peer closed the connection without sending a byte, as a load balancer's health check does."""


async def read_header(client: Stream, seconds: float) -> ClientEndpoints | None:
    """Returns the client's endpoints; None if the header names no client. Reads no byte after the header.

    Raises:
        NoHeader: there is no whole header, or it did not come in time.
        NothingSent: the peer has closed the connection without sending a byte.
        PeerLost: the connection broke.
    """
    try:
        with trio.fail_after(seconds):
            return await _read(client)
    except Malformed as error:
        raise NoHeader(str(error)) from error
    except trio.TooSlowError as error:
        raise NoHeader("it has not come in time") from error


async def _read(client: Stream) -> ClientEndpoints | None:
    parser, begun = HeaderParser(), False
    while parser.missing:
        # not `client.receive`: a TLS stream would decrypt, and the header comes before TLS
        piece = await Stream.receive(client, parser.missing)
        if not piece and not begun:
            raise NothingSent
        if not piece:
            raise NoHeader("it ends in its middle")
        begun = True
        parser.feed(piece)
    return parser.endpoints
