"""The PROXY protocol's header, read from a client's connection: before anything else, TLS too."""

from __future__ import annotations

import trio

from proxy.net.sockets.proxy_protocol import HeaderReader, Malformed, Route
from proxy.net.sockets.streams import Stream


class NoHeader(Exception):
    """A connection does not begin with a header; the message says why. Close it."""


class Gone(Exception):
    """The client has gone without a byte, like a balancer that only checks whether the port is open."""


async def read_header(client: Stream, seconds: float) -> Route | None:
    """The client that the peer connects for; None if the header names none. No byte behind the header is read.

    Raises:
        NoHeader: there is no header, or it has not come in time.
        Gone: the peer has closed the connection without a byte.
        PeerLost: the connection broke.
    """
    try:
        with trio.fail_after(seconds):
            return await _read(client)
    except Malformed as error:
        raise NoHeader(str(error)) from error
    except trio.TooSlowError as error:
        raise NoHeader("it has not come in time") from error


async def _read(client: Stream) -> Route | None:
    reader, begun = HeaderReader(), False
    while reader.missing:
        # the header is not encrypted, whatever the client's stream makes of the bytes behind it
        piece = await Stream.receive(client, reader.missing)
        if not piece and not begun:
            raise Gone
        if not piece:
            raise NoHeader("it ends in its middle")
        begun = True
        reader.feed(piece)
    return reader.route
